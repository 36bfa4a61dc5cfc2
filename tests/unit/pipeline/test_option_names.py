"""Options that there are not end a query at once, and name the one that was meant."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from barnabas.pipeline.datasource import BarnabasDataSource
from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.option_names import KAFKA_CLIENT_KEYS, check_names
from barnabas.pipeline.options import source_options
from barnabas.pipeline.read.columns import record_schema
from barnabas.pipeline.read.lag import group_of
from barnabas.pipeline.read.source import StreamReader
from tests.unit.pipeline.test_stream_reader import options

READ = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"startingOffset": "earliest"},
            r"no option startingOffset \(did you mean startingOffsets\?\)",
        ),
        ({"kafka.isolation.levl": "x"}, r"did you mean kafka\.isolation\.level"),
        ({"nothing.like.it": "1"}, r"no option nothing\.like\.it$"),
        ({"topic": "t"}, "option topic is for writing"),
        ({"columns": "offset,vlaue"}, "columns has names of key, value"),
        ({"value.format": "json"}, "needs value.schema"),
        ({"value.format": "xml", "value.schema": "a INT"}, "one of json, csv, avro, protobuf"),
        ({"kafka.fetch.max.wait.ms": "soon"}, "whole number"),
        ({"land": "true"}, "option land is the plan that .* a job has land = true in its sink"),
        ({"land": "{"}, "option land is the plan that"),
    ],
)
def test_a_wrong_option_is_named_at_load(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        BarnabasDataSource({**READ, **given}).schema()


def test_an_option_without_effect_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        BarnabasDataSource({**READ, "kafka.max.poll.records": "5"}).schema()
    assert "pipeline.option_without_effect: kafka.max.poll.records" in caplog.text


def test_every_key_of_kafkas_clients_is_an_option_or_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert len(KAFKA_CLIENT_KEYS) == 147
    for key in KAFKA_CLIENT_KEYS:
        check_names({"kafka.bootstrap.servers": "h:1", f"kafka.{key}": "1"})
    for key in ("group.protocol", "metadata.recovery.strategy"):
        assert f"kafka.{key} has no effect" in caplog.text
    for key in ("group.id", "ssl.protocol", "acks"):
        assert f"kafka.{key} has no effect" not in caplog.text


def test_a_group_is_named_by_prefix_and_query(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "metadata").write_text('{"id": "query-7"}')
    given = {**READ, "groupIdPrefix": "team"}
    with caplog.at_level(logging.WARNING):
        BarnabasDataSource(given).schema()
    assert "groupIdPrefix has an effect beside checkpointLocation only" in caplog.text
    assert group_of(source_options(given, streaming=True)) is None
    given["checkpointLocation"] = str(tmp_path)
    assert group_of(source_options(given, streaming=True)) == "team-query-7"
    own = source_options({**given, "kafka.group.id": "own"}, streaming=True)
    assert group_of(own) == "own"


def test_columns_and_value_formats_shape_the_schema() -> None:
    narrow: Any = BarnabasDataSource({**READ, "columns": "offset, headers,partition"}).schema()
    assert narrow.names == ["partition", "offset", "headers"]
    typed = BarnabasDataSource(
        {**READ, "value.format": "json", "value.schema": "id BIGINT", "columns": "offset,value"}
    ).schema()
    assert typed == "`value` binary, `offset` bigint, `data` struct<id BIGINT>, `_error` string"


def test_a_schema_of_other_columns_is_refused_by_the_plan() -> None:
    StreamReader(options(), StructType([StructField("offset", LongType())]))
    for field in (StructField("ofset", LongType()), StructField("offset", StringType())):
        with pytest.raises(OptionError, match="column 'of"):
            StreamReader(options(), StructType([field]))
    assert record_schema(include_headers=False).names[0] == "key"


def test_the_name_that_spark_gives_a_query_is_no_wrong_option() -> None:
    BarnabasDataSource({"kafka.bootstrap.servers": "h:1", "topic": "t", "queryname": "q"})
