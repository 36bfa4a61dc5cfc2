"""The programs of other people that `harness` runs, each with its task.

`make peers` brings those that are not packages of the system (``tools/other_programs.py``).
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from tests import peers
from tests.interop.programs import jvm, log_daemons
from tests.interop.programs.harness import Program, Work
from tools import other_programs

HERE = Path(__file__).parent
THROUGH = "kill -9 of a leader, rolling restart"
COPIES = "a group's member copies each record and then commits"


def _python(name: str) -> Path:
    return other_programs.FOLDER / name / "bin" / "python"


def _script(interpreter: str | Path, file: str, *words: str) -> list[str]:
    return [str(interpreter), str(HERE / "scripts" / file), *words]


def _of_environment(package: str, file: str) -> Program:
    """A library that the tests' own environment has."""

    def command(work: Work) -> list[str]:
        return _script(sys.executable, file, work.bootstrap, work.source, work.target, work.group)

    return Program(
        package, COPIES, command, functools.partial(metadata.version, package), lambda: None
    )


def _brought(
    name: str,
    file: str,
    package: str,
    tried: str,
    words: Callable[[Work], list[str]],
    *,
    takes_lines: bool = False,
    gives_lines: bool = False,
    never_doubles: bool = False,
    bends: str = "",
) -> Program:
    """A Python program in an environment of its own."""
    folder = name.lower().replace(" ", "-")

    def missing() -> str | None:
        return None if _python(folder).exists() else f"{name} is not in peers: run `make peers`"

    return Program(
        name,
        tried,
        lambda work: _script(_python(folder), file, work.bootstrap, *words(work)),
        lambda: other_programs.locked_version(folder, package),
        missing,
        takes_lines,
        gives_lines,
        never_doubles,
        bends=bends,
    )


def _member(work: Work) -> list[str]:
    return [work.source, work.target, work.group]


def _member_in_folder(work: Work) -> list[str]:
    return [*_member(work), str(work.folder)]


def _kcat() -> Program:
    """Its producer keeps back what it has read from a pipe until its buffer is full; so only its consumer."""

    def command(work: Work) -> list[str]:
        read = f"kcat -q -u -b {work.bootstrap} -X auto.offset.reset=earliest"
        return ["sh", "-c", f"exec {read} -G {work.group} {work.source} > {work.lines_out}"]

    def version() -> str:
        said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
        found = re.search(r"Version (\S+).*librdkafka (\S+)", said, re.DOTALL)
        return f"{found[1]} with librdkafka {found[2]}" if found else "?"

    tried = "a group's member writes each record to a file"
    return Program("kcat", tried, command, version, lambda: _installed("kcat"), gives_lines=True)


def _installed(name: str) -> str | None:
    return None if shutil.which(name) else f"{name} is not installed"


def _go(name: str, module: str, tried: str = COPIES) -> Program:
    def missing() -> str | None:
        return other_programs.go_problem()

    def version() -> str:
        return _of_module(other_programs.GO_MODULE, module)

    def command(work: Work) -> list[str]:
        return [str(other_programs.go_program()), name, work.bootstrap, *_member(work)]

    return Program(name, tried, command, version, missing)


COLLECTOR = """
receivers:
  kafka:
    brokers: [{servers}]
    group_id: {group}
    initial_offset: earliest
    logs: {{topics: [{source}], encoding: raw}}
    message_marking: {{after: true}}
    error_backoff: {{enabled: true, initial_interval: 100ms, max_interval: 1s, max_elapsed_time: 0s}}
exporters:
  kafka:
    brokers: [{servers}]
    logs: {{topic: {target}, encoding: raw}}
    producer: {{required_acks: -1}}
    sending_queue: {{enabled: false}}
    retry_on_failure: {{initial_interval: 100ms, max_interval: 1s, max_elapsed_time: 0s}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{logs: {{receivers: [kafka], exporters: [kafka]}}}}
"""


def _collector() -> Program:
    def command(work: Work) -> list[str]:
        file = work.folder / "collector.yaml"
        servers = ", ".join(work.bootstrap.split(","))
        names = {"group": work.group, "source": work.source, "target": work.target}
        file.write_text(COLLECTOR.format(servers=servers, **names))
        return [str(other_programs.collector()), "--config", str(file)]

    def version() -> str:
        module = "github.com/open-telemetry/opentelemetry-collector-contrib/exporter/kafkaexporter"
        return _of_module(other_programs.COLLECTOR_MODULE, module)

    tried = "its receiver and its exporter for Kafka copy each record as a log record"
    name = "OpenTelemetry collector"
    return Program(name, tried, command, version, other_programs.collector_problem)


def _of_module(folder: Path, module: str) -> str:
    """The version of a module in ``go.mod``."""
    found = re.search(rf"{re.escape(module)} v(\S+)", (folder / "go.mod").read_text())
    assert found is not None
    return found[1]


