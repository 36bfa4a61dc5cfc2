"""Whether a pipeline can run: Java, pyspark, what executors have, what they reach, what they share.

Owns the checks of ``barnabas pipeline doctor``. What runs on executors is a nested function, which is pickled
by value: it needs nothing there but Python.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import barnabas
from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.errors import PipelineError, StagingError
from barnabas.pipeline.jobs.executor_errors import INSTALL, explained
from barnabas.pipeline.jobs.shared_folders import (
    Look,
    ask_executors,
    folder_look,
    marked,
    why_not_shared,
)
from barnabas.pipeline.options import ClusterOptions, absolute, endpoints
from barnabas.pipeline.places.bare_paths import place_for_session
from barnabas.pipeline.same_version import check_pyspark
from barnabas.pipeline.write.prepared import participants
from barnabas.wire.errors import KafkaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("barnabas", "pyspark", "numpy", "pandas", "pyarrow", "numba")
CONNECT_S = 5.0
OPEN_MINUTES_MAX = 15
"""How long a batch that is under way may hold its transactions open, as far as can be said here."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One check: `said` is what was found, with the remedy where it is not well."""

    check: str
    is_well: bool
    said: str


def probe(
    packages: Sequence[str], servers: Sequence[str], look_at_folders: Look
) -> Callable[[], dict[str, Any]]:
    """A function for executors that says what is there."""
    timeout_s = CONNECT_S

    def look() -> dict[str, Any]:
        import importlib.metadata
        import os
        import platform
        import socket
        import sys

        found: dict[str, Any] = {
            "host": socket.gethostname(),
            "folder": os.getcwd(),
            "python": platform.python_version(),
            "executable": sys.executable,
            "packages": {},
            "unreachable": {},
            "machine_code": None,
        }
        for package in packages:
            try:
                found["packages"][package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                found["packages"][package] = None
        try:
            import barnabas.pipeline
            from barnabas.record import columnar_kernels, kernel_cache

            kept = kernel_cache.is_kept and columnar_kernels.COMPILED
            found["machine_code"] = kept
            found["packages"]["barnabas"] = barnabas.__version__
        except Exception as error:  # noqa: BLE001  whatever keeps it from being loaded is the finding
            found["packages"]["barnabas"] = found["packages"].get("barnabas")
            found["load"] = str(error)
        for server in servers:
            host, _, port = server.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
            except (OSError, ValueError) as error:
                found["unreachable"][server] = str(error)
        found["folders"] = look_at_folders()
        return found

    return look


def before_spark() -> list[Diagnosis]:
    """The findings that need no session."""
    from barnabas.pipeline.jobs.job_session import missing_java

    java = missing_java()
    found = [Diagnosis("Java", java is None, java or "it is there")]
    for package in PACKAGES:
        try:
            said = version(package)
        except PackageNotFoundError:
            well = package == "barnabas"  # runs from its sources
            said = barnabas.__version__ if well else f"not installed on the driver: {INSTALL}"
            found.append(Diagnosis(f"driver: {package}", well, said))
            continue
        is_well = True
        if package == "pyspark":
            try:
                check_pyspark(said)
            except PipelineError as error:
                is_well, said = False, str(error)
        found.append(Diagnosis(f"driver: {package}", is_well, said))
    return found


def with_spark(
    master: str, settings: dict[str, str], bootstrap: str | None, checkpoint: str | None
) -> list[Diagnosis]:
    """The findings that need a session. Raises `PipelineError`."""
    from barnabas.pipeline.jobs.job_session import session_with

    servers = [server.strip() for server in (bootstrap or "").split(",") if server.strip()]
    found = [driver_reaches(server) for server in servers]
    if any(finding.is_well for finding in found):
        found += open_transactions(",".join(servers), time.time())
    spark = session_with("doctor", master, settings, "OFF")
    try:
        found.append(Diagnosis("Spark", True, f"{spark.version} at {master}"))
        try:
            place = absolute(checkpoint)
            if place is not None:
                place = place_for_session(spark, place, "checkpoint")
        except StagingError as error:
            found.append(Diagnosis("checkpoint", False, str(error)))
            place = None
        return found + on_executors(spark, servers, place)
    finally:
        spark.stop()


def driver_reaches(server: str) -> Diagnosis:
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, ValueError) as error:
        return Diagnosis("driver: cluster", False, f"{server} is not reached: {error}")
    return Diagnosis("driver: cluster", True, f"{server} is reached")


