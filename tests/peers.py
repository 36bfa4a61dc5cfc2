"""Other people's software that tests need: what is here, and what to say where it is not.

A test says what it needs by ``@pytest.mark.peers("kafka")`` (the default) or ``("kcat")``. Where that is
missing it is skipped with a sentence; under ``BARNABAS_PEERS=required``, as ``make interop`` runs, it fails,
and so does every other skip (``tests/conftest.py``).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

FOLDERS = {"4.4.0": "libs44", "4.3.0": "libs"}
KAFKA_VERSION = os.environ.get("BARNABAS_KAFKA", "4.4.0")
"""The release of Apache Kafka that tests run beside us; with ``BARNABAS_KAFKA=4.3.0`` the one before."""
RELEASE = KAFKA_VERSION.rpartition(".")[0]
"""The feature levels at which a cluster begins that nodes of that release may join."""
OUR_LEVEL = ["--release", RELEASE]
"""Options of `barnabas storage format` for such a cluster."""
LIBS = Path(__file__).resolve().parents[1] / "peers" / FOLDERS[KAFKA_VERSION]
LOGGING = LIBS.with_name("logging")
LOG_CONFIGURATION = Path(__file__).with_name("java_logs")
"""Warnings and errors go to standard error; the properties file of a `-D` option takes its place."""


def with_log(libs: Path) -> str:
    """The class path of the jars of a release of Apache Kafka 4, which alone log nothing."""
    return f"{LOG_CONFIGURATION}:{LOGGING}/*:{libs}/*"


CLASS_PATH = with_log(LIBS)
PYTHON = LIBS.parent / "python"
MODULES = ("kafka_2.13", "kafka-tools", "kafka-clients", "kafka-storage")

KAFKA_44_VERSION = "4.4.0"
LIBS_44 = LIBS.with_name("libs44")
CLASS_PATH_44 = f"{LIBS_44}/*"

KAFKA_43_VERSION = "4.3.0"
RELEASE_43 = KAFKA_43_VERSION.rpartition(".")[0]
LIBS_43 = LIBS.with_name("libs")
CLASS_PATH_43 = with_log(LIBS_43)
"""Also for programs whose releases are its own: Trogdor, the metadata shell."""

KAFKA_39_VERSION = "3.9.1"
LIBS_39 = LIBS.with_name("libs39")
CLASS_PATH_39 = f"{LOG_CONFIGURATION}:{LIBS_39}/*"

CLIENTS = LIBS.with_name("clients")
CLASS_PATH_CLIENTS = f"{CLIENTS}/*"
"""Kafka's Java clients and Connect of `KAFKA_43_VERSION`, which ``make test`` brings by itself."""

PROGRAMS = LIBS.with_name("programs")
CLASS_PATH_PROGRAMS = f"{PROGRAMS}/*:{LIBS_43}/*"
"""Trogdor, MirrorMaker, the smoke test of Streams, Spring Kafka, on Kafka's libraries; slf4j-simple logs."""
SPRING_KAFKA_VERSION = "4.0.0"

FLINK_VERSION = "2.2.1"
FLINK = LIBS.with_name("flink")
CLASS_PATH_FLINK = f"{FLINK}/*"

CAMEL_VERSION = "4.22.0"
CAMEL = LIBS.with_name("camel")
CLASS_PATH_CAMEL = f"{CAMEL}/*"

VERTX_VERSION = "5.0.7"
VERTX = LIBS.with_name("vertx")
CLASS_PATH_VERTX = f"{VERTX}/*"

PEKKO_VERSION = "1.1.0"
PEKKO = LIBS.with_name("pekko")
CLASS_PATH_PEKKO = f"{PEKKO}/*"

DEBEZIUM_VERSION = "3.6.1.Final"
DEBEZIUM = LIBS.with_name("debezium")
CLASS_PATH_DEBEZIUM = f"{CLASS_PATH_CLIENTS}:{DEBEZIUM}/*"

S3A = LIBS.with_name("s3")
S3A_VERSION = "3.5.0"
S3_SERVER = LIBS.with_name("s3-server") / "bin" / "moto_server"


def are_required() -> bool:
    return os.environ.get("BARNABAS_PEERS") == "required"


def missing(names: Iterable[str] = ()) -> str | None:
    """A sentence about the first of `names` that is not here, or None. Raises KeyError for a peer unknown."""
    for name in tuple(names) or ("kafka",):
        sentence = _CHECKS[name]()
        if sentence is not None:
            return sentence
    return None


def _no_java() -> str | None:
    return None if shutil.which("java") else "java is not installed"


def _no_kafka() -> str | None:
    absent = [m for m in MODULES if not (LIBS / f"{m}-{KAFKA_VERSION}.jar").is_file()]
    if absent:
        return f"Apache Kafka {KAFKA_VERSION} is not in peers ({absent[0]}): run `make peers`"
    return _no_log() or _no_java()


