"""Spark's Python daemon, with this package loaded before it forks: ``spark.python.daemon.module``.

Spark forks each worker of an executor from one daemon, which has loaded next to nothing, so that each
worker imports Arrow, numba and this package and loads the compiled loops for itself: half a second of CPU
time before its first row. Forks of this daemon have all of that, in pages that they share.

Where the loops are not compiled yet, this compiles those of reading, once for an executor. A fork has only
the thread that forked. Of what is loaded Arrow's allocator and numpy's OpenBLAS have threads, which they end
or start again around a fork themselves; no Python runs in another thread.

Source: ``PythonWorkerFactory`` and ``pyspark/daemon.py``.
"""

from __future__ import annotations

import gc

MODULE = __name__ if __name__ != "__main__" else "barnabas.pipeline.workers.daemon"
"""The value of ``spark.python.daemon.module``."""


def load() -> None:
    """Load what workers need. Prints nothing: Spark reads a port from standard output."""
    import pyspark.worker  # noqa: F401

    from barnabas.host import tls_contexts  # noqa: F401 - some clusters are secured
    from barnabas.pipeline.read import source  # noqa: F401
    from barnabas.pipeline.warm_up import warm_up_reading
    from barnabas.pipeline.write import writers  # noqa: F401
    from barnabas.security import sasl_client, tls_stream  # noqa: F401

    warm_up_reading()
    gc.freeze()


def main() -> None:
    from pyspark.daemon import manager

    load()
    manager()


if __name__ == "__main__":
    main()
