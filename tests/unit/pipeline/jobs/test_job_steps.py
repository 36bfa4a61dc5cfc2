"""Files with named sources and steps: their graph, their queries, and what is wrong with them."""

from __future__ import annotations

import pytest

from barnabas.pipeline.jobs.graph.job_steps import ddl_columns
from barnabas.pipeline.jobs.graph.sql_names import used_by
from barnabas.pipeline.jobs.job_file import Job, JobFileError, parse

GOOD = """\
name = "clicks"
checkpoint = "/data/clicks"

[cluster]
kafka.bootstrap.servers = "h:1"

[source.clicks]
topics = ["clicks"]
watermark = "ts 10m"
deduplicate_by = ["id"]

[source.clicks.options]
value.format = "json"
value.schema = "id STRING, day DATE, ts TIMESTAMP"

[source.orders]
topics = ["orders"]

[step.typed]
sql = "select data.id, ts from clicks where _error is null"

[step.counts]
sql = "select window(ts, '1 minute').start as key, count(*) as value from Typed group by 1"

[step.bought]
python = "joins:bought"
from = ["typed", "orders"]

[[sink]]
from = "typed"
delta = "/data/typed"

[[sink]]
from = "counts"
topic = "counts"
output_mode = "update"

[[sink]]
from = "bought"
name = "sales"
topic = "sales"

[state]
store = "rocksdb"
partitions = 4
"""
ONE = """\
name = "one"
checkpoint = "/data/one"
[source]
files = "/data/in"
format = "json"
schema = "id BIGINT, ts TIMESTAMP"
[transform]
sql = "select id, count(*) from source group by id"
[[sink]]
delta = "/data/t"
"""


def parsed(text: str) -> Job:
    return parse("job.toml", text, {})


def errors(text: str, old: str, new: str) -> list[str]:
    assert old in text
    with pytest.raises(JobFileError) as caught:
        parsed(text.replace(old, new))
    return caught.value.found


def test_a_sink_of_a_job_with_steps_is_a_query_with_a_checkpoint_of_its_own() -> None:
    job = parsed(GOOD)
    assert [(each.name, each.checkpoint, each.output_mode) for each in job.queries] == [
        ("typed", "/data/clicks/sinks/typed", "append"),
        ("counts", "/data/clicks/sinks/counts", "update"),
        ("sales", "/data/clicks/sinks/sales", "append"),
    ]
    sources = [[each.name for each in job.sources_of(query)] for query in job.queries]
    assert sources == [["clicks"], ["clicks"], ["clicks", "orders"]]
    assert [each.name for each in job.graph.above("bought")] == ["typed", "bought"]
    assert job.state["spark.sql.shuffle.partitions"] == "4"
    assert job.state["spark.sql.streaming.stateStore.providerClass"].endswith(
        "RocksDBStateStoreProvider"
    )


def test_a_file_without_steps_is_one_query_at_its_checkpoint() -> None:
    job = parsed(ONE.replace('"\n[[sink]]', '"\noutput_mode = "update"\n[[sink]]'))
    (query,) = job.queries
    assert (query.name, query.checkpoint, query.sinks) == ("", "/data/one", job.sinks)
    assert not job.is_graph


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (" where _error is null", "", "job.toml:20: step.typed.sql: reads data, which is null where a value"),
        ("from clicks", "from click", "job.toml:20: step.typed.sql: there is no source or step click (did"),
        ('from = "typed"', 'from = "tiped"', "job.toml:30: sink.from: there is no source or step tiped (did"),
        ('"typed", "orders"', '"typed", "x"', "job.toml:27: step.bought.from: there is no source or step x"),
        ("from clicks", "from typed", "job.toml:19: step.typed: a circle: typed reads typed"),
        ("from clicks", "from counts", "job.toml:19: step.typed: a circle: typed reads counts reads typed"),
        ('watermark = "ts', 'watermark = "when', "job.toml:9: source.clicks.watermark: there is no column w"),
        ('watermark = "ts', 'watermark = "day', "job.toml:9: source.clicks.watermark: column day is date, a"),
        ('"ts 10m"', '"ts"', "job.toml:9: source.clicks.watermark: a column and a delay, as 'ts 10m'"),
        ('["id"]', '["ids"]', "job.toml:10: source.clicks.deduplicate_by: there is no column ids: key, v"),
        ('watermark = "ts 10m"\n', "", "job.toml:9: source.clicks.deduplicate_by: needs a watermark, there"),
        ('from = "bought"', 'from = "orders"', "job.toml:25: step.bought: no sink reads this, directly or"),
        ('name = "sales"', 'name = "counts"', "job.toml:38: sink: another sink is called counts: name = ..."),
        ('from = "counts"\n', "", "job.toml:33: sink: from is needed: what the sink reads, one of clicks, o"),
        ('"rocksdb"', '"rocks"', "job.toml:44: state.store: one of memory, rocksdb, not 'rocks'"),
        ("= 4", "= 0", "job.toml:45: state.partitions: a number from 1 on, not 0"),
        ("[step.typed]", "[step.clicks]", "job.toml:19: step.clicks: a source has this name too"),
        ("[state]", "[transform]\nsql='s'\n[state]", "job.toml:43: transform: a file has [transform], or [s"),
        ("[source.orders]\ntopics", "[source.orders]\ntopic", "job.toml:17: source.orders.topic: there is"),
    ],
)  # fmt: skip
def test_an_error_of_a_step_names_line_key_and_reason(old: str, new: str, error: str) -> None:
    found = errors(GOOD, old, new)
    assert any(each.startswith(error) for each in found), found


