"""Reads the file of a job (TOML), checks all of it, and returns it as a typed `Job`.

Owns the keys of the file and its errors. An error has line and key and, for a misspelt key, the nearest
known one. Options of ``format("barnabas")`` are written as dotted keys; the checks of readers and writers
hold for them. Needs neither Spark nor a cluster.

``${NAME}`` in a text is the environment's variable: secrets stay out of files.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from barnabas.config.nearest import hint
from barnabas.pipeline.audit.subject import Audit
from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.jobs.graph.job_graph import JobStep, StepGraph, Watermark
from barnabas.pipeline.jobs.graph.job_steps import (
    FUNCTION,
    OUTPUT_MODES,
    VIEW,
    StepsReading,
    has_named_sources,
)
from barnabas.pipeline.jobs.job_kinds import NAME, KindsReading, Mirror, Replay
from barnabas.pipeline.jobs.rules.typed_values import check_source, check_writer
from barnabas.pipeline.jobs.tables.key_lines import KeyPath, key_lines, line_of
from barnabas.pipeline.jobs.tables.table_rules import ADD_COLUMNS, EVOLUTIONS, NO_RULES, TableRules
from barnabas.pipeline.option_names import check_direction, check_names
from barnabas.pipeline.options import SCHEME, absolute, duration_ms, sink_options, source_options
from barnabas.pipeline.places.place_names import NO_RENAME, as_folder, is_in_store
from barnabas.pipeline.read.landing_plan import PARTS

TOP = (
    "kind", "name", "checkpoint", "trigger", "cluster", "source", "transform", "step", "sink", "dead_letters",
    "state", "mirror", "replay", "audit",
)  # fmt: skip
KINDS = ("pipeline", "mirror", "replay", "audit")
OF_KIND = {
    "pipeline": (
        "trigger", "cluster", "source", "transform", "step", "sink", "dead_letters", "state",
    ),
    "mirror": ("trigger", "cluster", "source", "mirror"),
    "replay": ("cluster", "source", "replay", "sink"),
    "audit": ("cluster", "source", "audit"),
}  # fmt: skip
"""Tables and keys beside name, checkpoint and kind that a kind of job has."""
SOURCE = (
    "topics", "topic_pattern", "files", "format", "schema", "options", "watermark", "deduplicate_by",
)  # fmt: skip
OF_TRANSFORM = ("sql", "python", "output_mode")
SINK = (
    "topic", "parquet", "delta", "iceberg", "partition_by", "upsert_by", "order_by", "schema", "catalog",
    "options", "land", "from", "name", "output_mode",
)  # fmt: skip
DEAD_LETTERS = ("topic", "options")
FILE_FORMATS = ("csv", "json", "orc", "parquet", "text")
TABLES = ("parquet", "delta", "iceberg")
OF_TABLES = ("partition_by", "upsert_by", "order_by")
SINKS = "sinks"
"""The folder of a job's checkpoint that has those of its queries, where it has several."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


class JobFileError(PipelineError):
    """All errors of a file, one sentence a line."""

    def __init__(self, found: list[str]) -> None:
        super().__init__("\n".join(found))
        self.found = found


@dataclass(frozen=True, slots=True)
class Source:
    """Topics, by the options of a reader, or files of one format in a folder."""

    options: Mapping[str, str]
    files: str = ""
    format: str = "barnabas"
    schema: str = ""
    name: str = VIEW
    """The view that it is in SQL."""
    watermark: Watermark | None = None
    deduplicate_by: tuple[str, ...] = ()

    @property
    def is_topics(self) -> bool:
        return not self.files


