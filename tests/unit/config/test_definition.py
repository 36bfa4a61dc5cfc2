"""Keys and tables: every default is allowed, every error names key, value and what is allowed."""

from __future__ import annotations

import pytest

from barnabas.config.broker import BROKER, BROKER_THROTTLES, broker_synonyms, may_update
from barnabas.config.client_metrics import SUBSCRIPTION
from barnabas.config.definition import ConfigDef, ConfigError, ConfigKey, ConfigType, parse_table
from barnabas.config.group import ADDRESS_QUOTAS, CLIENT_QUOTAS, GROUP
from barnabas.config.topic import TOPIC

TABLES = {
    "broker": BROKER,
    "throttles": BROKER_THROTTLES,
    "topic": TOPIC,
    "group": GROUP,
    "client metrics": SUBSCRIPTION,
    "client quotas": CLIENT_QUOTAS,
    "address quotas": ADDRESS_QUOTAS,
}
OWN_KEYS = {
    "offsets.topic.min.isr",
    "leader.imbalance.per.broker.percentage",
    "metrics.bearer.token",
    "metrics.listeners",
    "otel.endpoint",
    "otel.metrics.interval.ms",
    "otel.traces.sample.ratio",
    "testing.faults.file",
    "unclean.recovery.strategy",
}
"""Each has its line in docs/divergence.md, except for the one with which no node of a user starts."""


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_every_default_is_allowed_and_every_key_says_what_it_is_for(table: ConfigDef) -> None:
    for key in table.keys.values():
        table.default(key.name)
        assert key.doc.endswith("."), key.name
        assert len(key.doc) > 10, key.name
        assert key.importance in ("high", "medium", "low"), key.name


def test_there_are_as_many_keys_as_in_kafka() -> None:
    assert {name: len(table.keys.keys() - OWN_KEYS) for name, table in TABLES.items()} == {
        "broker": 379,
        "throttles": 3,
        "topic": 38,
        "group": 27,
        "client metrics": 3,
        "client quotas": 4,
        "address quotas": 1,
    }


