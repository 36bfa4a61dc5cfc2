"""Delta tables that this project did not make: one for each feature of the protocol, and readers of others.

A table is the protocol and the metadata of its first commit, written as JSON: no library makes all of them.
Columns are those of records, `offset` and `value`, so that rows come from a topic by any way of writing.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Protocol = dict[str, Any]
Fields = list[dict[str, Any]]
OLD = 1_700_000_000_000


def column(
    name: str, type_: Any, metadata: dict[str, str] | None = None, *, nullable: bool = True
) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": nullable, "metadata": metadata or {}}


def versions(writer: int, reader: int = 1) -> Protocol:
    return {"minReaderVersion": reader, "minWriterVersion": writer}


def features(*names: str, reads: bool = False) -> Protocol:
    found: Protocol = {**versions(7, 3 if reads else 1), "writerFeatures": list(names)}
    return found | ({"readerFeatures": list(names)} if reads else {})


OFFSET, VALUE = column("offset", "long"), column("value", "binary")
RULE = {"delta.invariants": json.dumps({"expression": {"expression": "offset < 3"}})}
GENERATED = "delta.generationExpression"
TWICE = column("twice", "long", {GENERATED: "offset * 2"})


def mapped(mode: str) -> tuple[Fields, dict[str, str]]:
    fields = []
    for number, each in enumerate((OFFSET, VALUE), start=1):
        names = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"c{number}"}
        fields.append({**each, "metadata": names})
    return fields, {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "2"}


@dataclass(frozen=True)
class OtherTable:
    """`refused` is what the job says of the table, empty where it writes to it; `bad` what it says of rows
    that break a rule of the table. `unread` are readers that cannot read such a table."""

    name: str
    protocol: Protocol
    fields: Fields = field(default_factory=lambda: [OFFSET, VALUE])
    settings: dict[str, str] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    refused: str = ""
    upsert_refused: str = ""
    bad: str = ""
    unread: tuple[str, ...] = ()

    def make(self, folder: Path) -> Path:
        log = folder / self.name / "_delta_log"
        log.mkdir(parents=True)
        metadata = {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": self.fields}),
            "partitionColumns": list(self.parts),
            "configuration": self.settings,
            "createdTime": OLD,
        }
        actions = [{"protocol": self.protocol}, {"metaData": metadata}]
        (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
        return log.parent


NO_PYARROW = "pyarrow"
"""deltalake's reader over pyarrow knows neither mapped columns nor the features of readers."""
WRITTEN = [
    OtherTable("plain", versions(2)),
    OtherTable("partitioned", versions(2), parts=("offset",)),
    OtherTable("check", versions(3), settings={"delta.constraints.a": "offset < 3"}, bad="offset|3"),
    OtherTable(
        "check-by-feature", features("checkConstraints"), settings={"delta.constraints.a": "offset < 3"}
    ),
    OtherTable("not-null", versions(2), [OFFSET, {**VALUE, "nullable": False}], bad="failed valid"),
    OtherTable("invariant", versions(2), [column("offset", "long", RULE), VALUE], bad="failed valid"),
    OtherTable("generated", versions(4), [OFFSET, VALUE, TWICE]),
    OtherTable("generated-partition", features("generatedColumns"), [OFFSET, VALUE, TWICE], parts=("twice",)),
    OtherTable("mapped-by-name", versions(5, 2), *mapped("name"), unread=(NO_PYARROW,)),
    OtherTable("mapped-by-id", versions(5, 2), *mapped("id"), unread=(NO_PYARROW,)),
    OtherTable(
        "mapped-partition", features("columnMapping", reads=True), *mapped("name"), parts=("offset",),
        unread=(NO_PYARROW,),
    ),
    OtherTable(
        "append-only", features("appendOnly"), settings={"delta.appendOnly": "true"},
        upsert_refused="delta.appendOnly",
    ),
    OtherTable("change-feed", versions(4), settings={"delta.enableChangeDataFeed": "true"}),
    OtherTable(
        "deletion-vectors", features("deletionVectors", reads=True),
        settings={"delta.enableDeletionVectors": "true"}, unread=(NO_PYARROW,),
    ),
    OtherTable(
        "checkpoints-v2", features("v2Checkpoint", reads=True),
        settings={"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "1"}, unread=(NO_PYARROW,),
    ),
    OtherTable("ntz-unused", features("timestampNtz", reads=True)),
]  # fmt: skip
UNDONE = [
    "allowColumnDefaults", "clustering", "domainMetadata", "icebergCompatV1", "icebergCompatV2",
    "icebergCompatV3", "identityColumns", "inCommitTimestamp", "materializePartitionColumns", "rowTracking",
    "aFeatureOfTomorrow", "collations-preview", "coordinatedCommits-preview", "checkpointProtection",
]  # fmt: skip
UNDONE_READERS = [
    "catalogManaged", "typeWidening", "typeWidening-preview", "vacuumProtocolCheck", "variantType",
    "variantType-preview", "variantShredding", "variantShredding-preview", "geospatial", "anotherOne",
]  # fmt: skip
REFUSED = [
    *(OtherTable(each, features(each), refused=each) for each in UNDONE),
    *(OtherTable(each, features(each, reads=True), refused=each) for each in UNDONE_READERS),
    OtherTable("version-6", versions(6), refused="identityColumns"),
    OtherTable("version-8", versions(8), refused="protocol"),
    OtherTable("bytes-partition", versions(2), parts=("value",), refused="partitioned by value"),
    OtherTable(
        "other-division",
        versions(3),
        settings={"delta.constraints.half": "offset / 2 <= 1"},
        refused="the constraint half by .*: / may mean something else",
    ),
    OtherTable(
        "other-invariant",
        versions(2),
        [
            column(
                "offset",
                "long",
                {"delta.invariants": RULE["delta.invariants"].replace("< 3", "/ 2 < 3")},
            ),
            VALUE,
        ],
        refused="the invariant of column offset by .*: / may mean something else",
    ),
    OtherTable(
        "other-function",
        versions(4),
        [OFFSET, VALUE, column("day", "string", {GENERATED: "date_format(offset, 'yyyy-MM-dd')"})],
        refused="the generated column day by .*: date_format may mean something else",
    ),
    OtherTable(
        "time-partition",
        versions(2),
        [OFFSET, VALUE, column("at", "timestamp")],
        parts=("at",),
        refused="partitioned by at, which is timestamp: .*without its time zone",
    ),
]


def with_a_deleted_row(table: Path) -> None:
    """Add a file with offsets 0 and 100, the first of them deleted by a deletion vector in the log."""
    file = table / "old.parquet"
    pq.write_table(pa.table({"offset": [0, 100], "value": [b"deleted", b"kept"]}), file)
    bitmap = struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, 0)
    vector = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    add = {
        "path": file.name,
        "partitionValues": {},
        "size": file.stat().st_size,
        "modificationTime": OLD,
        "dataChange": True,
        "stats": json.dumps({"numRecords": 2, "tightBounds": False}),
        "deletionVector": {
            "storageType": "i",
            "pathOrInlineDv": _z85(vector + bytes(-len(vector) % 4)),
            "sizeInBytes": len(vector),
            "cardinality": 1,
        },
    }
    (table / "_delta_log" / f"{1:020}.json").write_text(json.dumps({"add": add}))


