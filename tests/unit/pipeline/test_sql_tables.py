"""A table's options reach its queries by its columns, and mean there what they would mean to a reader."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import StructType

from barnabas.pipeline.datasource import BarnabasDataSource
from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.reuse.sql_tables import (
    check_no_secret,
    kept_options,
    options_in_query,
    with_options,
    written_columns,
)

GIVEN = {
    "kafka.bootstrap.servers": "h:1",
    "subscribe": "t",
    "topic": "t",
    "endingOffsets": "latest",
    "maxOffsetsPerTrigger": "5",
}
MADE = {
    **GIVEN,
    **{f"option.{name}": each for name, each in GIVEN.items()},
    "provider": "barnabas",
    "owner": "ann",
}


def columns() -> StructType:
    found: Any = BarnabasDataSource(MADE).schema()
    return StructType.fromJson(found.jsonValue())


def test_a_table_is_made_with_each_option_twice() -> None:
    kept = kept_options(columns())
    assert kept is not None
    assert {name.lower(): each for name, each in kept.items()} == {
        name.lower(): each for name, each in GIVEN.items()
    }


def test_each_query_has_the_options_that_mean_something_to_it() -> None:
    def of(given: dict[str, str], **how: bool) -> set[str]:
        return {each.lower() for each in options_in_query(given, columns(), **how)}

    both = {"kafka.bootstrap.servers"}
    assert of({}, reading=True, streaming=False) == both | {"subscribe", "endingoffsets"}
    assert of({}, reading=True, streaming=True) == both | {"subscribe", "maxoffsetspertrigger"}
    assert of({}, reading=False, streaming=False) == both | {"topic"}
    own = options_in_query({"EndingOffsets": "x"}, columns(), reading=True, streaming=False)
    assert own["EndingOffsets"] == "x" and "endingoffsets" not in own


def test_options_of_another_cluster_are_not_mixed_with_a_tables() -> None:
    given = {"kafka.bootstrap.servers": "other:1", "topic": "u"}
    assert options_in_query(given, columns(), reading=False, streaming=False) == given


def test_an_insert_leaves_out_what_a_topic_says_itself() -> None:
    assert written_columns(columns()).names == ["key", "value", "topic", "partition", "timestamp"]


def test_columns_as_text_have_the_options_in_a_comment() -> None:
    found = with_options("`value` binary, `data` struct<a INT, `b` INT>, `_error` string", GIVEN)
    assert isinstance(found, str)
    first, comment, rest = found.split("'")
    assert (first, rest) == (
        "`value` binary COMMENT ",
        ", `data` struct<a INT, `b` INT>, `_error` string",
    )
    schema = StructType().add("value", "binary", metadata={"comment": comment})
    assert kept_options(schema) == GIVEN


@pytest.mark.parametrize(
    "name", ["kafka.sasl.jaas.config", "kafka.ssl.key.password", "value.schema.registry.token"]
)
def test_a_secret_is_refused_unless_it_is_a_variable(name: str) -> None:
    with pytest.raises(OptionError, match="is a secret"):
        check_no_secret({**GIVEN, name: "geheim"})
    check_no_secret({**GIVEN, name: "${file:/run/secrets/kafka:it}"})


def test_columns_without_options_say_what_is_missing() -> None:
    bare = StructType().add("value", "binary")
    with pytest.raises(OptionError, match="where CREATE TABLE names columns itself"):
        options_in_query({}, bare, reading=True, streaming=False)
