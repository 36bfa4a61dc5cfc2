"""The errors of Spark about an executor that is not set up, as one sentence with host and remedy.

A worker process without the package, or with another Python, cannot say so itself: Spark's text is all that
there is. Source: ``pyspark/worker.py``, ``TaskSetManager`` (*Lost task ... (TID n) (host executor id)*).
"""

from __future__ import annotations

import re

HOST = re.compile(r"\(TID \d+\) \((\S+) executor (\w+)\)")
MISSING = re.compile(r"No module named '([\w.]+)'")
PYTHONS = re.compile(r"different version: (\S+) than that in driver:? (\d[\d.]*\d)")
PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
PACKAGES = ("barnabas", "pyspark_barnabas", "numpy", "pandas", "pyarrow", "pyspark")
INSTALL = "pip install 'barnabas[spark]'"


def explained(text: str) -> str | None:
    """One sentence, or None where the text says nothing of that kind."""
    found = HOST.findall(text)
    where = f"executor {found[-1][1]} on {found[-1][0]}" if found else "an executor"
    program = PROGRAM.search(text)
    if program is not None:
        return (
            f"{where} has no Python at {program[1]}: set PYSPARK_PYTHON, before the session starts, to a"
            " path that the driver and every executor have"
        )
    pythons = PYTHONS.search(text)
    if pythons is not None:
        return (
            f"{where} has Python {pythons[1]}, and the driver {pythons[2]}: set PYSPARK_PYTHON to the same"
            " minor version for both"
        )
    missing = MISSING.search(text)
    if missing is not None and missing[1].split(".")[0] in PACKAGES:
        return (
            f"{where} has no package {missing[1]} in the Python that Spark starts there: {INSTALL} there,"
            " or send an environment with --archives and name its Python by PYSPARK_PYTHON"
        )
    return None
