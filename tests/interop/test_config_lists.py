"""Every configuration key of Apache Kafka is one of ours: the lists of both, and what their nodes answer.

The same for the APIs of a broker and the features of a cluster.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.config.broker import BROKER, BROKER_THROTTLES, why_fixed
from barnabas.config.client_metrics import SUBSCRIPTION
from barnabas.config.definition import ConfigDef, ConfigKey
from barnabas.config.group import GROUP
from barnabas.config.topic import TOPIC
from barnabas.host.client import connect
from barnabas.pipeline.option_names import KAFKA_CLIENT_KEYS
from barnabas.wire.api_table import ApiKey
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.api_versions_response import ApiVersionsResponse
from barnabas.wire.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from barnabas.wire.messages.describe_configs_response import DescribeConfigsResponse
from bench.wire import ask
from tests.interop.java_programs import PROGRAMS
from tests.peers import CLASS_PATH, KAFKA_VERSION
from tests.trio import Trio

pytestmark = [
    pytest.mark.process, pytest.mark.java, pytest.mark.slow, pytest.mark.peers("kafka"),
    pytest.mark.skipif(KAFKA_VERSION != "4.4.0", reason="the tables are those of Apache Kafka 4.4.0"),
    pytest.mark.timeout(300),
]  # fmt: skip
TABLES = {
    "node": BROKER,
    "throttle": ConfigDef([*BROKER.keys.values(), *BROKER_THROTTLES.keys.values()]),
    "topic": TOPIC,
    "group": GROUP,
    "client-metrics": SUBSCRIPTION,
}
TOOLS = Path(__file__).parents[2] / "tools"
OURS_ALONE = {
    "leader.imbalance.per.broker.percentage",
    "metrics.bearer.token",
    "metrics.listeners",
    "offsets.topic.min.isr",
    "otel.endpoint",
    "otel.metrics.interval.ms",
    "otel.traces.sample.ratio",
    "testing.faults.file",
    "unclean.recovery.strategy",
}
"""Keys that Apache Kafka lacks, by docs/configuration.md."""
OTHER_APIS = {
    "GET_TELEMETRY_SUBSCRIPTIONS": (None, (0, 0)),
    "PUSH_TELEMETRY": (None, (0, 0)),
    "INIT_PRODUCER_ID": ((0, 5), (0, 6)),
}
"""APIs with the versions of Apache Kafka's broker and of ours, where they differ: divergences 93 and 96 of
docs/divergence.md. Version 6 is offered where `barnabas up` takes part in two-phase commits."""
OTHER_DEFAULTS = {"controller.quorum.append.linger.ms": "0"}
"""Our defaults that are not Apache Kafka's, by docs/divergence.md."""
FIXED_WITH_A_REASON = {
    "config.providers",
    "follower.fetch.last.tiered.offset.enable",
    "listener.security.protocol.map",
    "listeners",
    "log.local.retention.bytes",
    "log.local.retention.ms",
    "metric.reporters",
    "num.recovery.threads.per.data.dir",
    "principal.builder.class",
}
"""Keys that change at run time in Apache Kafka and at the next start here, besides those of the remote tier,
by docs/divergence.md."""


class KafkaKey(NamedTuple):
    type: str
    default: str
    mode: str
    importance: str
    flag: str
    allowed: str


@pytest.fixture(scope="module")
def kafka_keys() -> dict[str, dict[str, KafkaKey]]:
    """Table → name → key, as Kafka's own classes define them."""
    found: dict[str, dict[str, KafkaKey]] = {name: {} for name in TABLES}
    for line in printed_by(PROGRAMS / "ConfigLists.java"):
        table, name, *parts = line.split("\t")
        found[table][name] = KafkaKey(*parts)
    return found


