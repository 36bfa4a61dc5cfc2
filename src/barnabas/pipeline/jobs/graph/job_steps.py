"""Reads watermarks, named sources and steps of a job's file, and checks that they fit together.

Owns the keys ``[source.NAME]``, ``[step.NAME]``, ``watermark`` and ``deduplicate_by``, and the checks that
need no Spark: unknown names, circles, columns that a schema does not have, output modes without a watermark.
A file with ``[transform]`` has one step, without a name of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.jobs.graph.job_graph import JobStep, StepGraph, Watermark
from barnabas.pipeline.jobs.graph.sql_names import used_by
from barnabas.pipeline.jobs.job_kinds import NAME
from barnabas.pipeline.jobs.rules.typed_values import check_source, check_writer
from barnabas.pipeline.jobs.tables.key_lines import KeyPath
from barnabas.pipeline.options import duration_ms

if TYPE_CHECKING:
    from barnabas.pipeline.jobs.job_file import FileReading, Sink, Source

KEYS_OF_A_STEP = ("sql", "python", "from", "watermark", "deduplicate_by")
VIEW = "source"
"""The name of the one source of a file with ``[source]``."""
TRANSFORM = "transform"
STATE = ("store", "partitions")
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
STORES = {
    "memory": f"{_PROVIDERS}.HDFSBackedStateStoreProvider",
    "rocksdb": f"{_PROVIDERS}.RocksDBStateStoreProvider",
}
OUTPUT_MODES = ("append", "update", "complete")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_RECORD = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array",
}
_DDL_FORMATS = ("json", "csv")


def has_named_sources(table: Any, known: tuple[str, ...]) -> bool:
    """Whether ``[source]`` has tables of sources instead of a source's own keys."""
    return (
        isinstance(table, dict)
        and bool(table)
        and not any(key in known for key in table)
        and all(isinstance(value, dict) for value in table.values())
    )


def ddl_columns(ddl: str) -> dict[str, str]:
    """Types by name of a DDL's columns, as they are written, in lower case."""
    found: dict[str, str] = {}
    depth, start = 0, 0
    for at, sign in enumerate(ddl + ","):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and depth == 0:
            column = re.match(r"\s*(`[^`]+`|[^\s:`]+)\s*:?\s*(.*)", ddl[start:at], re.DOTALL)
            if column is not None:
                found[column[1].strip("`")] = column[2].strip().lower()
            start = at + 1
    return found


def columns_of(source: Source) -> tuple[dict[str, str], dict[str, str] | None]:
    """The columns of a source: their types, and those of the fields of `data`, None where only Spark or a
    registry knows them."""
    if not source.is_topics:
        return (ddl_columns(source.schema) or {"value": "string"}), {}
    given = source.options.get("value.format", "").lower()
    if not given:
        return _RECORD, {}
    schema = source.options.get("value.schema", "")
    if given not in _DDL_FORMATS or not schema or schema.startswith("@"):
        return _RECORD, None
    return _RECORD, ddl_columns(schema)


