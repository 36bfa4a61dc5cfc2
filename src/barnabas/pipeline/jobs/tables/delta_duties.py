"""The duties of a Delta table's writers, read from its protocol, its properties and its schema.

A writer that appends files to a table's log owes the table what its features ask: each is done here or the
table is refused by the feature's name, unknown features too. deltalake's own writer checks rows (constraints,
NOT NULL, invariants), computes generated columns and writes mapped columns under their physical names. Tables
that ask for any of this are written by it, row by row; all others take the files of tasks as they are.

deltalake is the rule: a table that it refuses is refused. Source: Delta's protocol, "Table Features", "Valid
Feature Names in Table Features", "Additional Requirements for Writers".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from barnabas.pipeline.errors import TableRefusedError
from barnabas.pipeline.jobs.tables.delta_expressions import what_differs

DONE = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
    }
)
"""Features whose duties are done, by their names in the protocol."""
WRITER_VERSION_MAX = 5
"""Versions up to it have features that are in `DONE` only; 6 adds identity columns, 7 names its features."""
NAMED_FEATURES = 7
READER_VERSION_MAX = 3
APPEND_ONLY = "delta.appendOnly"
MAPPING_MODE = "delta.columnMapping.mode"
CONSTRAINT = "delta.constraints."
GENERATED = "delta.generationExpression"
INVARIANT = "delta.invariants"
NO_PARTS = {
    "binary": "bytes are not safe in the names of partitions",
    "timestamp": "deltalake writes such a value without its time zone, and Spark takes it for one of its"
    " session's; a date or timestamp_ntz has none",
}
"""Types whose partition values deltalake writes otherwise than it or others read them, with the reason."""
PLAIN_PARTS = frozenset({"boolean", "byte", "short", "integer", "long", "string", "date"})
"""Types whose values have one text, in names of Spark's folders and in Delta's log."""


@dataclass(frozen=True, slots=True)
class DeltaDuties:
    """The duties of one table. `by_rows`: deltalake writes the rows, as files of tasks would break the
    table's rules. `generated` are columns that it computes where a batch lacks them."""

    partition_by: tuple[str, ...]
    by_rows: bool
    generated: frozenset[str]
    is_append_only: bool


def duties_of(table: Any, place: str) -> DeltaDuties:
    """The duties of an open table. Raises `TableRefusedError`, which names each feature that is not done."""
    protocol, metadata = table.protocol(), table.metadata()
    features = frozenset(protocol.writer_features or ()) | frozenset(protocol.reader_features or ())
    writer = protocol.min_writer_version
    if writer > NAMED_FEATURES or protocol.min_reader_version > READER_VERSION_MAX:
        raise TableRefusedError(
            f"Delta table {place} asks for protocol ({protocol.min_reader_version}, {writer}); known are"
            f" reader versions up to {READER_VERSION_MAX} and writer versions up to {NAMED_FEATURES}"
        )
    if WRITER_VERSION_MAX < writer < NAMED_FEATURES:
        features |= {"identityColumns"}
    undone = sorted(features - DONE)
    if undone:
        raise TableRefusedError(
            f"Delta table {place} has the feature{'s' * (len(undone) > 1)} {', '.join(undone)}, whose duties"
            " a job does not do; it can write to a table without"
        )
    fields = json.loads(table.schema().to_json())["fields"]
    parts = tuple(metadata.partition_columns)
    types = {field["name"]: field["type"] for field in fields}
    for name in parts:
        check_part(place, name, types[name])
    settings = metadata.configuration
    for name, expression in _expressions(fields, settings):
        differs = what_differs(expression)
        if differs is not None:
            raise TableRefusedError(
                f"Delta table {place} has {name} by {expression!r}: {differs} may mean something else to"
                " deltalake, which computes it, than to Spark"
            )
    return DeltaDuties(
        parts,
        by_rows=(
            any(key.startswith(CONSTRAINT) for key in settings)
            or settings.get(MAPPING_MODE, "none") != "none"
            or any(True for _ in _rules_in(fields))
            or not PLAIN_PARTS.issuperset(types[name] for name in parts)
        ),
        generated=frozenset(field["name"] for field in fields if GENERATED in field["metadata"]),
        is_append_only=settings.get(APPEND_ONLY, "").lower() == "true",
    )


def _expressions(
    fields: list[dict[str, Any]], settings: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Expressions that deltalake evaluates for each row, with what they are."""
    for key, expression in settings.items():
        if key.startswith(CONSTRAINT):
            yield f"the constraint {key.removeprefix(CONSTRAINT)}", expression
    for field in fields:
        if GENERATED in field["metadata"]:
            yield f"the generated column {field['name']}", field["metadata"][GENERATED]
        if INVARIANT in field["metadata"]:
            rule = json.loads(field["metadata"][INVARIANT])["expression"]["expression"]
            yield f"the invariant of column {field['name']}", rule


def check_part(place: str, name: str, type_: Any) -> None:
    """Raises `TableRefusedError` for a column by which no table is partitioned here."""
    if isinstance(type_, str) and type_ in NO_PARTS:
        raise TableRefusedError(
            f"Delta table {place} is partitioned by {name}, which is {type_}: {NO_PARTS[type_]}"
        )


def type_text(type_: Any) -> str:
    """A type of a schema's JSON in short, without what may be null: rows are checked for that."""
    if not isinstance(type_, dict):
        return str(type_)
    match type_["type"]:
        case "struct":
            inner = ", ".join(
                f"{field['name']}: {type_text(field['type'])}" for field in type_["fields"]
            )
            return f"struct<{inner}>"
        case "array":
            return f"array<{type_text(type_['elementType'])}>"
        case "map":
            return f"map<{type_text(type_['keyType'])}, {type_text(type_['valueType'])}>"
        case other:
            return str(other)


def _rules_in(fields: list[dict[str, Any]]) -> Iterator[str]:
    """Names of fields, at any depth, that ask a writer for something."""
    for field in fields:
        if not field["nullable"] or any(key.startswith("delta.") for key in field["metadata"]):
            yield field["name"]
        yield from (f"{field['name']}.{below}" for below in _rules_below(field["type"]))


def _rules_below(type_: Any) -> Iterator[str]:
    if not isinstance(type_, dict):
        return
    match type_["type"]:
        case "struct":
            yield from _rules_in(type_["fields"])
        case "array":
            if not type_["containsNull"]:
                yield "element"
            yield from _rules_below(type_["elementType"])
        case "map":
            if not type_["valueContainsNull"]:
                yield "value"
            yield from _rules_below(type_["keyType"])
            yield from _rules_below(type_["valueType"])
