"""Files of jobs: what is right is typed, what is wrong is named with its line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.pipeline.jobs.job_file import Job, JobFileError, parse

EXAMPLES = Path(__file__).parents[4] / "examples" / "pipelines"
GOOD = """\
name = "copy"
checkpoint = "/data/copy"
trigger = "10s"

[cluster]
kafka.bootstrap.servers = "${KAFKA}"

[source]
topics = ["a", "b"]
options = { startingOffsets = "earliest", "value.format" = "json", value.schema = "id BIGINT" }

[transform]
sql = "select key, value from source"

[[sink]]
topic = "c"

[sink.options]
kafka.compression.type = "lz4"

[[sink]]
parquet = "/data/table"
partition_by = ["day"]

[dead_letters]
topic = "d"
"""


def parsed(text: str) -> Job:
    return parse("job.toml", text, {"KAFKA": "h:1"})


def errors(old: str, new: str) -> list[str]:
    assert old in GOOD
    with pytest.raises(JobFileError) as caught:
        parsed(GOOD.replace(old, new))
    return caught.value.found


def test_a_job_has_the_options_of_reader_and_writers() -> None:
    job = parsed(GOOD)
    assert job.trigger_ms == 10_000
    assert job.source.options["subscribe"] == "a,b"
    assert job.source.options["value.format"] == "json"
    topic, table = job.sinks
    assert topic.options == {
        "kafka.bootstrap.servers": "h:1",
        "kafka.compression.type": "lz4",
        "topic": "c",
    }
    assert (table.kind, table.place, table.rules.partition_by) == (
        "parquet",
        "/data/table",
        ("day",),
    )
    assert job.dead_letters is not None


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("trigger =", "triger =", "job.toml:3: triger: there is no such key (did you mean trigger?)"),
        ("[transform]", "[tranform]", "job.toml:12: tranform: there is no such key (did you mean transf"),
        ('"10s"', '"soon"', "job.toml:3: trigger: trigger is a duration as 15m or 90s, not 'soon'"),
        ("startingOffsets", "startingOffset", "job.toml:10: source.options.startingOffset: there is no op"),
        ("compression.type", "compresion.type", "job.toml:19: sink.options.kafka.compresion.type: there is"),
        ('"lz4"', '"lz5"', "job.toml:19: sink.options.kafka.compression.type: kafka.compression.type is"),
        ('parquet = "/data/table"', 'iceberg = "a.t"', "job.toml:21: sink: an Iceberg table needs catalog"),
        ('["day"]', '["day"]\nupsert_by = "id"', "job.toml:24: sink.upsert_by: for delta and iceberg"),
        ('["day"]', '["day"]\nschema.evolution = "any"', "job.toml:24: sink.schema.evolution: one of none"),
        ('"/data/table"', '"s3://b/t"', "job.toml:22: sink.parquet: a batch is a folder that is renamed"),
        ("${KAFKA}", "${KAFKAS}", "job.toml:6: cluster.kafka.bootstrap.servers: the environment has no"),
        ('topic = "c"', "topic = 3", "job.toml:16: sink.topic: a text, not 3"),
        ('name = "copy"', "", "job.toml:1: name: is needed"),
        ('["a", "b"]', "[", "job.toml: this is no TOML:"),
    ],
)  # fmt: skip
def test_an_error_names_line_key_and_the_nearest_known_key(old: str, new: str, error: str) -> None:
    found = errors(old, new)
    assert any(each.startswith(error) for each in found), found


def test_all_errors_of_a_file_are_named_at_once() -> None:
    assert len(errors('["day"]\n', '["day"]\nmode = "x"\nmode2 = "x"\n')) == 2


@pytest.mark.parametrize("name", sorted(each.name for each in EXAMPLES.glob("*.toml")))
def test_the_examples_are_jobs(name: str) -> None:
    text = (EXAMPLES / name).read_text()
    job = parse(name, text, {"KAFKA": "h:1", "TARGET": "h:2", "DATA": "/data"})
    assert job.sinks or job.audit


LANDING = """
name = "land"
checkpoint = "/data/checkpoint"
[cluster]
kafka.bootstrap.servers = "h:1"
[source]
topics = ["a"]
[[sink]]
{table}
land = true
"""


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ('parquet = "/data/t"\npartition_by = "topic"', None),
        ('delta = "/data/t"\npartition_by = ["topic", "partition"]', None),
        ('iceberg = "a.t"\ncatalog.type = "sql"', None),
        ('delta = "/data/t"\npartition_by = "offset"', "sink.partition_by: with land a table is part"),
        ('delta = "/data/t"\nupsert_by = "key"', "sink.land: for tables that are appended to"),
        ('topic = "b"', "sink.land: for tables, not for topics"),
    ],
)  # fmt: skip
def test_tasks_land_tables_of_all_kinds_by_append(table: str, error: str | None) -> None:
    text = LANDING.format(table=table)
    if error is None:
        (sink,) = parse("job.toml", text, {}).sinks
        assert sink.lands
        return
    with pytest.raises(JobFileError) as found:
        parse("job.toml", text, {})
    assert error in str(found.value)


TYPED = """
name = "typed"
checkpoint = "/data/checkpoint"
[cluster]
kafka.bootstrap.servers = "h:1"
[source]
topics = ["a"]
options = {{ value.format = "json", value.schema = "id BIGINT" }}
{more}
[[sink]]
topic = "b"
{options}
"""
SQL = '[transform]\nsql = "select {} from source"\n'
ENCODED = 'options = { value.format = "json" }'
DEAD = '[dead_letters]\ntopic = "d"\n'


@pytest.mark.parametrize(
    ("more", "options", "error"),
    [
        ("", "", None),
        ("", ENCODED, "sink: value.format encodes a struct"),
        (SQL.format("data as value"), ENCODED, "transform.sql: reads data"),
        (SQL.format("data.id, '_error' as value"), "", "transform.sql: reads data"),
        (SQL.format("if(_error is null, data, null) as value"), ENCODED, None),
        (SQL.format("value, 'data' as key"), "", None),
        (DEAD + SQL.format("data as value"), ENCODED, None),
        (DEAD + ENCODED, "", "dead_letters: value.format encodes"),
    ],
)  # fmt: skip
def test_bad_values_become_no_rows_of_nulls_by_a_job_that_is_valid(
    more: str, options: str, error: str | None
) -> None:
    text = TYPED.format(more=more, options=options)
    if error is None:
        assert parse("job.toml", text, {}).sinks
        return
    with pytest.raises(JobFileError) as found:
        parse("job.toml", text, {})
    assert error in str(found.value)