def printed_by(program: Path) -> list[str]:
    done = subprocess.run(
        ["java", "-Xmx200m", "-cp", CLASS_PATH, str(program)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_pipelines_know_the_keys_of_kafkas_clients() -> None:
    """A key that they do not know ends a query; the page promises a warning."""
    assert printed_by(TOOLS / "KafkaClientKeys.java") == list(KAFKA_CLIENT_KEYS)


def default_of(key: ConfigKey) -> str:
    if key.required:
        return "required"
    return "null" if key.default is None else f"={key.text(key.parse(key.default))}"


@pytest.mark.parametrize("table", TABLES)
def test_the_tables_have_the_keys_of_kafka(
    table: str, kafka_keys: dict[str, dict[str, KafkaKey]]
) -> None:
    ours, theirs = TABLES[table].keys, kafka_keys[table]
    assert theirs.keys() - ours.keys() == set()
    if table != "throttle":  # Kafka's has those that change at run time
        assert ours.keys() - theirs.keys() == (OURS_ALONE if table == "node" else set())


@pytest.mark.parametrize("table", TABLES)
def test_types_defaults_and_importance_are_those_of_kafka(
    table: str, kafka_keys: dict[str, dict[str, KafkaKey]]
) -> None:
    for name, theirs in kafka_keys[table].items():
        ours = TABLES[table][name]
        default = theirs.default
        if default.startswith("="):  # in the one way that both write it
            default = f"={ours.text(ours.parse(default[1:]))}"
        if name in OTHER_DEFAULTS:
            default = f"={OTHER_DEFAULTS[name]}"
        flag = "internal" if ours.internal else ""
        found = (ours.type.name, default_of(ours), ours.importance.upper(), flag)
        assert found == (theirs.type, default, theirs.importance, theirs.flag), name


def test_keys_that_change_at_run_time_are_those_of_kafka(
    kafka_keys: dict[str, dict[str, KafkaKey]],
) -> None:
    fixed = set()
    for name, theirs in kafka_keys["node"].items():
        assert BROKER[name].mode.name.lower().replace("_", "-") == theirs.mode, name
        if theirs.mode != "read-only" and why_fixed(name) is not None:
            fixed.add(name)
    assert {name for name in fixed if not name.startswith("remote.")} == FIXED_WITH_A_REASON


# -- what nodes answer -------------------------------------------------------------------------------

Answers = dict[str, dict[str, tuple[Any, ...]]]
RESOURCES = {
    "broker 1": (4, "1"),
    "topic": (2, "told"),
    "group": (32, "told"),
    "metrics": (16, "told"),
}
OF_THIS_TEST = ("controlled.shutdown.enable",)
"""Keys that the test gives to Apache Kafka alone."""
READ_ONLY = 3
"""Its place in an answer."""


def answers(trio: Trio) -> Answers:
    """Resource → key → value, source, type, whether it is read-only and hidden, and its synonyms."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in RESOURCES.values()
        ],
        include_synonyms=True,
    )
    found: Answers = {}
    results = ask(trio.bootstrap, request, 4, DescribeConfigsResponse).results
    for name, result in zip(RESOURCES, results, strict=True):
        assert not result.error_code, (name, result.error_message)
        found[name] = {
            entry.name: (
                entry.value, entry.config_source, entry.config_type, entry.read_only,
                entry.is_sensitive,
                [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms],
            )
            for entry in result.configs
        }  # fmt: skip
    return found


class Offered(NamedTuple):
    """What a node says of itself to a client that connects."""

    apis: dict[int, tuple[int, int]]
    features: dict[str, tuple[int, int]]
    finalized: dict[str, int]


Told = tuple[tuple[Answers, Offered], tuple[Answers, Offered]]


def offered(trio: Trio) -> Offered:
    request = ApiVersionsRequest(client_software_name="lists", client_software_version="1")
    answer = ask(trio.bootstrap, request, 4, ApiVersionsResponse)
    return Offered(
        {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys},
        {found.name: (found.min_version, found.max_version) for found in answer.supported_features},
        {found.name: found.max_version_level for found in answer.finalized_features},
    )


@pytest.fixture(scope="module")
def told(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Told]:
    """The answers of Apache Kafka and of ours, of the same directory in turn."""
    trio = Trio(tmp_path_factory.mktemp("lists"), {"log.retention.hours": "48"}, nodes=1)
    trio.format("kafka")
    found = []
    for system in ("kafka", "barnabas"):
        with trio.running(system):
            trio.wait_for_brokers()
            if system == "kafka":
                with connect(trio.bootstrap) as client:
                    client.create_topic("told", 1, 1)
            found.append((answers(trio), offered(trio)))
    yield found[0], found[1]


def differing(told: Told, resource: str) -> dict[str, tuple[Any, Any]]:
    theirs, ours = (answers[resource] for answers, _ in told)
    names = sorted(theirs.keys() | ours.keys())
    return {n: (theirs.get(n), ours.get(n)) for n in names if theirs.get(n) != ours.get(n)}


@pytest.mark.parametrize("resource", ["topic", "group", "metrics"])
def test_nodes_describe_a_resource_as_kafka_does(resource: str, told: Told) -> None:
    assert told[0][0][resource]
    assert not differing(told, resource)


def test_nodes_describe_a_broker_as_kafka_does(told: Told) -> None:
    found = differing(told, "broker 1")
    for name in OURS_ALONE & found.keys():
        theirs, _ = found.pop(name)
        assert theirs is None or theirs[2] == 0, f"{name} is not known there"
    for name in (*OTHER_DEFAULTS, *OF_THIS_TEST):
        del found[name]
    for name, (theirs, ours) in found.items():
        assert name in FIXED_WITH_A_REASON or name.startswith("remote."), (name, theirs, ours)
        assert {place for place in range(6) if theirs[place] != ours[place]} == {READ_ONLY}, name


def test_the_apis_of_a_broker_are_those_of_kafka(told: Told) -> None:
    theirs, ours = told[0][1].apis, told[1][1].apis
    differing = {
        ApiKey(key).name: (theirs.get(key), ours.get(key))
        for key in theirs.keys() | ours.keys()
        if theirs.get(key) != ours.get(key)
    }
    assert differing == OTHER_APIS


def test_the_features_of_a_cluster_are_those_of_kafka(told: Told) -> None:
    theirs, ours = told[0][1], told[1][1]
    assert theirs.features == ours.features
    assert theirs.finalized == ours.finalized
