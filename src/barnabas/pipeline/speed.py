"""Says once per worker process that its loops are not compiled, or not kept."""

from __future__ import annotations

import logging
import socket

from barnabas.record import columnar_kernels, kernel_cache

log = logging.getLogger(__name__)
_is_said = False


def warn_if_interpreted() -> None:
    """A warning on the process's log, which is the executor's standard error, the first time that it is
    asked for where numba is missing or finds no folder."""
    global _is_said
    if _is_said or (columnar_kernels.COMPILED and kernel_cache.is_kept):
        return
    _is_said = True
    host = socket.gethostname()
    if columnar_kernels.COMPILED:
        log.warning(
            "pipeline.loops_not_kept: executor on %s finds no folder to keep machine code in, so that each"
            " worker process compiles for some seconds; set NUMBA_CACHE_DIR there to a folder that it can"
            " write",
            host,
        )
        return
    log.warning(
        "pipeline.loops_interpreted: numba is not installed for this worker's Python on %s, so that reads"
        " and writes take some 300 times as long per record, with the same results; install it on every"
        " executor: pip install 'barnabas[spark]'",
        host,
    )
