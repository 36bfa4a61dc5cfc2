"""Configurations and feature levels: changes, refusals, and how they are described."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.metadata.bootstrap_records import bootstrap_records
from barnabas.metadata.features import LATEST_METADATA_VERSION, SERVED, supported
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import alter_configs_request as legacy
from barnabas.wire.messages import broker_registration_request as registration
from barnabas.wire.messages import describe_configs_request as describe
from barnabas.wire.messages import incremental_alter_configs_request as incremental
from barnabas.wire.messages import update_features_request as features
from barnabas.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.controller_registration_request import (
    ControllerRegistrationRequest,
    Feature,
)
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.list_config_resources_request import ListConfigResourcesRequest
from tests.unit.controller.harness import World, uuid

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def world() -> World:
    world = World({"log.retention.hours": "3"})
    world.join(1, 2, 3)
    world.create("t", [[1, 2, 3]])
    return world


def alter(
    world: World, kind: int, name: str, *changes: tuple[str, int, str | None], dry: bool = False
) -> Any:
    answer = world.ask(
        incremental.IncrementalAlterConfigsRequest(
            validate_only=dry,
            resources=[
                incremental.AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[
                        incremental.AlterableConfig(name=k, config_operation=op, value=v)
                        for k, op, v in changes
                    ],
                )
            ],
        )
    )
    return answer.responses[0]


def test_set_append_subtract_delete(world: World) -> None:
    assert not alter(world, TOPIC, "t", ("cleanup.policy", APPEND, "compact")).error_code
    assert world.image.config(TOPIC, "t") == {"cleanup.policy": "delete,compact"}
    assert not alter(world, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")).error_code
    assert world.image.config(TOPIC, "t") == {"cleanup.policy": "compact"}
    assert not alter(world, TOPIC, "t", ("cleanup.policy", DELETE, None)).error_code
    assert world.image.config(TOPIC, "t") == {}


@pytest.mark.slow
def test_no_list_grows_beyond_what_a_record_may_hold(world: World) -> None:
    key, half = "leader.replication.throttled.replicas", ",".join(f"{n}:1" for n in range(3000))
    assert not alter(world, TOPIC, "t", (key, SET, half)).error_code
    answer = alter(world, TOPIC, "t", (key, APPEND, half.replace(":1", ":2")))
    assert answer.error_code == ErrorCode.INVALID_CONFIG and "maximum" in answer.error_message
    assert world.image.config(TOPIC, "t") == {key: half}


def test_a_throttled_replica_with_an_endless_number_is_refused(world: World) -> None:
    """It was committed, and every broker failed at it: ``int`` refuses texts of more than 4,300 digits."""
    key = "leader.replication.throttled.replicas"
    answer = alter(world, TOPIC, "t", (key, SET, f"{'9' * 5000}:1"))
    assert (
        answer.error_code == ErrorCode.INVALID_CONFIG and "partition:broker" in answer.error_message
    )
    assert not alter(world, TOPIC, "t", (key, SET, f"{2**31 - 1}:1")).error_code
    limits = "max.connections.per.ip.overrides"
    answer = alter(world, BROKER, "", (limits, SET, f"10.0.0.1:{'9' * 5000}"))
    assert (
        answer.error_code == ErrorCode.INVALID_REQUEST and "address:number" in answer.error_message
    )


def test_directories_are_cordoned_where_the_level_knows_of_it() -> None:
    world = World(bootstrap=bootstrap_records(metadata_version=29))
    world.join(1)
    answer = alter(world, BROKER, "1", ("cordoned.log.dirs", SET, "/data"))
    assert answer.error_code == ErrorCode.INVALID_CONFIG and "4.3-IV0" in answer.error_message
    assert not update(world, "metadata.version", 30).error_code
    assert not alter(world, BROKER, "1", ("cordoned.log.dirs", SET, "/data")).error_code


def test_a_brokers_key_is_reported_again_where_it_is_unchanged(world: World) -> None:
    def written(kind: int, name: str, key: str) -> int:
        assert not alter(world, kind, name, (key, SET, "5")).error_code
        before = world.quorum.log_end_offset
        assert not alter(world, kind, name, (key, SET, "5")).error_code
        return world.quorum.log_end_offset - before

    assert written(BROKER, "1", "log.cleaner.threads") == 1
    assert written(BROKER, "", "log.cleaner.threads") == 1
    assert written(TOPIC, "t", "flush.ms") == 0


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (TOPIC, "no", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", ("nope", SET, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", ("retention.ms", SET, "1" * 40000), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("unclean.recovery.strategy", SET, "wild"), ErrorCode.INVALID_CONFIG),
        (BROKER, "one", ("min.insync.replicas", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", ("node.id", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", ("min.insync.replicas", SET, "0"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("min.insync.replicas", SET, "2"), ErrorCode.INVALID_CONFIG),
        (BROKER, "", ("min.insync.replicas", DELETE, None), ErrorCode.INVALID_CONFIG),
        (LOGGER, "1", ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST),
        (METRICS, "", ("interval.ms", SET, "1000"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "a b", ("retention.ms", SET, "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "no", ("nope", SET, "1"), ErrorCode.INVALID_CONFIG),
        (BROKER, "99", ("log.cleaner.threads", SET, "2"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (BROKER, "99", ("log.cleaner.threads", DELETE, None), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (BROKER, "-1", ("log.cleaner.threads", SET, "2"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", ("log.retention.ms", SET, "0"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", ("log.roll.ms", SET, "0"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", ("cleanup.policy", SET, "delete,"), ErrorCode.INVALID_CONFIG),
        (METRICS, "m", ("interval.ms", SET, "99"), ErrorCode.INVALID_REQUEST),
        (METRICS, "m", ("interval.ms", SET, "3600001"), ErrorCode.INVALID_REQUEST),
        (METRICS, "m", ("interval.ms", SET, "often"), ErrorCode.INVALID_CONFIG),
        (METRICS, "m", ("match", SET, "foo=bar"), ErrorCode.INVALID_CONFIG),
        (METRICS, "m", ("match", SET, "client_id"), ErrorCode.INVALID_CONFIG),
        (METRICS, "m", ("match", SET, "client_id=a=b"), ErrorCode.INVALID_CONFIG),
        (METRICS, "m", ("match", SET, "client_id=a,client_id=["), ErrorCode.INVALID_CONFIG),
        (METRICS, "m", ("nope", SET, "1"), ErrorCode.INVALID_REQUEST),
        (GROUP, "", ("consumer.session.timeout.ms", SET, "45000"), ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "1"), ErrorCode.INVALID_CONFIG),
        (99, "x", ("a", SET, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_changes_that_may_not_be_made_are_refused(
    world: World, kind: int, name: str, change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    before = dict(world.image.configs)
    answer = alter(world, kind, name, change)
    assert ErrorCode(answer.error_code) is code and answer.error_message
    assert world.image.configs == before


def test_a_resource_or_key_named_twice_is_refused(world: World) -> None:
    answer = alter(world, TOPIC, "t", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_validate_only_changes_nothing(world: World) -> None:
    assert not alter(world, TOPIC, "t", ("retention.ms", SET, "1"), dry=True).error_code
    assert world.image.config(TOPIC, "t") == {}


def test_alter_configs_removes_what_is_not_named(world: World) -> None:
    alter(world, TOPIC, "t", ("retention.ms", SET, "1"), ("segment.bytes", SET, "1048576"))
    answer = world.ask(
        legacy.AlterConfigsRequest(
            resources=[
                legacy.AlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name="t",
                    configs=[legacy.AlterableConfig(name="retention.ms", value="2")],
                )
            ]
        )
    )
    assert not answer.responses[0].error_code
    assert world.image.config(TOPIC, "t") == {"retention.ms": "2"}


def test_an_election_follows_when_unclean_election_is_allowed(world: World) -> None:
    world.create("u", [[1]])
    world.kill(1)
    world.create("s", [[2, 3]])
    enter(world, "s", [2])
    world.kill(2)
    assert world.partition("s").leader == -1
    alter(world, TOPIC, "s", ("unclean.leader.election.enable", SET, "true"))
    assert world.partition("s").leader == 3


def enter(world: World, name: str, isr: list[int]) -> None:
    from tests.unit.controller.test_quorum_controller import enter as request

    request(world, world.image.topics_by_name[name], 0, isr)


def described(world: World, kind: int, name: str, **more: Any) -> Any:
    answer = world.ask(
        describe.DescribeConfigsRequest(
            resources=[
                describe.DescribeConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configuration_keys=more.pop("keys", None),
                )
            ],
            **more,
        )
    )
    return answer.results[0]


def test_a_topics_configuration_tells_sources_and_synonyms(world: World) -> None:
    alter(world, TOPIC, "t", ("segment.bytes", SET, "1048576"))
    alter(world, BROKER, "", ("log.segment.bytes", SET, "2097152"))
    result = described(
        world, TOPIC, "t", include_synonyms=True, include_documentation=True,
        keys=["segment.bytes", "retention.ms"],
    )  # fmt: skip
    by_name = {c.name: c for c in result.configs}
    segment = by_name["segment.bytes"]
    assert (segment.value, segment.config_source, segment.config_type) == ("1048576", 1, 3)
    assert [(s.name, s.value, s.source) for s in segment.synonyms] == [
        ("segment.bytes", "1048576", 1),
        ("log.segment.bytes", "2097152", 3),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert segment.documentation
    retention = by_name["retention.ms"]
    # As in Kafka: log.retention.ms, under which a topic's default is reported, is set nowhere.
    assert (retention.value, retention.config_source) == (str(3 * 3600 * 1000), 5)
    assert not retention.synonyms


def synonyms(found: Any) -> list[tuple[str, str | None, int]]:
    return [(s.name, s.value, s.source) for s in found.synonyms]


def test_a_key_that_no_table_has_may_be_a_secret(world: World) -> None:
    assert not alter(world, BROKER, "", ("my.secret.password", SET, "hunter2")).error_code
    for name in ("", "100"):
        found = described(
            world, BROKER, name, include_synonyms=True, keys=["my.secret.password"]
        ).configs[0]
        assert (found.value, found.is_sensitive, found.read_only) == (None, True, True)
        assert (found.config_source, found.config_type) == (3, 0)
        assert synonyms(found) == [("my.secret.password", None, 3)]


def test_a_file_s_unknown_key_is_shown_without_its_value() -> None:
    world = World({"our.token": "hunter2"})
    found = described(world, BROKER, "100", keys=["our.token"]).configs[0]
    assert (found.value, found.is_sensitive, found.config_source) == (None, True, 4)


def test_a_brokers_key_is_reported_in_its_own_unit() -> None:
    world = World({})
    names = [
        "log.roll.ms", "log.roll.hours", "log.roll.jitter.ms", "log.retention.ms",
        "log.retention.minutes", "log.retention.hours", "log.flush.interval.ms", "broker.id",
    ]  # fmt: skip
    told = described(world, BROKER, "100", include_synonyms=True, keys=names).configs
    found = {c.name: (c.value, c.config_source, synonyms(c)) for c in told}
    for unset in ("log.roll.ms", "log.roll.jitter.ms", "log.retention.ms", "log.retention.minutes",
                  "log.flush.interval.ms"):  # fmt: skip
        assert found[unset] == (None, 5, [])
    assert found["log.roll.hours"] == ("168", 5, [("log.roll.hours", "168", 5)])
    assert found["log.retention.hours"] == ("168", 5, [("log.retention.hours", "168", 5)])
    assert found["broker.id"] == ("100", 4, [("broker.id", "100", 4), ("broker.id", "-1", 5)])
    alter(world, BROKER, "", ("log.retention.ms", SET, "600000"))
    told = described(world, BROKER, "100", include_synonyms=True, keys=names).configs
    found = {c.name: (c.value, c.config_source, synonyms(c)) for c in told}
    hours = ("log.retention.hours", "168", 5)
    assert found["log.retention.ms"] == ("600000", 3, [("log.retention.ms", "600000", 3), hours])
    assert found["log.retention.minutes"] == (None, 5, [])
    assert found["log.retention.hours"] == ("168", 5, [hours])


def test_a_topic_s_synonyms_are_keys_of_a_broker(world: World) -> None:
    def told(name: str) -> Any:
        return described(world, TOPIC, "t", include_synonyms=True, keys=[name]).configs[0]

    for name in ("flush.ms", "segment.ms", "segment.jitter.ms", "remote.storage.enable",
                 "leader.replication.throttled.replicas"):  # fmt: skip
        assert synonyms(told(name)) == [] and told(name).config_source == 5
    alter(world, BROKER, "", ("log.retention.ms", SET, "600000"))
    alter(world, TOPIC, "t", ("cleanup.policy", SET, "compact, delete"))
    assert told("cleanup.policy").value == "compact,delete"
    assert told("retention.ms").value == "600000"
    # The file's hours and the default's, in hours.
    assert synonyms(told("retention.ms")) == [
        ("log.retention.ms", "600000", 3),
        ("log.retention.hours", "3", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_no_keys_asked_are_all_keys(world: World) -> None:
    everything = described(world, TOPIC, "t").configs
    assert len(everything) == 37
    assert described(world, TOPIC, "t", keys=[]).configs == everything


def test_a_subscription_has_three_keys_whatever_is_set(world: World) -> None:
    def told() -> dict[str, Any]:
        return {
            c.name: (c.value, c.config_source, c.config_type, synonyms(c))
            for c in described(world, METRICS, "m", include_synonyms=True).configs
        }

    unset: dict[str, Any] = {
        "interval.ms": ("300000", 5, 3, []),
        "match": ("", 5, 7, []),
        "metrics": ("", 5, 7, []),
    }
    assert told() == unset
    match = "client_id=a.*, client_software_name=Java="
    assert not alter(world, METRICS, "m", ("match", SET, match)).error_code
    shown = match.replace(" ", "")
    assert told() == {**unset, "match": (shown, 7, 7, [("match", shown, 7)])}
    documented = described(world, METRICS, "m", include_documentation=True).configs
    assert all(c.documentation for c in documented)
    assert not alter(world, METRICS, "m", ("metrics", APPEND, "org.apache.")).error_code
    assert described(world, METRICS, "").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER, "99999999999", ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_impossible_resource_is_not_described(
    world: World, kind: int, name: str, code: ErrorCode
) -> None:
    answer = described(world, kind, name)
    assert ErrorCode(answer.error_code) is code and answer.error_message


def test_a_fenced_broker_and_a_controller_may_be_configured(world: World) -> None:
    world.kill(3)
    for node in ("3", "100"):
        assert not alter(world, BROKER, node, ("log.cleaner.threads", SET, "2")).error_code


def test_a_broker_is_described_by_itself_only(world: World) -> None:
    mine = described(world, BROKER, "100")
    assert not mine.error_code
    by_name = {c.name: c for c in mine.configs}
    assert by_name["node.id"].value == "100" and by_name["node.id"].read_only
    other = described(world, BROKER, "1")
    assert other.error_code == ErrorCode.INVALID_REQUEST
    common = described(world, BROKER, "")
    assert [(c.name, c.value) for c in common.configs] == [("min.insync.replicas", "1")]


def test_groups_and_unknown_resources(world: World) -> None:
    alter(world, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    result = described(world, GROUP, "g", keys=["consumer.session.timeout.ms"])
    assert (result.configs[0].value, result.configs[0].config_source) == ("50000", 8)
    assert described(world, TOPIC, "no").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert described(world, 77, "x").error_code == ErrorCode.INVALID_REQUEST


def test_resources_are_listed(world: World) -> None:
    alter(world, METRICS, "sub", ("interval.ms", SET, "1000"))
    everything = world.ask(ListConfigResourcesRequest(resource_types=[]))
    found = {(r.resource_type, r.resource_name) for r in everything.config_resources}
    assert {(TOPIC, "t"), (BROKER, "1"), (METRICS, "sub")} <= found
    old = world.ask(ListConfigResourcesRequest(), 0)
    assert [r.resource_name for r in old.config_resources] == ["sub"]


def test_the_recovery_strategy_is_a_key_of_topics_and_of_the_cluster(world: World) -> None:
    world.create("r", [[1]], configs={"unclean.recovery.strategy": "none"})
    shown = described(world, TOPIC, "r", keys=["unclean.recovery.strategy"])
    assert [(c.name, c.value) for c in shown.configs] == [("unclean.recovery.strategy", "none")]
    assert world.create("bad", [[1]], configs={"unclean.recovery.strategy": "x"}).error_code
    topic = world.image.topics_by_name["t"]
    rules = world.controller.cluster.rules
    assert rules(topic).recovery == "balanced"
    assert not alter(world, BROKER, "", ("unclean.recovery.strategy", SET, "aggressive")).error_code
    assert rules(topic).recovery == "aggressive"
    alter(world, TOPIC, "t", ("unclean.recovery.strategy", SET, "none"))
    assert rules(topic).recovery == "none"


def test_refusals_are_remembered_with_their_reasons(world: World) -> None:
    alter(world, TOPIC, "t", ("nope", SET, "1"))
    world.create("bad", partitions=0)
    world.register(1, incarnation=5)
    told = [(n.subject, n.code) for n in world.controller.refusals.since()]
    assert (
        told
        == [
            ("INCREMENTAL_ALTER_CONFIGS t", "INVALID_CONFIG"),
            ("CREATE_TOPICS bad", "INVALID_REPLICATION_FACTOR"),
            ("BROKER_REGISTRATION", "DUPLICATE_BROKER_REGISTRATION"),
        ]
        or told[1][1] == "INVALID_PARTITIONS"
    )
    assert all(n.reason for n in world.controller.refusals.since())


# -- features --------------------------------------------------------------------------------------


def update(world: World, name: str, level: int, kind: int = 1, *, dry: bool = False) -> Any:
    return world.ask(
        features.UpdateFeaturesRequest(
            feature_updates=[
                features.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            ],
            validate_only=dry,
        )
    )


@pytest.mark.parametrize(
    ("name", "level", "kind", "says"),
    [
        ("no.such", 1, 1, "does not support this feature"),
        ("group.version", 2, 1, "only supports versions 0-1"),
        ("group.version", 0, 1, "without setting the upgrade type"),
        ("group.version", -1, 1, "less than 0"),
        ("group.version", 1, 7, "upgrade type"),
        ("transaction.version", 2, 2, None),
        ("metadata.version", 29, 1, "without setting the upgrade type"),
        ("metadata.version", 29, 2, "might delete metadata"),
        ("metadata.version", 29, 3, "Unsafe metadata downgrade"),
        ("metadata.version", LATEST_METADATA_VERSION + 1, 1, "only supports versions 7-33"),
        ("metadata.version", 3, 2, "only supports versions 7-33"),
    ],
)
def test_levels_that_may_not_be_set_are_refused(
    world: World, name: str, level: int, kind: int, says: str | None
) -> None:
    answer = update(world, name, level, kind)
    if says is None:
        assert not answer.error_code
        return
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert says in answer.error_message


def test_the_last_level_of_a_feature_named_twice_holds(world: World) -> None:
    def update_all(version: int, *levels: tuple[str, int, int]) -> Any:
        updates = [
            features.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in levels
        ]
        return world.ask(features.UpdateFeaturesRequest(feature_updates=updates), version)

    answer = update_all(1, ("share.version", 7, 1), ("share.version", 0, 2))
    assert not answer.error_code
    assert [r.feature for r in answer.results] == ["share.version"] * 2
    assert "share.version" not in world.image.features
    # A downgrade to where it is already is none.
    assert not update_all(2, ("share.version", 0, 2)).error_code
    answer = update_all(1, ("kraft.version", 1, 1))
    assert [r.feature for r in answer.results] == ["kraft.version"]
    assert not update_all(2, ("kraft.version", 1, 1)).results


def test_levels_go_down_and_up_again(world: World) -> None:
    assert not update(world, "group.version", 0, 2).error_code
    assert "group.version" not in world.image.features
    assert not update(world, "group.version", 1, dry=True).error_code
    assert "group.version" not in world.image.features
    assert not update(world, "group.version", 1).error_code
    assert world.image.features["group.version"] == 1


def test_a_feature_that_is_not_served_only_goes_down(monkeypatch: pytest.MonkeyPatch) -> None:
    name, most = "share.version", 1
    monkeypatch.setitem(SERVED, name, most)
    levels_of_kafka = [FeatureLevelRecord(name=name, feature_level=most + 1)]
    world = World(bootstrap=[*bootstrap_records(), *levels_of_kafka])
    world.join(1)  # a broker claims the level, and may register
    assert world.image.features[name] == most + 1
    assert not update(world, name, most + 1).error_code
    assert not update(world, name, most, 2).error_code
    assert world.image.features.get(name, 0) == most
    answer = update(world, name, most + 1)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "does not serve" in answer.error_message


def test_the_quorums_own_level_is_raised_last(world: World) -> None:
    assert not update(world, "kraft.version", 1).error_code
    assert world.quorum.kraft_version == 1
    world.quorum.kraft_version = 0
    both = [("share.version", 9), ("kraft.version", 1)]
    answer = world.ask(
        features.UpdateFeaturesRequest(
            feature_updates=[
                features.FeatureUpdateKey(feature=n, max_version_level=level, upgrade_type=1)
                for n, level in both
            ]
        )
    )
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert world.quorum.kraft_version == 0


def test_the_quorums_own_level_is_raised_where_every_node_supports_it(world: World) -> None:
    def features_of(highest: int | None) -> list[registration.Feature]:
        levels = {n: h for n, (_, h) in supported().items()} | {"kraft.version": highest}
        return [
            registration.Feature(name=n, min_supported_version=0, max_supported_version=h)
            for n, h in levels.items()
            if h is not None
        ]

    assert "newer version" in update(world, "kraft.version", 1, 2).error_message
    older = world.registration(9, 1009)
    older.features = features_of(None)
    assert not world.ask(older).error_code
    answer = update(world, "kraft.version", 1)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Broker 9 does not support this feature." in answer.error_message
    assert world.quorum.kraft_version == 0
    older.features = features_of(1)
    assert not world.ask(older).error_code
    assert not update(world, "kraft.version", 1).error_code
    for highest in (None, 0):
        older.features = features_of(highest)
        assert world.ask(older).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_elr_on_and_off_keeps_what_it_rests_on(world: World) -> None:
    alter(world, TOPIC, "t", ("min.insync.replicas", SET, "2"))
    world.kill(3)
    world.kill(2)
    assert world.partition("t").elr == (2,)
    assert not update(world, "eligible.leader.replicas.version", 0, 2).error_code
    assert world.partition("t").elr == ()
    assert not update(world, "eligible.leader.replicas.version", 1).error_code
    assert world.image.config(BROKER, "")["min.insync.replicas"] == "1"


def test_elr_is_switched_off_after_the_last_leader_ceased_to_be_a_replica(world: World) -> None:
    """It was a new replica of a reassignment, which is cancelled when no replica lives that could lead."""
    world.join(4)
    world.create("moved", [[3]], configs={"unclean.leader.election.enable": "true"})

    def reassign(replicas: list[int] | None) -> int:
        partition = ReassignablePartition(partition_index=0, replicas=replicas)
        topic = ReassignableTopic(name="moved", partitions=[partition])
        answer = world.ask(AlterPartitionReassignmentsRequest(topics=[topic]))
        code: int = answer.responses[0].partitions[0].error_code
        return code

    assert not reassign([4, 2])
    state = world.partition("moved")
    members = [BrokerState(broker_id=b, broker_epoch=world.epochs[b]) for b in (3, 4)]
    wanted = PartitionData(
        partition_index=0,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        new_isr_with_epochs=members,
    )
    topic_id = world.image.topics_by_name["moved"].id
    world.ask(
        AlterPartitionRequest(
            broker_id=3,
            broker_epoch=world.epochs[3],
            topics=[TopicData(topic_id=topic_id, partitions=[wanted])],
        )
    )
    for broker in (2, 3, 4):
        world.kill(broker)
    assert not world.register(4, incarnation=7004).error_code
    state = world.partition("moved")
    assert state.isr == state.elr == () and state.last_known_elr == (4,)
    assert not reassign(None)
    assert world.partition("moved").replicas == (3,)
    assert not update(world, "eligible.leader.replicas.version", 0, 2).error_code
    assert set(world.partition("moved").isr) <= {3}


def test_a_min_isr_that_a_topic_and_all_brokers_get_at_once_ends_the_elr(world: World) -> None:
    """The topic loses its own value in the request that lowers the one behind it."""
    key = "min.insync.replicas"
    assert not alter(world, BROKER, "", (key, SET, "2")).error_code
    assert not alter(world, TOPIC, "t", (key, SET, "2")).error_code
    world.kill(2, 3)
    assert world.partition("t").isr == (1,) and world.partition("t").elr
    both = [(BROKER, "", SET, "1"), (TOPIC, "t", DELETE, None)]
    answer = world.ask(
        incremental.IncrementalAlterConfigsRequest(
            resources=[
                incremental.AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[incremental.AlterableConfig(name=key, config_operation=op, value=v)],
                )
                for kind, name, op, v in both
            ]
        )
    )
    assert not any(response.error_code for response in answer.responses)
    # It commits alone from now on: no other replica may lead after it.
    assert world.partition("t").isr == (1,) and world.partition("t").elr == ()
    world.kill(1)
    world.revive(2)
    assert world.partition("t").leader == -1


def test_a_node_that_lags_holds_a_level_back() -> None:
    world = World(bootstrap=bootstrap_records(metadata_version=29))
    world.join(1)

    def register(incarnation: int, highest: int) -> None:
        request = ControllerRegistrationRequest(controller_id=101, incarnation_id=uuid(incarnation))
        request.features = [
            Feature(name="metadata.version", min_supported_version=7, max_supported_version=highest)
        ]
        assert not world.ask(request).error_code

    register(1, 29)
    answer = update(world, "metadata.version", 30)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Controller 101 only supports versions 7-29." in answer.error_message
    register(2, 30)
    answer = update(world, "group.version", 0, 2)
    assert not answer.error_code
    answer = update(world, "group.version", 1)
    assert "Controller 101 does not support this feature." in answer.error_message
    assert not update(world, "metadata.version", 30).error_code
    assert world.image.metadata_version == 30


def test_groups_and_topics_are_described_as_by_kafka_4_4(world: World) -> None:
    shown = {c.name: c for c in described(world, GROUP, "g", include_synonyms=True).configs}
    assert "streams.num.warmup.replicas" not in shown
    assignor = shown["streams.assignor.name"]
    assert assignor.value == "sticky"
    assert [synonym.name for synonym in assignor.synonyms] == ["group.streams.assignors"]
    copied = described(world, TOPIC, "t", include_synonyms=True, keys=["remote.copy.lag.ms"])
    assert [s.name for s in copied.configs[0].synonyms] == ["log.remote.copy.lag.ms"]


def test_controllers_describe_themselves_on_their_listener() -> None:
    from barnabas.wire.messages.controller_registration_request import Listener

    world = World()
    answer = world.ask(
        ControllerRegistrationRequest(
            controller_id=101,
            incarnation_id=uuid(1),
            listeners=[Listener(name="CONTROLLER", host="c", port=1)],
            features=[Feature(name="metadata.version", min_supported_version=7,
                              max_supported_version=LATEST_METADATA_VERSION)],
        )
    )  # fmt: skip
    assert not answer.error_code
    cluster = world.ask(DescribeClusterRequest(endpoint_type=2))
    assert (cluster.controller_id, cluster.cluster_id) == (100, "castle")
    assert [(b.broker_id, b.host, b.port) for b in cluster.brokers] == [
        (100, "localhost", 9093),
        (101, "c", 1),
    ]
    wrong = world.ask(DescribeClusterRequest(endpoint_type=1))
    assert wrong.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    wrong = world.ask(DescribeClusterRequest(), version=0)
    assert wrong.error_code == ErrorCode.INVALID_REQUEST


def test_controllers_do_not_describe_themselves_below_their_level() -> None:
    world = World(bootstrap=bootstrap_records(metadata_version=14))
    cluster = world.ask(DescribeClusterRequest(endpoint_type=2))
    assert cluster.error_code == ErrorCode.UNSUPPORTED_VERSION
    ours = world.ask(DescribeClusterRequest(endpoint_type=2, refusals_after=-1))
    assert not ours.error_code and ours.cluster_id == "castle"
