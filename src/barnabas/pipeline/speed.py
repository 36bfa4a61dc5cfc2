"""Says once per worker process that it reads and writes without compiled loops."""

from __future__ import annotations

import logging

from barnabas.record import columnar_kernels

log = logging.getLogger(__name__)
_is_said = False


def warn_if_interpreted() -> None:
    """A warning on the process's log, which is the executor's standard error, the first time that it is
    asked for where numba is missing."""
    global _is_said
    if columnar_kernels.COMPILED or _is_said:
        return
    _is_said = True
    log.warning(
        "pipeline.loops_interpreted: numba is not installed for this worker's Python, so that reads and"
        " writes take some 300 times as long per record, with the same results; install it on every"
        " executor: pip install 'barnabas[spark]'"
    )