def _rust(crate: str, tried: str, version: Callable[[], str]) -> Program:
    def command(work: Work) -> list[str]:
        program = other_programs.rust_program("--offline")
        return [str(program), crate, work.bootstrap, *_member(work)]

    return Program(crate, tried, command, version, other_programs.rust_problem)


def _rdkafka_version() -> str:
    """The crate's, with that of the librdkafka that it builds."""
    _, _, library = other_programs.crate_version("rdkafka-sys").partition("+")
    return f"{other_programs.crate_version('rdkafka')} with librdkafka {library}"


def _node(name: str, folder_name: str, script: str, bends: str = "") -> Program:
    """A library of Node.js; the script gets the folder that has it."""
    folder = other_programs.FOLDER / folder_name
    package = folder / "node_modules" / other_programs.NODE[folder_name]

    def missing() -> str | None:
        if not package.exists():
            return f"{name} is not in peers: run `make peers`"
        return _installed("node")

    def version() -> str:
        return str(json.loads((package / "package.json").read_text())["version"])

    def command(work: Work) -> list[str]:
        words = [str(HERE / "scripts" / script), str(folder), work.bootstrap, *_member(work)]
        return ["node", *words]

    return Program(name, COPIES, command, version, missing, bends=bends)


PROGRAMS = (
    _kcat(),
    _of_environment("confluent-kafka", "confluent_copy.py"),
    _of_environment("kafka-python", "kafka_python_copy.py"),
    _of_environment("aiokafka", "aiokafka_copy.py"),
    _node(
        "KafkaJS",
        "kafkajs",
        "kafkajs_copy.cjs",
        "commits to a former coordinator until its heartbeat there is refused; then all since comes again",
    ),
    _node(
        "@platformatic/kafka",
        "platformatic-kafka",
        "platformatic_copy.mjs",
        "its consumer asks a coordinator that is gone until it gives up; a new one continues",
    ),
    _go("franz-go", "github.com/twmb/franz-go"),
    _go("sarama", "github.com/IBM/sarama"),
    _go("kafka-go", "github.com/segmentio/kafka-go"),
    _go(
        "Watermill",
        "github.com/ThreeDotsLabs/watermill-kafka/v3",
        "a router's handler copies each record",
    ),
    _collector(),
    _rust("rdkafka", COPIES, _rdkafka_version),
    _rust(
        "rskafka",
        "each partition's records go to the partition of the same number, without a group",
        functools.partial(other_programs.crate_version, "rskafka"),
    ),
    _brought(
        "Arroyo",
        "arroyo_copy.py",
        "sentry-arroyo",
        "a stream processor's step writes each record, and the next step commits it",
        _member,
    ),
    _brought(
        "kstreams",
        "kstreams_copy.py",
        "kstreams",
        "a stream's function copies each record and then commits it",
        _member,
        bends="its producer asks for `acks=1` where nothing else is configured",
    ),
    _brought("FastStream", "faststream_copy.py", "faststream", COPIES, _member),
    _brought(
        "Faust",
        "faust_copy.py",
        "faust-streaming",
        "an agent copies each record",
        _member_in_folder,
    ),
    _brought(
        "Quix Streams",
        "quix_copy.py",
        "quixstreams",
        "a dataframe copies each record, exactly once",
        _member_in_folder,
        never_doubles=True,
    ),
    _brought(
        "Bytewax",
        "bytewax_copy.py",
        "bytewax",
        "a dataflow copies each record, without a group",
        lambda work: [work.source, work.target],
    ),
    _brought(
        "Pathway", "pathway_copy.py", "pathway", "a table of a topic goes to another topic", _member
    ),
    _brought(
        "Celery",
        "celery_append.py",
        "celery",
        "tasks through a topic, by kombu's transport for Kafka",
        lambda work: [work.target, str(work.lines_in), str(work.lines_out)],
        takes_lines=True,
        gives_lines=True,
    ),
    log_daemons.rsyslog(),
    log_daemons.syslog_ng(),
    *jvm.ALL,
    _brought(
        "Airflow",
        "airflow_copy.py",
        "apache-airflow-providers-apache-kafka",
        "a group's member that the provider's hooks make copies each record and then commits",
        _member_in_folder,
    ),
)


class Elsewhere(NamedTuple):
    """A program that another test runs, with the name of that test."""

    name: str
    version: str
    tried: str
    through: str
    test: str
    bends: str = ""


KILLED = "kill -9 of a leader"
ELSEWHERE = (
    Elsewhere(
        "Spring Kafka's transactions",
        peers.SPRING_KAFKA_VERSION,
        "three consumers copy 600 records, a transaction each",
        KILLED,
        "test_spring_listener_survives_a_leader_s_death",
    ),
)