@dataclass(frozen=True, slots=True)
class Sink:
    """A topic, or a table of a kind."""

    kind: str
    place: str
    options: Mapping[str, str] = field(default_factory=dict)
    rules: TableRules = NO_RULES
    catalog: Mapping[str, str] = field(default_factory=dict)
    """Properties of the catalog that has an Iceberg table."""
    lands: bool = False
    """Whether reading tasks write the table's files themselves."""
    is_bare: bool = False
    """Whether the place of a table is a path that was written without ``file:``."""
    reads: str = ""
    """The source or step that it reads, empty where all sinks of a job read the same rows."""
    name: str = ""
    output_mode: str = "append"

    def __str__(self) -> str:
        return f"{self.kind} {self.place}"


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a job: its sinks take one micro-batch under its number. `name` is empty where the job has
    no other."""

    name: str
    checkpoint: str
    reads: str
    sinks: tuple[Sink, ...]
    output_mode: str


@dataclass(frozen=True, slots=True)
class Job:
    """One file. `trigger_ms` is None where the next micro-batch begins as soon as the last one ends."""

    file: str
    name: str
    checkpoint: str
    source: Source
    sinks: tuple[Sink, ...]
    trigger_ms: int | None = None
    sql: str = ""
    function: str = ""
    output_mode: str = "append"
    dead_letters: Sink | None = None
    kind: str = "pipeline"
    mirror: Mirror | None = None
    replay: Replay | None = None
    audit: Audit | None = None
    more_sources: tuple[Source, ...] = ()
    steps: tuple[JobStep, ...] = ()
    is_graph: bool = False
    """Whether each sink says what it reads, and is a query of its own."""
    state: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark's for the state of the job's queries."""

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.source, *self.more_sources)

    @property
    def graph(self) -> StepGraph:
        return graph_of(self.sources, self.steps)

    @property
    def queries(self) -> tuple[Query, ...]:
        """Without those of dead letters. One that has no other begins at the job's checkpoint; others are
        below it, one for each sink."""
        if not self.is_graph:
            return (Query("", self.checkpoint, "", self.sinks, self.output_mode),)
        return tuple(
            Query(
                sink.name,
                f"{self.checkpoint}/{SINKS}/{sink.name}",
                sink.reads,
                (sink,),
                sink.output_mode,
            )
            for sink in self.sinks
        )

    def sources_of(self, query: Query) -> tuple[Source, ...]:
        """The sources that the query reads, in the order of their first use."""
        if not self.is_graph:
            return (self.source,)
        by_name = {source.name: source for source in self.sources}
        return tuple(by_name[source] for source in self.graph.sources_above(query.reads))

    @property
    def lands(self) -> bool:
        """Whether reading tasks write the files of its one sink."""
        return any(sink.lands for sink in self.sinks)


def graph_of(sources: tuple[Source, ...], steps: tuple[JobStep, ...]) -> StepGraph:
    marked = [source.name for source in sources if source.watermark is not None]
    return StepGraph([source.name for source in sources], steps, marked)


def load(file: str, environment: Mapping[str, str] = os.environ) -> Job:
    """Read and check. Raises `JobFileError`."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JobFileError([f"{file}: {error}"]) from error
    return parse(file, text, environment)


def parse(file: str, text: str, environment: Mapping[str, str]) -> Job:
    """Parse the `text` of `file`, as `load` does."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobFileError([f"{file}: this is no TOML: {error}"]) from error
    reading = _Reading(file, key_lines(text), environment)
    job = reading.job(reading.filled(raw, ()))
    if reading.errors or job is None:
        by_line = sorted(reading.errors, key=lambda error: error[0])
        raise JobFileError([sentence for _, sentence in by_line])
    return job


class FileReading(Protocol):
    """The reading of a whole file, as those see it who read a part."""

    def wrong(self, path: KeyPath, sentence: str) -> None: ...
    def check_keys(self, table: dict[str, Any], path: KeyPath, known: tuple[str, ...]) -> None: ...
    def table(self, raw: dict[str, Any], path: KeyPath, key: str) -> dict[str, Any]: ...
    def text(
        self, table: dict[str, Any], path: KeyPath, key: str, *, needed: bool = False
    ) -> str: ...
    def one_of(
        self, table: dict[str, Any], path: KeyPath, key: str, known: tuple[str, ...], default: str
    ) -> str: ...
    def names(self, table: dict[str, Any], path: KeyPath, key: str) -> tuple[str, ...]: ...
    def options(self, table: Any, path: KeyPath) -> dict[str, str]: ...
    def check_writer(
        self, options: Mapping[str, str], path: KeyPath, name: str, checkpoint: str
    ) -> None: ...