def open_transactions(bootstrap: str, wall_s: float) -> list[Diagnosis]:
    """Queries whose tasks have transactions open, which have no time-out; without TLS and SASL."""
    cluster = ClusterOptions(endpoints(bootstrap), patience_ms=int(CONNECT_S * 1000)).connect()
    try:
        since_ms = participants.list_keys(cluster)
    except (ChannelError, KafkaError, PipelineError) as error:
        return [Diagnosis("transactions of tasks", True, f"not looked for: {error}")]
    found = []
    for key, began_ms in sorted(since_ms.items()):
        minutes = max(0, int(wall_s - began_ms / 1000)) // 60
        said = f"{key} has some open for {minutes} min"
        is_well = minutes < OPEN_MINUTES_MAX
        if not is_well:
            said += (
                ": readers of committed records wait at them. Start the query again, which ends them, or, if"
                f" it is dropped for good, barnabas pipeline ledger forget --bootstrap-server {bootstrap}"
                f" {key}"
            )
        found.append(Diagnosis("transactions of tasks", is_well, said))
    return found


def on_executors(
    spark: SparkSession, servers: Sequence[str], checkpoint: str | None
) -> list[Diagnosis]:
    """The findings of each executor."""
    from barnabas.pipeline.jobs.job_run import provable

    folder = None if checkpoint is None else provable(checkpoint)
    folders = [] if folder is None else [folder]
    with marked(folders) as mark:
        look = probe(PACKAGES, servers, folder_look(folders, mark))
        try:
            answers = ask_executors(spark, look)
        except Exception as error:
            sentence = explained(str(error))
            if sentence is None:
                raise
            return [Diagnosis("executors", False, sentence)]
        return [
            finding for answer in answers.values() for finding in judged(answer, checkpoint, folder)
        ]


def judged(answer: dict[str, Any], checkpoint: str | None, folder: str | None) -> list[Diagnosis]:
    """Findings of one executor, which is named by host and working directory."""
    where = f"executor on {answer['host']} ({answer['folder']})"
    found = [Diagnosis(f"{where}: Python", True, f"{answer['python']} at {answer['executable']}")]
    for name, has in answer["packages"].items():
        if has is None and name == "numba":
            said = f"not installed: reads and writes take some 300 times as long; {INSTALL} there"
        elif has is None:
            said = f"not installed: {INSTALL} there"
        else:
            said = has
        is_well = has is not None
        if name == "barnabas" and has not in (None, barnabas.__version__):
            is_well = False
            said = f"{has}, and the driver has {barnabas.__version__}: install the same version"
        found.append(Diagnosis(f"{where}: {name}", is_well, said))
    if "load" in answer:
        found.append(Diagnosis(f"{where}: loading barnabas", False, answer["load"]))
    if answer["machine_code"] is not None:
        kept = answer["machine_code"]
        said = "kept" if kept else "compiled by each process for itself: set NUMBA_CACHE_DIR there"
        found.append(Diagnosis(f"{where}: machine code", kept, said))
    for server, why in answer["unreachable"].items():
        said = f"{server} is not reached: {why}. Open the way, or see advertised.listeners"
        found.append(Diagnosis(f"{where}: cluster", False, said))
    if checkpoint is not None and folder is None:
        found.append(
            Diagnosis(
                f"{where}: checkpoint", True, f"{checkpoint}: not checked, as Python cannot open it"
            )
        )
    elif folder is not None:
        why = why_not_shared(folder, answer["folders"][folder])
        well = why is None
        said = "shared" if well else f"{folder} is not shared with the driver: {why}"
        found.append(Diagnosis(f"{where}: checkpoint", well, said))
    return found
