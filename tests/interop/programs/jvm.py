"""Programs in Java: Kafka's own MirrorMaker and Streams, and those on its libraries."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests import peers
from tests.clients.connect_worker import JVM
from tests.interop.java_programs import FLINK_OPTIONS
from tests.interop.java_programs import PROGRAMS as SOURCES
from tests.interop.programs.harness import Program, Work

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
EXACTLY_ONCE = {"exactly.once.support": "required", "transaction.boundary": "poll"}
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def _missing(*names: str) -> Callable[[], str | None]:
    return functools.partial(peers.missing, names)


def _source_file(
    name: str,
    version: str,
    file: str,
    class_path: str,
    peer: str,
    tried: str,
    words: Callable[[Work], list[str]],
    *,
    options: tuple[str, ...] = JVM,
    never_doubles: bool = True,
) -> Program:
    """A program of ``tests/interop/java``."""

    def command(work: Work) -> list[str]:
        names = [work.bootstrap, work.source, work.target, work.group]
        program = str(SOURCES / file)
        return ["java", *options, "-cp", class_path, program, *names, *words(work)]

    return Program(
        name, tried, command, lambda: version, _missing(peer), never_doubles=never_doubles
    )


def _connect(work: Work, config: dict[str, str], class_path: str) -> list[str]:
    """A distributed worker with a connector of this configuration."""
    file = work.folder / f"{work.group}.json"
    file.write_text(json.dumps(config))
    words = [work.bootstrap, str(work.folder), class_path, str(file)]
    script = str(HERE / "scripts" / "connect.py")
    return ["env", f"PYTHONPATH={ROOT}", sys.executable, script, *words]


def _file_source() -> Program:
    def command(work: Work) -> list[str]:
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(work.lines_in),
            "topic": work.target,
            **EXACTLY_ONCE,
        }
        return _connect(work, config, peers.CLASS_PATH_PROGRAMS)

    return Program(
        "Kafka Connect",
        "a distributed worker's file source writes each line, exactly once",
        command,
        lambda: peers.KAFKA_43_VERSION,
        _missing("programs"),
        takes_lines=True,
        never_doubles=True,
    )


def _debezium() -> Program:
    def command(work: Work) -> list[str]:
        script = str(HERE / "scripts" / "debezium.py")
        words = [str(work.folder), peers.CLASS_PATH_DEBEZIUM, work.target, str(work.lines_in)]
        return ["env", f"PYTHONPATH={ROOT}", sys.executable, script, work.bootstrap, *words]

    return Program(
        "Debezium",
        "its connector for PostgreSQL, in a distributed worker, writes each row, exactly once",
        command,
        lambda: peers.DEBEZIUM_VERSION,
        _missing("debezium"),
        takes_lines=True,
        never_doubles=True,
    )


MIRRORED = "mirrored."


def _mirror_maker() -> Program:
    def command(work: Work) -> list[str]:
        config = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "tasks.max": "1",
            "source.cluster.alias": MIRRORED.removesuffix("."),
            "target.cluster.alias": "there",
            "source.cluster.bootstrap.servers": work.bootstrap,
            "target.cluster.bootstrap.servers": work.bootstrap,
            "topics": work.source,
            "replication.factor": "3",
            "offset-syncs.topic.replication.factor": "3",
            "sync.topic.acls.enabled": "false",
            "consumer.isolation.level": "read_committed",
            "key.converter": BYTES,
            "value.converter": BYTES,
            **EXACTLY_ONCE,
        }
        return _connect(work, config, peers.CLASS_PATH_PROGRAMS)

    return Program(
        "MirrorMaker 2",
        "its source connector copies each record, exactly once",
        command,
        lambda: peers.KAFKA_43_VERSION,
        _missing("programs"),
        never_doubles=True,
        target_prefix=MIRRORED,
    )


ALL = (
    _file_source(),
    _mirror_maker(),
    _debezium(),
    _source_file(
        "Kafka Streams",
        peers.KAFKA_44_VERSION,
        "StreamsCopy.java",
        peers.CLASS_PATH_44,
        "kafka44",
        "a topology copies each record by way of a repartition topic, exactly once",
        lambda work: [str(work.folder)],
    ),
    _source_file(
        "Apache Flink",
        peers.FLINK_VERSION,
        "FlinkCopy.java",
        peers.CLASS_PATH_FLINK,
        "flink",
        "its exactly-once sink copies each record, a transaction for each checkpoint",
        lambda work: ["POOLING", str(work.folder)],
        options=FLINK_OPTIONS,
    ),
    _source_file(
        "Apache Camel",
        peers.CAMEL_VERSION,
        "CamelCopy.java",
        peers.CLASS_PATH_CAMEL,
        "camel",
        "a route copies each record and then commits it",
        lambda _: [],
        never_doubles=False,
    ),
    _source_file(
        "Vert.x",
        peers.VERTX_VERSION,
        "VertxCopy.java",
        peers.CLASS_PATH_VERTX,
        "vertx",
        "its client for Kafka copies each record and then commits it",
        lambda _: [],
        never_doubles=False,
    ),
    _source_file(
        "Apache Pekko",
        peers.PEKKO_VERSION,
        "PekkoCopy.java",
        peers.CLASS_PATH_PEKKO,
        "pekko",
        "a stream of its connector copies each record and then commits it",
        lambda _: [],
        never_doubles=False,
    ),
    _source_file(
        "Spring Kafka",
        peers.SPRING_KAFKA_VERSION,
        "SpringMember.java",
        peers.CLASS_PATH_PROGRAMS,
        "programs",
        "three listeners of a container copy each record and then commit it",
        lambda _: [],
        never_doubles=False,
    ),
)
