"""Tables that jobs did not make: written by job, by landing and by upsert, read by other programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.jobs.tables.table_rules import TableRules
from tests.spark.commands import Command
from tests.spark.conftest import MakeTopic
from tests.spark.topics import read, write
from tests.unit.pipeline.jobs.other_iceberg_tables import REFUSED as ICEBERG_REFUSED
from tests.unit.pipeline.jobs.other_iceberg_tables import WRITTEN as ICEBERG
from tests.unit.pipeline.jobs.other_iceberg_tables import read_by_all as read_iceberg
from tests.unit.pipeline.jobs.other_tables import (
    REFUSED,
    WRITTEN,
    OtherTable,
    column,
    read_by_all,
    versions,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = """
name = "{name}"
checkpoint = "{directory}/checkpoint-{name}"
[cluster]
kafka.bootstrap.servers = "{bootstrap}"
[source]
topics = ["{topic}"]
options = {{ startingOffsets = "earliest", columns = "offset,value" }}
"""
VALUES = [b"a", b"b", b"c"]


class Jobs:
    """``barnabas pipeline run`` on one topic."""

    def __init__(self, command: Command, bootstrap: str, topic: str, directory: Path) -> None:
        self._command = command
        self._given = {"bootstrap": bootstrap, "topic": topic, "directory": directory}
        self._directory = directory

    def run(self, name: str, *sinks: str, ends_with: int = 0) -> str:
        """Run a job with these tables, each the lines of a ``[[sink]]``; what it printed."""
        text = JOB.format(name=name, **self._given)
        file = self._directory / f"{name}.toml"
        file.write_text(text + "".join(f"[[sink]]\n{sink}\n" for sink in sinks))
        return self._command("run", str(file), "--available-now", ends_with=ends_with)

    def is_refused(self, name: str, sink: str, sentence: str) -> None:
        """A job with this table ends with status 1 and a sentence that matches."""
        said = self.run(name, sink, ends_with=1)
        assert re.search(sentence, said), said


def made(tables: list[OtherTable], folder: Path) -> dict[Path, OtherTable]:
    return {each.make(folder): each for each in tables}


def check(tables: dict[Path, OtherTable]) -> None:
    for path, other in tables.items():
        for reader, rows in read_by_all(other, path).items():
            found = [(row["offset"], row["value"]) for row in rows]
            assert found == list(enumerate(VALUES)), (path, reader)


def iceberg_sink(catalog: dict[str, str], table: str) -> str:
    return f'iceberg = "{table}"\n' + "\n".join(
        f'catalog.{key} = "{value}"' for key, value in catalog.items()
    )


@pytest.fixture
def jobs(command: Command, bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> Jobs:
    topic = make_topic(1)
    write(bootstrap, topic, VALUES)
    return Jobs(command, bootstrap, topic, tmp_path)


def test_delta_tables_of_every_feature_have_each_row_by_every_way(
    jobs: Jobs, tmp_path: Path
) -> None:
    appended, landed = made(WRITTEN, tmp_path / "appended"), made(WRITTEN, tmp_path / "landed")
    jobs.run("append", *(f'delta = "{each}"' for each in appended))
    check(appended)
    upserted = {path: other for path, other in appended.items() if not other.upsert_refused}
    jobs.run("upsert", *(f'delta = "{each}"\nupsert_by = "offset"' for each in upserted))
    check(upserted)
    for path, other in landed.items():
        if other.parts == ("offset",) and "mapped" not in other.name:
            sink = f'delta = "{path}"\nland = true'
            jobs.is_refused(f"land-{other.name}", sink, "partitioned by topic and partition only")
            continue
        jobs.run(f"land-{other.name}", f'delta = "{path}"\nland = true')
        check({path: other})


@pytest.mark.parametrize("way", ["", "land = true", 'upsert_by = "offset"'])
def test_a_delta_table_of_another_feature_is_refused_before_anything_is_read(
    way: str, jobs: Jobs, tmp_path: Path
) -> None:
    for number, (path, other) in enumerate(made(REFUSED[::7], tmp_path).items()):
        jobs.is_refused(f"refused-{number}", f'delta = "{path}"\n{way}', other.refused)
        assert not (tmp_path / f"checkpoint-refused-{number}" / "commits").exists()


@pytest.mark.parametrize("way", ["", "land = true", 'upsert_by = "offset"'])
def test_rows_that_break_a_rule_end_the_job_with_a_sentence(
    way: str, jobs: Jobs, tmp_path: Path
) -> None:
    rule = {"delta.constraints.few": "offset < 2"}
    path = OtherTable("few", versions(3), settings=rule).make(tmp_path)
    jobs.is_refused("few", f'delta = "{path}"\n{way}', r"refuses the batch: .*failed validation")
    assert DeltaTable(path).version() == 0


def check_iceberg(catalogs: dict[str, dict[str, str]]) -> None:
    """`catalogs` by the names of their tables."""
    for other in (table for table in ICEBERG if table.name in catalogs):
        for reader, rows in read_iceberg(catalogs[other.name], other.table).items():
            found = [(row["offset"], row["value"]) for row in rows]
            assert found == list(enumerate(VALUES)), (other.name, reader)


def test_iceberg_tables_of_every_kind_have_each_row_by_append_and_upsert(
    jobs: Jobs, tmp_path: Path
) -> None:
    catalogs = {each.name: each.make(tmp_path / each.name) for each in ICEBERG}
    sinks = [iceberg_sink(catalogs[each.name], each.table) for each in ICEBERG]
    jobs.run("append", *sinks)
    check_iceberg(catalogs)
    jobs.run("upsert", *(f'{each}\nupsert_by = "offset"' for each in sinks))
    check_iceberg(catalogs)


def test_iceberg_tables_of_every_kind_have_each_row_by_landing(jobs: Jobs, tmp_path: Path) -> None:
    catalogs = {}
    for other in ICEBERG:
        catalog = other.make(tmp_path / other.name)
        sink = iceberg_sink(catalog, other.table) + "\nland = true"
        if other.name == "identity":
            jobs.is_refused(other.name, sink, "partitioned by topic and partition only")
            continue
        jobs.run(other.name, sink)
        catalogs[other.name] = catalog
    check_iceberg(catalogs)


@pytest.mark.parametrize("way", ["", "land = true", 'upsert_by = "offset"'])
def test_an_iceberg_table_that_asks_for_more_is_refused_before_anything_is_read(
    way: str, jobs: Jobs, tmp_path: Path
) -> None:
    for each in ICEBERG_REFUSED:
        sink = iceberg_sink(each.make(tmp_path / each.name), each.table)
        jobs.is_refused(each.name, f"{sink}\n{way}", each.refused)


def test_the_last_rows_of_a_key_are_one_unless_they_differ(spark: SparkSession) -> None:
    rules = TableRules(upsert_by=("k",), order_by=("at",))
    rows = "(1, 5, 'old'), (1, 7, 'new'), (1, 7, 'new'), (2, 7, 'this'), (2, 7, 'that')"
    frame = spark.sql(f"select * from values {rows} as t(k, at, v)")
    last = rules.rows_of(frame)
    assert sorted(last.collect()) == [(1, 7, "new"), (2, 7, "that"), (2, 7, "this")]
    with pytest.raises(PipelineError, match=r"2 rows of k = 2: they have the same at"):
        rules.check_keys(last.toArrow(), "t")


def test_the_command_copies_typed_bytes_and_keeps_the_rules_of_a_table(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path, command: Command
) -> None:
    source, target = make_topic(1), make_topic(1)
    values = [b'{"n": %d}' % n for n in range(4)]
    write(bootstrap, source, values)
    inner = {"type": "struct", "fields": [column("n", "long")]}
    fields = [
        column("value", "binary"),
        column("partition", "integer"),
        column("data", inner),
        column("_error", "string"),
    ]
    rule = {"delta.constraints.good": "_error is null"}
    other = OtherTable("good", versions(3), fields, rule, parts=("partition",))
    table = other.make(tmp_path)
    given = {"name": "typed", "directory": tmp_path, "bootstrap": bootstrap, "topic": source}
    typed = 'columns = "value,partition", value.format = "json", value.schema = "n BIGINT"'
    file = tmp_path / "typed.toml"
    file.write_text(
        JOB.format(**given).replace('columns = "offset,value"', typed)
        + f'[[sink]]\ndelta = "{table}"\n[[sink]]\ntopic = "{target}"\n'
    )
    words = ("run", str(file), "--available-now")
    command(*words)
    write(bootstrap, source, [b"{bad"])
    said = command(*words, ends_with=1)
    assert re.search(r"refuses the batch: .*failed validation", said), said
    assert [each.value for each in read(bootstrap, target)] == values
    found = (
        QueryBuilder().register("t", DeltaTable(table)).execute("select * from t order by value")
    )
    assert pa.table(found).to_pylist() == [
        {"value": each, "partition": 0, "data": {"n": n}, "_error": None}
        for n, each in enumerate(values)
    ]
