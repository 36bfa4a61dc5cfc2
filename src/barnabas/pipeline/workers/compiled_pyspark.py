"""Python processes of a local Spark load pyspark's modules compiled, not from the archive of its home.

Spark puts ``python/lib/pyspark.zip`` of its home before all else on the path of each Python process. Its
modules have no byte code there, so each process compiles what it imports: 0.7 s of CPU time for each of the
processes that a session's first query needs, and for each stream that starts. pyspark as pip installs it has
the same modules beside the archive, compiled. A home that links to everything but ``python`` has no archive,
and the modules of the installation are found.

For sessions whose executors are in the driver's JVM: YARN sends the archive of the driver's home to
executors.

Source: Spark's ``PythonUtils.sparkPythonPath``, ``PythonWorkerFactory``; Python's ``zipimport``.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree

from barnabas.host.own_folder import own_folder

HOME = "SPARK_HOME"
JVM_IS_THERE = "PYSPARK_GATEWAY_PORT"
NAME = "barnabas-spark"
LINKED = ("bin", "data", "jars", "licenses", "sbin")
"""Folders of a home; ``python``, which has the archive, is left out."""


def is_local(master: str) -> bool:
    """Whether executors are in the driver's JVM: ``local``, ``local[*]``."""
    return master.partition("[")[0] == "local"


@contextmanager
def compiled_pyspark(environment: MutableMapping[str, str] = os.environ) -> Iterator[bool]:
    """Around the start of a session with a local master: its JVM gets such a home. Changes nothing where
    ``SPARK_HOME`` is set, a JVM runs already, or pyspark is not pip's. Yields whether it gets one."""
    home = None
    if not environment.get(HOME) and not environment.get(JVM_IS_THERE):
        home = _home()
    if home is None:
        yield False
        return
    environment[HOME] = home
    try:
        yield True
    finally:
        environment.pop(HOME, None)


def _home() -> str | None:
    """A folder of links to the installation; None where there is none, or no folder can be made."""
    spec, folder = find_spec("pyspark"), own_folder(NAME)
    if spec is None or spec.origin is None or folder is None:
        return None
    installed = Path(spec.origin).parent
    linked = [part for part in LINKED if (installed / part).is_dir()]
    if not {"bin", "jars"} <= set(linked):
        return None
    name = hashlib.sha256(os.fsencode(installed)).hexdigest()[:16]
    home, made = Path(folder, name), Path(folder, f"{name}.{uuid.uuid4().hex}")
    try:
        made.mkdir()
        for part in linked:
            (made / part).symlink_to(installed / part)
        made.rename(home)
    except OSError:  # one is there, of this process or another
        rmtree(made, ignore_errors=True)
    return str(home) if (home / "jars").exists() else None