class StepsReading:
    """The reading of one file's steps."""

    def __init__(self, reading: FileReading) -> None:
        self._reading = reading

    def watermark(self, table: dict[str, Any], path: KeyPath) -> Watermark | None:
        """``watermark = "ts 10m"``."""
        text = self._reading.text(table, path, "watermark")
        if not text:
            return None
        column, _, delay = text.strip().rpartition(" ")
        try:
            if not column:
                raise OptionError("no column")
            found = Watermark(column.strip(), duration_ms({"delay": delay}, "delay", 0))
        except OptionError:
            self._reading.wrong(
                (*path, "watermark"), f"a column and a delay, as 'ts 10m', not {text!r}"
            )
            return None
        return found

    def deduplicate_by(self, table: dict[str, Any], path: KeyPath) -> tuple[str, ...]:
        if "deduplicate_by" not in table:
            return ()
        return self._reading.names(table, path, "deduplicate_by")

    def check_columns(self, source: Source, path: KeyPath) -> None:
        """Watermark and keys are columns of the source, or fields of its values."""
        columns, data = columns_of(source)
        given: list[tuple[str, str]] = [
            ("deduplicate_by", column) for column in source.deduplicate_by
        ]
        if source.watermark is not None:
            given.append(("watermark", source.watermark.column))
        for key, column in given:
            name = column.removeprefix("data.") if data != {} else column
            type_ = None if name != column else columns.get(name)
            if type_ is None and data is not None:
                type_ = data.get(name)
                if type_ is None:
                    known = ", ".join((*columns, *(f"data.{column}" for column in data)))
                    self._reading.wrong((*path, key), f"there is no column {column}: {known}")
                    continue
            if key == "watermark" and type_ and not type_.startswith("timestamp"):
                self._reading.wrong(
                    (*path, key), f"column {column} is {type_}, and a watermark needs a timestamp"
                )

    def steps(self, raw: Mapping[str, Any], sources: tuple[str, ...]) -> tuple[JobStep, ...]:
        """Those of ``[step.NAME]``."""
        given = raw.get("step", {})
        if not isinstance(given, dict):
            self._reading.wrong(("step",), "steps are tables: [step.NAME]")
            return ()
        found = []
        for name, table in given.items():
            path = ("step", name)
            if not isinstance(table, dict):
                self._reading.wrong(path, "steps are tables: [step.NAME]")
            elif self.is_name(name, path):
                if name.lower() in {source.lower() for source in sources}:
                    self._reading.wrong(path, "a source has this name too")
                self._reading.check_keys(table, path, KEYS_OF_A_STEP)
                found.append(self._step(name, table, path, sources))
        return tuple(found)

    def _step(
        self, name: str, table: dict[str, Any], path: KeyPath, sources: tuple[str, ...]
    ) -> JobStep:
        sql = self._reading.text(table, path, "sql")
        function = self._reading.text(table, path, "python")
        if bool(sql.strip()) == bool(function):
            self._reading.wrong(path, "one of sql and python is needed")
        if function and not FUNCTION.fullmatch(function):
            self._reading.wrong((*path, "python"), f"module:function, not {function!r}")
        if sql and "from" in table:
            self._reading.wrong((*path, "from"), "for python: SQL says itself what it reads")
        if "from" in table:
            reads = self._reading.names(table, path, "from")
        elif function:
            reads = sources[:1]
            if len(sources) > 1:
                self._reading.wrong(path, "from is needed: the names that the function gets")
        else:
            reads = used_by(sql).tables
        watermark, keys = self.watermark(table, path), self.deduplicate_by(table, path)
        return of_sql_or_function(name, sql, function, reads, watermark, keys)

    def is_name(self, name: str, path: KeyPath) -> bool:
        if IDENTIFIER.fullmatch(name):
            return True
        self._reading.wrong(path, "letters, digits and '_' only: it names a view")
        return False

    def check_graph(self, graph: StepGraph) -> bool:
        """Whether all names are known and none reads itself."""
        is_well = True
        for step in graph.steps:
            path = ("step", step.name)
            for name in step.reads:
                if graph.named(name) is None:
                    is_well = False
                    where = (*path, "sql") if step.sql else (*path, "from")
                    more = "; a table of a catalog is written with a dot" if step.sql else ""
                    self._reading.wrong(where, graph.why_unknown(name) + more)
        circle = graph.cycle()
        if circle:
            self._reading.wrong(("step", circle[0]), f"a circle: {' reads '.join(circle)}")
        return is_well and not circle

    def check_state(self, graph: StepGraph, source_keys: Mapping[str, tuple[str, ...]]) -> None:
        """Rows of which only one is kept for a key need a time at which a key is forgotten."""
        what = "needs a watermark, there or before it: without one the keys are kept for ever"
        for step in graph.steps:
            if step.deduplicate_by and not graph.bounds_state(step.name):
                self._reading.wrong(("step", step.name, "deduplicate_by"), what)
        for name, keys in source_keys.items():
            if keys and not graph.bounds_state(name):
                self._reading.wrong(("source", name, "deduplicate_by"), what)

    def check_mode(self, graph: StepGraph, name: str, mode: str, path: KeyPath) -> None:
        """Whether Spark can give rows of `name` in the output mode."""
        step = graph.aggregate_above(name)
        if mode == "append" and step and not graph.bounds_state(name):
            where = "the transformation" if step == TRANSFORM else f"step {step}"
            self._reading.wrong(
                path,
                f"output_mode append, and {where} aggregates: without a watermark no row is ever final."
                ' watermark = "COLUMN 10m" at the source, or output_mode = "update" or "complete"',
            )
        if mode == "complete" and not graph.may_aggregate(name):
            self._reading.wrong(path, "output_mode complete is for aggregates, and there is none")

    def check(
        self,
        raw: Mapping[str, Any],
        graph: StepGraph,
        sinks: tuple[Sink, ...],
        sources: tuple[Source, ...],
    ) -> tuple[Sink, ...]:
        """The sinks, each with what it reads, its name and its output mode."""
        tables = raw.get("sink", [])
        if not self.check_graph(graph) or len(tables) != len(sinks):
            return sinks  # of one that is wrong nothing more is said
        self.check_state(graph, {source.name: source.deduplicate_by for source in sources})
        sinks = tuple(
            self._of_sink(table, ("sink", str(number)), sink, graph)
            for number, (table, sink) in enumerate(zip(tables, sinks, strict=True))
        )
        self.check_sinks(graph, sinks)
        self._check_values(graph, sinks, sources, has_dead_letters="dead_letters" in raw)
        return sinks

    def _check_values(
        self,
        graph: StepGraph,
        sinks: tuple[Sink, ...],
        sources: tuple[Source, ...],
        *,
        has_dead_letters: bool,
    ) -> None:
        """Decoded values of a source are read with what could not be decoded in mind."""
        options = {source.name.lower(): source.options for source in sources}
        for step in graph.steps:
            for name in step.reads if step.sql else ():
                given = options.get(name.lower(), {})
                found = check_source(given, step.sql, has_dead_letters=has_dead_letters)
                if found is not None:
                    self._reading.wrong(("step", step.name, "sql"), found)
        for number, sink in enumerate(sinks):
            found = check_writer(sink.options) if sink.reads.lower() in options else None
            if found is not None:
                self._reading.wrong(("sink", str(number)), found)

    def check_transform(self, sql: str, function: str, mode: str, source: Source) -> None:
        """The one step of a file without steps."""
        step = of_sql_or_function(TRANSFORM, sql, function, (VIEW,))
        marked = [VIEW] if source.watermark is not None else []
        graph = StepGraph([VIEW], [step] if sql or function else [], marked)
        self.check_state(graph, {VIEW: source.deduplicate_by})
        reads = TRANSFORM if sql or function else VIEW
        self.check_mode(graph, reads, mode, (TRANSFORM, "output_mode"))

    def state(self, raw: dict[str, Any]) -> dict[str, str]:
        """``[state]`` as settings of Spark's."""
        table = self._reading.table(raw, (), "state")
        self._reading.check_keys(table, ("state",), STATE)
        found = {}
        if "store" in table:
            store = self._reading.one_of(table, ("state",), "store", tuple(STORES), "memory")
            if store in STORES:
                found["spark.sql.streaming.stateStore.providerClass"] = STORES[store]
        partitions = table.get("partitions")
        if isinstance(partitions, int) and partitions > 0:
            found["spark.sql.shuffle.partitions"] = str(partitions)
        elif partitions is not None:
            self._reading.wrong(("state", "partitions"), f"a number from 1 on, not {partitions!r}")
        return found

    def _of_sink(self, table: dict[str, Any], path: KeyPath, sink: Sink, graph: StepGraph) -> Sink:
        reads = self._reading.text(table, path, "from")
        reads = graph.named(reads) or reads
        if not reads and len(graph.steps) == 1:
            reads = graph.steps[0].name
        mode = self._reading.one_of(table, path, "output_mode", OUTPUT_MODES, "append")
        name = self._reading.text(table, path, "name") or reads
        if name and not NAME.fullmatch(name):
            self._reading.wrong((*path, "name"), "letters, digits, '.', '_' and '-' only")
        return replace(sink, reads=reads, name=name, output_mode=mode)

    def check_sinks(self, graph: StepGraph, sinks: tuple[Sink, ...]) -> None:
        """Each sink reads something, and everything is read."""
        names: dict[str, int] = {}
        for number, sink in enumerate(sinks):
            path = ("sink", str(number))
            if not sink.reads:
                known = ", ".join((*graph.sources, *(step.name for step in graph.steps)))
                self._reading.wrong(path, f"from is needed: what the sink reads, one of {known}")
            elif graph.named(sink.reads) is None:
                self._reading.wrong((*path, "from"), graph.why_unknown(sink.reads))
            else:
                self.check_mode(graph, sink.reads, sink.output_mode, path)
            if sink.name in names and sink.name:
                self._reading.wrong(
                    path, f"another sink is called {sink.name}: name = ... names its checkpoint"
                )
            names[sink.name] = number
        if all(graph.named(sink.reads) is not None for sink in sinks):
            for name in graph.unread([sink.reads for sink in sinks]):
                kind = "source" if name in graph.sources else "step"
                self._reading.wrong((kind, name), "no sink reads this, directly or by a step")


def of_sql_or_function(
    name: str,
    sql: str,
    function: str,
    reads: tuple[str, ...],
    watermark: Watermark | None = None,
    deduplicate_by: tuple[str, ...] = (),
) -> JobStep:
    """A step with what its SQL does."""
    use = used_by(sql) if sql else None
    return JobStep(
        name,
        reads,
        sql,
        function,
        watermark,
        deduplicate_by,
        bool(
            use
            and {column.lower() for column in use.aggregated} & {column.lower() for column in reads}
        ),
        bool(use and use.has_watermark),
    )
