"""Which Python Spark starts for ``format("barnabas")``: the driver's own, unless the user has said another.

Spark looks for Python data sources, plans with them and runs their tasks by ``PYSPARK_DRIVER_PYTHON``,
else ``PYSPARK_PYTHON``, else ``python3`` from the PATH. The last is another Python than the driver's
where an environment is used without being activated: ``.venv/bin/python job.py``, an IDE, cron, a
notebook's kernel. Importing :mod:`barnabas.pipeline` before the session starts names the driver's
interpreter, by the one variable that UDFs do not go by; :func:`for_session` says which to use in a
session that runs already; :func:`prefer_own_for_all` names it for UDFs too, in a session that this package
starts. What is set is never changed, nor a program that ``spark-submit`` started,
whose JVM has its environment.

Executors on other machines start the same path. Where they have Python elsewhere, ``PYSPARK_PYTHON`` is
set to a path that driver and executors have.

Source: Spark's ``PythonUtils.defaultPythonExec``, ``SparkContext.pythonExec``.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import MutableMapping
from shutil import which
from typing import Any

FOR_DATA_SOURCES = "PYSPARK_DRIVER_PYTHON"
FOR_ALL = "PYSPARK_PYTHON"
JVM_IS_THERE = "PYSPARK_GATEWAY_PORT"
IN_CONFIGURATION = "spark.pyspark.python"
DEFAULT = "python3"

log = logging.getLogger(__name__)


def prefer_own(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Name this interpreter for the data sources of a session that is started later, where nothing is
    said and Spark would find another. Whether it did."""
    if any(environment.get(variable) for variable in (FOR_DATA_SOURCES, FOR_ALL, JVM_IS_THERE)):
        return False
    if not sys.executable:
        return False  # Python is embedded in another program
    found = which(DEFAULT, path=environment.get("PATH"))
    if found is not None and os.path.dirname(os.path.abspath(found)) == _own_directory():
        return False
    environment[FOR_DATA_SOURCES] = sys.executable
    return True


def prefer_own_for_all(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Prefer this interpreter for UDFs too, in a session that this package starts. Whether it did."""
    if environment.get(FOR_ALL) or environment.get(JVM_IS_THERE) or not sys.executable:
        return False
    environment[FOR_ALL] = sys.executable
    return True


def _own_directory() -> str:
    # Not the real path: an environment's Python is a link to one that lacks its packages.
    return os.path.dirname(os.path.abspath(sys.executable))


def for_session(context: Any) -> str:
    """The interpreter for a data source that is registered in a running session's ``SparkContext``."""
    chosen: str = context.pythonExec
    configured: str | None = context.getConf().get(IN_CONFIGURATION)
    if chosen != DEFAULT or os.environ.get(FOR_ALL):
        return chosen
    if configured:
        return configured
    if not sys.executable:
        return chosen
    if not str(context.master).startswith("local"):
        log.warning(
            "pipeline.interpreter_chosen: executors start %s for format barnabas; where they have Python"
            " elsewhere, set %s, before the session starts, to a path that driver and executors have",
            sys.executable,
            FOR_ALL,
        )
    return sys.executable