class _Reading:
    """Reads one file to its end, and collects all its errors."""

    def __init__(
        self, file: str, lines: Mapping[KeyPath, int], environment: Mapping[str, str]
    ) -> None:
        self.file = file
        self.errors: list[tuple[int, str]] = []
        self._lines = lines
        self._environment = environment
        self.steps = StepsReading(self)

    def wrong(self, path: KeyPath, sentence: str) -> None:
        line = line_of(self._lines, path)
        key = ".".join(part for part in path if not part.isdigit())
        where = f"{self.file}:{line}: {key}: " if key else f"{self.file}: "
        self.errors.append((line, where + sentence))

    def filled(self, value: Any, path: KeyPath) -> Any:
        """`value` with the environment's variables in place of ``${NAME}``, also in tables and lists."""
        if isinstance(value, dict):
            return {
                name: self.filled(entry, (*path, *name.split("."))) for name, entry in value.items()
            }
        if isinstance(value, list):
            return [self.filled(entry, (*path, str(n))) for n, entry in enumerate(value)]
        if not isinstance(value, str):
            return value
        for name in _VARIABLE.findall(value):
            if name not in self._environment:
                self.wrong(path, f"the environment has no variable {name}")
        return _VARIABLE.sub(lambda found: self._environment.get(found[1], ""), value)

    def job(self, raw: dict[str, Any]) -> Job | None:
        self.check_keys(raw, (), TOP)
        kind = self.one_of(raw, (), "kind", KINDS, "pipeline")
        for key in sorted(raw.keys() & set(TOP[3:]) - set(OF_KIND.get(kind, TOP))):
            self.wrong((key,), f"not for a job of kind {kind}")
        cluster = self.options(raw.get("cluster", {}), ("cluster",))
        name = self.text(raw, (), "name", needed=True)
        if name and not NAME.fullmatch(name):
            self.wrong(
                ("name",), "letters, digits, '.', '_' and '-' only: it names the job's writes"
            )
        checkpoint = self.text(raw, (), "checkpoint", needed=kind != "audit")
        checkpoint = absolute(checkpoint) or ""
        kinds = KindsReading(self)
        audit = kinds.audit(raw) if kind == "audit" else None
        sources: tuple[Source, ...] = (Source({}),)
        if audit is None or not audit.folders:
            sources = self.sources(raw, cluster)
        source = sources[0] if sources else None
        mirror = kinds.mirror(raw, name, checkpoint) if kind == "mirror" else None
        replay = kinds.replay(raw) if kind == "replay" else None
        if mirror is not None:
            sinks: tuple[Sink, ...] = (Sink("mirror", f"{mirror.alias}.*", mirror.target),)
        else:
            sinks = () if audit is not None else self.sinks(raw, cluster, name, checkpoint)
        if replay is not None and any(sink.kind != "topic" for sink in sinks):
            self.wrong(("sink",), "a replay writes topics")
        is_graph = is_a_graph(raw)
        if is_graph and kind != "pipeline":
            self.wrong(("source",), f"a job of kind {kind} has one source and no steps")
        sql, function, mode = self.transform(raw, is_graph)
        self.check_lands(
            sinks,
            source,
            is_transformed="transform" in raw or kind != "pipeline" or is_graph,
        )
        dead = self.dead_letters(raw, cluster, sources, name, checkpoint)
        if not is_graph:
            self.check_values(source, sinks, sql, dead, is_copied=not (sql or function))
        trigger = self.trigger(raw)
        steps = self.steps.steps(raw, tuple(source.name for source in sources)) if is_graph else ()
        if not is_graph and sources and kind == "pipeline":
            self.steps.check_transform(sql, function, mode, sources[0])
            for number, entry in enumerate(raw.get("sink", [])):
                for key in sorted({"name", "output_mode"} & set(entry)):
                    what = "for a sink with from; [transform] has output_mode for all sinks"
                    self.wrong(("sink", str(number), key), what)
        if is_graph and sources and kind == "pipeline":
            sinks = self.steps.check(raw, graph_of(sources, steps), sinks, sources)
        state = self.steps.state(raw)
        if self.errors or source is None:
            return None
        return Job(
            self.file, name, checkpoint, source, sinks, trigger, sql, function, mode, dead,
            kind, mirror, replay, audit, sources[1:], steps, is_graph, state,
        )  # fmt: skip

    def transform(self, raw: dict[str, Any], is_graph: bool) -> tuple[str, str, str]:
        """The one transformation of a file without steps: SQL, function, output mode."""
        transform = self.table(raw, (), "transform")
        if transform and is_graph:
            self.wrong(("transform",), "a file has [transform], or [step.NAME] and sinks with from")
            return "", "", "append"
        self.check_keys(transform, ("transform",), OF_TRANSFORM)
        sql = self.text(transform, ("transform",), "sql")
        function = self.text(transform, ("transform",), "python")
        if sql and function:
            self.wrong(("transform", "python"), "sql or python, not both")
        if function and not FUNCTION.fullmatch(function):
            self.wrong(("transform", "python"), f"module:function, not {function!r}")
        mode = self.one_of(transform, ("transform",), "output_mode", OUTPUT_MODES, "append")
        return sql, function, mode

    def sources(self, raw: dict[str, Any], cluster: Mapping[str, str]) -> tuple[Source, ...]:
        """The one of ``[source]``, or those of ``[source.NAME]``."""
        if "source" not in raw:
            self.wrong((), "there is no [source]")
            return ()
        table = self.table(raw, (), "source")
        given: dict[str, tuple[dict[str, Any], KeyPath]] = {VIEW: (table, ("source",))}
        if has_named_sources(table, SOURCE):
            given = {name: (entry, ("source", name)) for name, entry in table.items()}
        found = []
        for name, (entry, path) in given.items():
            source = self.source(entry, path, cluster) if self.steps.is_name(name, path) else None
            if source is not None:
                source = replace(
                    source,
                    name=name,
                    watermark=self.steps.watermark(entry, path),
                    deduplicate_by=self.steps.deduplicate_by(entry, path),
                )
                self.steps.check_columns(source, path)
                found.append(source)
        return tuple(found)

    def source(
        self, table: dict[str, Any], path: KeyPath, cluster: Mapping[str, str]
    ) -> Source | None:
        self.check_keys(table, path, SOURCE)
        options = self.options(table.get("options", {}), (*path, "options"))
        given = [key for key in ("topics", "topic_pattern", "files") if key in table]
        by_option = [
            option for option in ("assign", "subscribe", "subscribePattern") if option in options
        ]
        if len(given) + len(by_option) != 1:
            self.wrong(path, "one of topics, topic_pattern, files or option assign is needed")
            return None
        if given == ["files"]:
            return self.files(table, path, options)
        for name in ("format", "schema"):
            if name in table:
                self.wrong((*path, name), f"for files; topics have the option value.{name}")
        if "topics" in given:
            options["subscribe"] = ",".join(self.names(table, path, "topics"))
        elif "topic_pattern" in given:
            options["subscribePattern"] = self.text(table, path, "topic_pattern")
        options = {**cluster, **options}
        for check in (
            check_names,
            lambda given: check_direction(given, reading=True),
            lambda given: source_options(given, streaming=True),
        ):
            if not self.passes(check, options, path):
                break
        return Source(options)

    def files(self, table: dict[str, Any], path: KeyPath, options: dict[str, str]) -> Source:
        files = self.text(table, path, "files", needed=True)
        name = self.one_of(table, path, "format", FILE_FORMATS, "text")
        schema = self.text(table, path, "schema")
        if not schema and name != "text":
            self.wrong(
                path, f"files of format {name} need schema, a DDL as 'id BIGINT, name STRING'"
            )
        return Source(options, absolute(files) or "", name, schema)

    def sinks(
        self, raw: dict[str, Any], cluster: Mapping[str, str], name: str, checkpoint: str
    ) -> tuple[Sink, ...]:
        given = raw.get("sink", [])
        if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
            self.wrong(("sink",), "sinks are tables: [[sink]]")
            return ()
        if not given:
            self.wrong((), "there is no [[sink]]")
        found: list[Sink] = []
        for number, table in enumerate(given):
            path = ("sink", str(number))
            sink = self.sink(table, path, cluster, name, checkpoint)
            if sink is not None and str(sink) in map(str, found):
                self.wrong(path, f"{sink} is there twice")
            if sink is not None:
                found.append(sink)
        return tuple(found)

    def sink(
        self,
        table: dict[str, Any],
        path: KeyPath,
        cluster: Mapping[str, str],
        name: str,
        checkpoint: str,
    ) -> Sink | None:
        self.check_keys(table, path, SINK)
        kinds = [key for key in ("topic", *TABLES) if key in table]
        if len(kinds) != 1:
            self.wrong(path, "one of topic, parquet, delta and iceberg is needed")
            return None
        kind = kinds[0]
        place = self.text(table, path, kind, needed=True)
        options = self.options(table.get("options", {}), (*path, "options"))
        if kind == "topic":
            for key in (*OF_TABLES, "schema", "catalog", "land"):
                if key in table:
                    self.wrong((*path, key), "for tables, not for topics")
            options = {**cluster, **options, "topic": place}
            self.check_writer(options, path, name, checkpoint)
            return Sink(kind, place, options)
        for option in sorted(options):
            self.wrong((*path, "options", *option.split(".")), "a table has no options")
        rules = self.rules(table, path, kind)
        if kind == "iceberg":
            catalog = self.catalog(table, path, place)
            return Sink(kind, place, {}, rules, catalog, self.lands(table, path, rules))
        if "catalog" in table:
            self.wrong((*path, "catalog"), "for Iceberg tables")
        if kind == "parquet" and is_in_store(place):
            self.wrong((*path, kind), NO_RENAME)
            return None
        is_bare = SCHEME.match(place) is None
        place = absolute(as_folder(place)) or ""
        return Sink(kind, place, {}, rules, lands=self.lands(table, path, rules), is_bare=is_bare)

    def lands(self, table: dict[str, Any], path: KeyPath, rules: TableRules) -> bool:
        value: object = table.get("land", False)
        if not isinstance(value, bool):
            self.wrong((*path, "land"), f"true or false, not {value!r}")
            return False
        if value and rules.upsert_by:
            self.wrong((*path, "land"), "for tables that are appended to, without upsert_by")
        for column in rules.partition_by if value else ():
            if column not in PARTS:
                what = f"with land a table is partitioned by {' and '.join(PARTS)} only"
                self.wrong((*path, "partition_by"), what)
        return value

    def check_lands(
        self, sinks: tuple[Sink, ...], source: Source | None, *, is_transformed: bool
    ) -> None:
        if not any(sink.lands for sink in sinks):
            return
        if len(sinks) > 1 or is_transformed or source is None or not source.is_topics:
            self.wrong(("sink",), "land is for the only sink of topics without a transformation")

    def check_values(
        self,
        source: Source | None,
        sinks: tuple[Sink, ...],
        sql: str,
        dead: Sink | None,
        *,
        is_copied: bool,
    ) -> None:
        """`is_copied`: sinks get records as they were read."""
        if source is not None:
            found = check_source(source.options, sql, has_dead_letters=dead is not None)
            if found is not None:
                self.wrong(("transform", "sql"), found)
        copied = [("sink", key) for key in sinks if is_copied]
        copied += [("dead_letters", dead)] if dead is not None else []
        for key, sink in copied:
            found = check_writer(sink.options)
            if found is not None:
                self.wrong((key,), found)

    def rules(self, table: dict[str, Any], path: KeyPath, kind: str) -> TableRules:
        columns = {key: self.names(table, path, key) if key in table else () for key in OF_TABLES}
        schema = self.table(table, path, "schema")
        self.check_keys(schema, (*path, "schema"), ("evolution",))
        evolution = self.one_of(schema, (*path, "schema"), "evolution", EVOLUTIONS, "none")
        if kind == "parquet":
            for key in ("upsert_by", "order_by", "schema"):
                if key in table:
                    self.wrong((*path, key), "for delta and iceberg: a Parquet folder is appended")
        if columns["order_by"] and not columns["upsert_by"]:
            self.wrong((*path, "order_by"), "chooses among rows of a key: upsert_by is needed")
        return TableRules(**columns, adds_columns=evolution == ADD_COLUMNS)

    def catalog(self, table: dict[str, Any], path: KeyPath, place: str) -> dict[str, str]:
        found = self.options(table.get("catalog", {}), (*path, "catalog"))
        if not found:
            self.wrong(path, 'an Iceberg table needs catalog: type = "sql", uri, warehouse')
        if "." not in place.strip("."):
            self.wrong((*path, "iceberg"), f"namespace.table, not {place!r}")
        return found

    def check_writer(
        self, options: Mapping[str, str], path: KeyPath, name: str, checkpoint: str
    ) -> None:
        for option in ("txnAppId", "txnVersion", "checkpointLocation"):
            if option in options:
                self.wrong((*path, "options", option), "the job says this itself")
        named = {"checkpointLocation": checkpoint or "/", "txnAppId": name, "txnVersion": "0"}
        for check in (
            check_names,
            lambda given: check_direction(given, reading=False),
            lambda given: sink_options({**given, **named}, streaming=False),
        ):
            if not self.passes(check, options, path):
                break

    def dead_letters(
        self,
        raw: dict[str, Any],
        cluster: Mapping[str, str],
        sources: tuple[Source, ...],
        name: str,
        checkpoint: str,
    ) -> Sink | None:
        if "dead_letters" not in raw:
            return None
        path = ("dead_letters",)
        table = self.table(raw, (), "dead_letters")
        self.check_keys(table, path, DEAD_LETTERS)
        if sources and not any("value.format" in source.options for source in sources):
            self.wrong(path, "dead letters are values that value.format of the source cannot read")
        topic = self.text(table, path, "topic", needed=True)
        options = self.options(table.get("options", {}), (*path, "options"))
        options = {**cluster, **options, "topic": topic}
        self.check_writer(options, path, name, checkpoint)
        return Sink("topic", topic, options)

    def trigger(self, raw: dict[str, Any]) -> int | None:
        text = self.text(raw, (), "trigger")
        try:
            return duration_ms({"trigger": text}, "trigger", 0) if text else None
        except OptionError as error:
            self.wrong(("trigger",), str(error))
            return None

    def passes(self, check: Any, options: Mapping[str, str], path: KeyPath) -> bool:
        """Run a check of the format's options. Its error is reported at the key that it names."""
        try:
            check(options)
        except OptionError as error:
            named = [
                option for option in options if re.search(rf"\b{re.escape(option)}\b", str(error))
            ]
            for option in sorted(named, key=len, reverse=True):
                parts = tuple(option.split("."))
                for above in ((*path, "options"), ("cluster",)):
                    if (*above, *parts) in self._lines:
                        self.wrong((*above, *parts), str(error))
                        return False
            self.wrong(path, str(error))
            return False
        return True

    def check_keys(self, table: dict[str, Any], path: KeyPath, known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                self.wrong((*path, key), f"there is no such key{hint(key, known)}")

    def table(self, raw: dict[str, Any], path: KeyPath, key: str) -> dict[str, Any]:
        found = raw.get(key, {})
        if isinstance(found, dict):
            return found
        self.wrong((*path, key), f"a table: [{key}]")
        return {}

    def text(self, table: dict[str, Any], path: KeyPath, key: str, *, needed: bool = False) -> str:
        found = table.get(key, "")
        if not isinstance(found, str):
            self.wrong((*path, key), f"a text, not {found!r}")
            return ""
        if needed and not found.strip():
            self.wrong((*path, key), "is needed")
        return found

    def one_of(
        self, table: dict[str, Any], path: KeyPath, key: str, known: tuple[str, ...], default: str
    ) -> str:
        found = self.text(table, path, key) or default
        if found not in known:
            self.wrong((*path, key), f"one of {', '.join(known)}, not {found!r}")
        return found

    def names(self, table: dict[str, Any], path: KeyPath, key: str) -> tuple[str, ...]:
        found = table[key]
        if isinstance(found, str):
            found = [found]
        if not isinstance(found, list) or not found or not all(isinstance(n, str) for n in found):
            self.wrong((*path, key), f"a list of names, not {found!r}")
            return ()
        return tuple(found)

    def options(self, table: Any, path: KeyPath) -> dict[str, str]:
        if not isinstance(table, dict):
            self.wrong(path, "a table of options")
            return {}
        found: dict[str, str] = {}
        for name, value in _flat(table, ""):
            if isinstance(value, bool):
                found[name] = str(value).lower()
            elif isinstance(value, str | int | float):
                found[name] = str(value)
            else:
                self.wrong((*path, *name.split(".")), f"a text or a number, not {value!r}")
        return found


def is_a_graph(raw: Mapping[str, Any]) -> bool:
    """Whether the file names its sources, has steps, or says what a sink reads."""
    sinks = raw.get("sink", [])
    return (
        "step" in raw
        or has_named_sources(raw.get("source"), SOURCE)
        or (isinstance(sinks, list) and any("from" in entry for entry in sinks))
    )


def _flat(table: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    """Keys with dots and values: TOML reads a dotted key as tables in tables."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