def test_an_aggregate_in_append_mode_needs_a_watermark() -> None:
    with pytest.raises(
        JobFileError, match="the transformation aggregates: without a watermark no row"
    ):
        parsed(ONE)
    marked = ONE.replace("[transform]", 'watermark = "ts 10m"\n[transform]')
    assert parsed(marked).source.watermark is not None
    text = GOOD.replace('watermark = "ts 10m"\ndeduplicate_by = ["id"]\n', "")
    text = text.replace('output_mode = "update"', 'output_mode = "append"')
    with pytest.raises(
        JobFileError, match="step counts aggregates: without a watermark no row is ever"
    ):
        parsed(text)
    with pytest.raises(JobFileError, match="complete is for aggregates, and there is none"):
        parsed(GOOD.replace('from = "typed"\n', 'from = "typed"\noutput_mode = "complete"\n'))


def test_a_mirror_has_one_source() -> None:
    text = 'kind = "mirror"\nname = "m"\ncheckpoint = "/c"\n[source.a]\ntopics = ["a"]\n'
    text += '[mirror]\ntarget.kafka.bootstrap.servers = "h:1"\n'
    with pytest.raises(JobFileError, match="a job of kind mirror has one source and no steps"):
        parsed(text)


@pytest.mark.parametrize(
    ("sql", "tables", "aggregated"),
    [
        ("select extract(year from ts) from a x, b where x.k is distinct from b.k", ("a", "b"), ()),
        (
            "with c as (select * from a), d (k) as (select k from s.b) select * from c, d",
            ("a",),
            (),
        ),
        ("select trim(both ' ' from v) from `a b` lateral view explode(x) t as p, q", ("a b",), ()),
        ("select 'from x' from a -- from y\n /* join z */ join b using (k, l)", ("a", "b"), ()),
        ("select k from (select distinct k from a) join b on true", ("a", "b"), ("a",)),
        ("with c as (select * from a) select k, count(*) from c group by k", ("a",), ("a",)),
        ("select (select max(x) from s.t group by y) from a, range(3), b", ("a", "b"), ()),
        ("from a select k", ("a",), ()),
        ("select * from parquet.`/x/y` join a on substring(v from 2) = 'b'", ("a",), ()),
    ],
)
def test_the_tables_of_a_query_follow_from_its_words(
    sql: str, tables: tuple[str, ...], aggregated: tuple[str, ...]
) -> None:
    use = used_by(sql)
    assert (use.tables, use.aggregated) == (tables, aggregated)


def test_columns_of_a_ddl_have_names_and_types() -> None:
    found = ddl_columns(
        "id BIGINT, `a b` DECIMAL(10,2) NOT NULL, s STRUCT<x: INT, y: INT>, ts:TIMESTAMP"
    )
    assert list(found) == ["id", "a b", "s", "ts"]
    assert found["ts"] == "timestamp"
