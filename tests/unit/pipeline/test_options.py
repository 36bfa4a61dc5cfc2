"""Options mean what they mean for Spark's Kafka connector; what cannot be kept is refused."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.offsets import EARLIEST, LATEST, READ_COMMITTED
from barnabas.pipeline.options import (
    AtOffsets,
    AtTimestamps,
    Everywhere,
    sink_options,
    source_options,
)
from barnabas.types import Endpoint, TopicPartition

SERVERS = {"kafka.bootstrap.servers": "one:1, SASL_SSL://two:2,[::1]:3,PLAINTEXT://four,"}
READ = {**SERVERS, "subscribe": "a"}
WRITE = {**SERVERS, "topic": "a"}


def options(given: dict[str, str]) -> CaseInsensitiveDict:
    return CaseInsensitiveDict(given)


def test_defaults_are_sparks() -> None:
    stream = source_options(options(READ), streaming=True)
    batch = source_options(options(READ), streaming=False)
    assert (stream.starting, batch.starting) == (Everywhere(LATEST), Everywhere(EARLIEST))
    assert batch.ending == Everywhere(LATEST)
    assert stream.fail_on_data_loss and not stream.include_headers
    assert stream.cluster.bootstrap == (
        Endpoint("one", 1), Endpoint("two", 2), Endpoint("::1", 3), Endpoint("four", 9092)
    )  # fmt: skip


def test_names_are_case_insensitive_and_times_go_before_offsets() -> None:
    given = {
        **READ,
        "STARTINGOFFSETS": '{"a": {"0": 5}}',
        "kafka.isolation.level": "read_committed",
        "maxoffsetspertrigger": "7",
        "maxTriggerDelay": "2m",
    }
    found = source_options(options(given), streaming=True)
    assert found.starting == AtOffsets({TopicPartition("a", 0): 5})
    assert found.fetch.isolation == READ_COMMITTED
    assert (found.rows_per_trigger_max, found.trigger_delay_ms_max) == (7, 120_000)
    given["startingOffsetsByTimestamp"] = '{"a": {"0": 1000}}'
    found = source_options(options(given), streaming=True)
    assert found.starting == AtTimestamps({TopicPartition("a", 0): 1000})
    given["startingTimestamp"] = "1234"
    assert source_options(options(given), streaming=True).starting == Everywhere(1234)


@pytest.mark.parametrize(
    ("given", "streaming", "says"),
    [
        ({"subscribe": "a"}, True, "kafka.bootstrap.servers"),
        (SERVERS, True, "exactly one of"),
        ({**READ, "subscribePattern": "a.*"}, True, "exactly one of"),
        ({**SERVERS, "subscribePattern": "("}, True, "no pattern"),
        ({**READ, "kafka.bootstrap.servers": "host:x"}, True, "host:port"),
        ({**READ, "endingOffsets": "latest"}, True, "batch queries"),
        ({**READ, "startingOffsets": "latest"}, False, "not latest"),
        ({**READ, "endingOffsets": "earliest"}, False, "not earliest"),
        ({**READ, "endingOffsets": '{"a": {"0": -2}}'}, False, "-2"),
        ({**READ, "startingOffsets": '{"a": {"0": -1}}'}, False, "-1"),
        ({**READ, "startingOffsets": '{"a": {"0": -3}}'}, True, "from -2 on for a-0"),
        ({**READ, "startingOffsets": '{"a": {"0": 1.9}}'}, True, "not 1.9"),
        ({**READ, "startingOffsets": '{"a": {"0": true}}'}, True, "not true"),
        ({**READ, "startingOffsets": '{"a": {"0": "5"}}'}, True, 'not "5"'),
        ({**READ, "startingOffsets": '{"a": {"-1": 5}}'}, True, "is JSON as"),
        ({**READ, "startingOffsetsByTimestamp": '{"a": {"0": -1}}'}, True, "from 0 on"),
        ({**SERVERS, "assign": '{"a": [0, 1.5]}'}, True, "is JSON as"),
        ({**SERVERS, "assign": '{"a": [true]}'}, True, "is JSON as"),
        ({**READ, "kafka.bootstrap.servers": "SSL://"}, True, "host:port"),
        ({**READ, "kafka.bootstrap.servers": " , "}, True, "host:port"),
        ({**READ, "maxOffsetsPerTrigger": "5"}, False, "for streams"),
        ({**READ, "maxOffsetsPerTrigger": "0"}, True, "whole number from 1"),
        ({**READ, "maxTriggerDelay": "soon"}, True, "duration"),
        ({**READ, "failOnDataLoss": "maybe"}, True, "true or false"),
        ({**READ, "kafka.security.protocol": "SASL_SSL"}, True, "GSSAPI"),
        ({**READ, "kafka.ssl.truststore.location": "/x"}, True, "PLAINTEXT"),
        ({**READ, "kafka.auto.offset.reset": "earliest"}, True, "cannot be set"),
        ({**READ, "startingOffsetsByTimestampStrategy": "guess"}, True, "error or latest"),
    ],
)
def test_each_wrong_source_option_is_one_sentence(
    given: dict[str, str], streaming: bool, says: str
) -> None:
    with pytest.raises(OptionError, match=says):
        source_options(options(given), streaming=streaming)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({**WRITE, "kafka.compression.type": "rar"}, "one of none"),
        ({**WRITE, "kafka.acks": "1"}, "all"),
        ({**WRITE, "txnAppId": "x"}, "together"),
        (
            {**WRITE, "txnAppId": "x", "txnVersion": "3", "delivery": "manifest"},
            "stagingLocation",
        ),
        ({**WRITE, "delivery": "twice"}, "delivery is one of"),
    ],
)
def test_each_wrong_sink_option_is_one_sentence(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        sink_options(options(given), streaming=False)


def test_rows_are_staged_beside_the_checkpoint() -> None:
    assert (
        sink_options(options({**WRITE, "checkpointLocation": "/c/"}), streaming=True).staging
        == "/c/barnabas"
    )
    given = {**WRITE, "checkpointLocation": "/c", "stagingLocation": "/s"}
    assert sink_options(options(given), streaming=False).staging == "/s"