def _no_log() -> str | None:
    if not any(LOGGING.glob("log4j-slf4j-impl-*.jar")):
        return "the log of Apache Kafka's processes is not in peers/logging: run `make peers`"
    return None


def _no_kafka_44() -> str | None:
    if not (LIBS_44 / f"kafka_2.13-{KAFKA_44_VERSION}.jar").is_file():
        return f"Apache Kafka {KAFKA_44_VERSION} is not in peers/libs44: run `make peers`"
    return _no_java()


def _no_clients() -> str | None:
    if not (CLIENTS / f"connect-file-{KAFKA_43_VERSION}.jar").is_file():
        unknown = "Apache Kafka's Java clients are not in peers/clients: run `make peers`"
        return os.environ.get("BARNABAS_CLIENTS_PROBLEM", unknown)
    return _no_java()


def _no_programs() -> str | None:
    if not (PROGRAMS / f"trogdor-{KAFKA_43_VERSION}.jar").is_file():
        return "programs that use transactions are not in peers/programs: run `make peers`"
    return _no_kafka_43()


def _no_go() -> str | None:
    return None if shutil.which("go") else "Go is not installed"


def _no_kafka_43() -> str | None:
    if not (LIBS_43 / f"kafka-shell-{KAFKA_43_VERSION}.jar").is_file():
        return f"Apache Kafka {KAFKA_43_VERSION} is not in peers/libs: run `make peers`"
    return _no_log() or _no_java()


def _no_kafka_39() -> str | None:
    if not (LIBS_39 / f"kafka_2.13-{KAFKA_39_VERSION}.jar").is_file():
        return f"Apache Kafka {KAFKA_39_VERSION} is not in peers/libs39: run `make peers`"
    return _no_java()


def _no_flink() -> str | None:
    if not (FLINK / f"flink-runtime-{FLINK_VERSION}.jar").is_file():
        return f"Apache Flink {FLINK_VERSION} is not in peers/flink: run `make peers`"
    return _no_java()


def _no_vertx() -> str | None:
    if not (VERTX / f"vertx-kafka-client-{VERTX_VERSION}.jar").is_file():
        return f"Vert.x {VERTX_VERSION} is not in peers/vertx: run `make peers`"
    return _no_java()


def _no_pekko() -> str | None:
    if not (PEKKO / f"pekko-connectors-kafka_2.13-{PEKKO_VERSION}.jar").is_file():
        return f"Apache Pekko's connector {PEKKO_VERSION} is not in peers/pekko: run `make peers`"
    return _no_java()


def _no_camel() -> str | None:
    if not (CAMEL / f"camel-kafka-{CAMEL_VERSION}.jar").is_file():
        return f"Apache Camel {CAMEL_VERSION} is not in peers/camel: run `make peers`"
    return _no_java()


def _no_debezium() -> str | None:
    if not (DEBEZIUM / f"debezium-connector-postgres-{DEBEZIUM_VERSION}.jar").is_file():
        return f"Debezium {DEBEZIUM_VERSION} is not in peers/debezium: run `make peers`"
    if not (shutil.which("postgres") and shutil.which("psql")):
        return "PostgreSQL is not installed"
    return _no_clients()


def _no_s3() -> str | None:
    if not (S3A / f"hadoop-aws-{S3A_VERSION}.jar").is_file():
        return f"Hadoop's S3A {S3A_VERSION} is not in peers/s3: run `make peers`"
    if not S3_SERVER.is_file():
        return "moto, a server of S3's protocol, is not in peers/s3-server: run `make peers`"
    return _no_java()


def _no_kcat() -> str | None:
    return None if shutil.which("kcat") else "kcat is not installed"


def _no_prometheus() -> str | None:
    both = shutil.which("prometheus") and shutil.which("promtool")
    return None if both else "prometheus is not installed"


def kafka_python_source() -> Path | None:
    """kafka-python's source distribution."""
    return next(iter(sorted(PYTHON.glob("kafka_python-*.tar.gz"))), None)


def _no_kafka_python_source() -> str | None:
    if kafka_python_source() is not None:
        return None
    return "kafka-python's source distribution is not in peers/python: run `make peers`"


_CHECKS: dict[str, Callable[[], str | None]] = {
    "java": _no_java,
    "kafka": _no_kafka,
    "clients": _no_clients,
    "programs": _no_programs,
    "go": _no_go,
    "kafka43": _no_kafka_43,
    "kafka39": _no_kafka_39,
    "flink": _no_flink,
    "camel": _no_camel,
    "vertx": _no_vertx,
    "pekko": _no_pekko,
    "debezium": _no_debezium,
    "kafka44": _no_kafka_44,
    "s3": _no_s3,
    "kcat": _no_kcat,
    "prometheus": _no_prometheus,
    "kafka-python-source": _no_kafka_python_source,
}