TABLE = ConfigDef(
    parse_table(
        """
count | int | 1 | 1..10 | cluster-wide | high
    A number.
level | int | -1 | 1..9 or -1 | read-only | low
    A number with one beside its range.
share | double | 0.5 | 0..1 | read-only | low
    A fraction.
flag | boolean | false | any | read-only | low
    A switch.
words | list | "" | list of a/b | read-only | low internal
    Some words.
names | list | required | nonempty list | per-broker | high
    Some names.
mode | string | slow | slow/fast | read-only | high
    One word.
any.case | string | slow | ~SLOW/FAST | read-only | high
    One word, however it is written.
secret | password | null | any | read-only | high
    A word that is never shown.
who | list | "" | throttled replicas | read-only | low
    Replicas.
"""
    )
)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", " 7 ", 7),
        ("count", "+7", 7),
        ("level", "-1", -1),
        ("level", "9", 9),
        ("share", "0.25", 0.25),
        ("flag", "TRUE", True),
        ("words", " a , b,a ", ["a", "b"]),
        ("words", "", []),
        ("mode", "fast", "fast"),
        ("any.case", "Fast", "Fast"),
        ("secret", " with spaces ", " with spaces "),
        ("who", "*", ["*"]),
        ("who", "0:1,,3:2,", ["0:1", "3:2"]),
        ("who", "0:1,3:2", ["0:1", "3:2"]),
    ],
)
def test_text_becomes_a_value(name: str, text: str, value: object) -> None:
    assert TABLE.parse(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("count", "11", "count: '11' is not allowed; it must be between 1 and 10"),
        ("count", "many", "count: 'many' is not allowed; it must be a whole number"),
        ("count", "1_0", "count: '1_0' is not allowed; it must be a whole number"),
        ("count", "4294967296", "count: '4294967296' is not allowed; it must fit in 32 bits"),
        ("level", "0", "level: '0' is not allowed; it must be between 1 and 9 or -1"),
        ("share", "nan", "share: 'nan' is not allowed; it must be between 0 and 1"),
        ("who", "²:1", "who: '²:1' is not allowed; it must be * or a list of partition:broker"),
        ("flag", "yes", "flag: 'yes' is not allowed; it must be true or false"),
        ("share", "0_1", "share: '0_1' is not allowed; it must be a number"),
        ("words", "a,,b", "words: 'a,,b' is not allowed; nothing may be empty between its commas"),
        ("words", "a,", "words: 'a,' is not allowed; nothing may be empty between its commas"),
        ("words", "c", "words: 'c' is not allowed; it must be a list of a, b"),
        ("names", "", "names: '' is not allowed; it must be a list that is not empty"),
        ("mode", "Fast", "mode: 'Fast' is not allowed; it must be one of slow, fast"),
        ("who", "1", "who: '1' is not allowed; it must be * or a list of partition:broker"),
        ("unknown", "1", "unknown: '1' is not allowed; there is no such key"),
    ],
)
def test_an_error_is_one_sentence(name: str, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TABLE.parse(name, text)
    assert str(caught.value) == sentence


def test_a_missing_required_key_is_named() -> None:
    with pytest.raises(ConfigError, match="names: it must be given"):
        TABLE.typed({})


def test_given_values_override_defaults_and_unknown_ones_are_reported() -> None:
    given = {"names": "x", "count": "3", "other": "1"}
    values = TABLE.typed(given)
    assert (values["names"], values["count"], values["level"]) == (["x"], 3, -1)
    assert "other" not in values
    assert TABLE.unknown(given) == ["other"]


def test_passwords_are_sensitive() -> None:
    assert [key.name for key in TABLE.keys.values() if key.sensitive] == ["secret"]
    assert BROKER["ssl.keystore.password"].type is ConfigType.PASSWORD


@pytest.mark.parametrize(
    ("name", "cluster_wide", "possible"),
    [
        ("message.max.bytes", True, True),
        ("message.max.bytes", False, True),
        ("cordoned.log.dirs", False, True),
        ("cordoned.log.dirs", True, False),
        ("num.replica.fetchers", True, True),
        ("log.cleaner.threads", True, True),
        ("ssl.keystore.location", False, True),
        ("ssl.keystore.location", True, False),
        ("listener.name.internal.ssl.keystore.location", False, True),
        ("listener.name.internal.plain.sasl.jaas.config", False, True),
        ("sasl.enabled.mechanisms", False, True),
        ("remote.log.reader.threads", True, False),
        ("group.share.assignment.interval.ms", True, True),
        ("group.streams.assignment.interval.ms", True, True),
        ("share.coordinator.cached.buffer.max.bytes", True, True),
        ("group.share.max.size", True, False),
        ("max.connections.per.ip", True, True),
        ("listener.name.internal.max.connections", True, True),
        ("node.id", False, False),
        ("no.such.key", False, False),
        ("leader.replication.throttled.rate", False, True),
    ],
)
def test_update_modes_say_which_keys_change_while_brokers_run(
    name: str, cluster_wide: bool, possible: bool
) -> None:
    assert may_update(name, cluster_wide=cluster_wide) is possible


def test_synonyms_stand_strongest_first() -> None:
    assert broker_synonyms("log.retention.hours") == (
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    )
    assert broker_synonyms("num.partitions") == ("num.partitions",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0.5", "0.5"),
        ("1", "1.0"),
        ("0.001", "0.001"),
        ("0.0009", "9.0E-4"),
        ("12345678", "1.2345678E7"),
        ("-2147483647", "-2.147483647E9"),
        ("1.7976931348623157E308", "1.7976931348623157E308"),
        ("inf", "Infinity"),
    ],
)
def test_a_double_reads_as_in_java(text: str, told: str) -> None:
    key = BROKER["log.cleaner.io.max.bytes.per.second"]
    assert key.text(key.parse(text)) == told


@pytest.mark.parametrize("key", BROKER.keys.values(), ids=lambda key: key.name)
def test_a_default_is_written_as_it_is_described(key: ConfigKey) -> None:
    assert key.text(key.parse(key.default)) == key.default