def _z85(data: bytes) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    numbers = [int.from_bytes(data[n : n + 4], "big") for n in range(0, len(data), 4)]
    return "".join(
        digits[number // 85**place % 85] for number in numbers for place in (4, 3, 2, 1, 0)
    )


@cache
@cache
def duckdb_with(*names: str) -> Any:
    """A connection of DuckDB with extensions that were installed as packages: none is fetched."""
    import duckdb

    connection = duckdb.connect()
    for name in names:
        spec = find_spec(f"duckdb_extension_{name}")
        assert spec is not None and spec.origin is not None
        (file,) = Path(spec.origin).parent.glob("extensions/*/*.duckdb_extension")
        connection.execute(f"load '{file}'")
    return connection


def read_by_all(table: OtherTable, path: Path) -> dict[str, list[dict[str, Any]]]:
    """Rows by reader, in the order of their offsets."""
    from deltalake import DeltaTable, QueryBuilder

    query = QueryBuilder().register("t", DeltaTable(path)).execute("select * from t")
    found = {"QueryBuilder": pa.table(query)}
    found["DuckDB"] = (
        duckdb_with("delta").sql(f"select * from delta_scan('{path}')").to_arrow_table()
    )
    if NO_PYARROW not in table.unread:
        found["pyarrow"] = DeltaTable(path).to_pyarrow_table()
    return {
        name: sorted(rows.to_pylist(), key=lambda row: row["offset"])
        for name, rows in found.items()
    }
