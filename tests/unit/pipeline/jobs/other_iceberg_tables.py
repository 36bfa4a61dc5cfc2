"""Iceberg tables that this project did not make: made by pyiceberg, or by metadata that it can read only."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.types import BinaryType, LongType, NestedField, StructType

from tests.unit.pipeline.jobs.other_tables import duckdb_with
from tests.unit.pipeline.jobs.table_kinds import catalog_of

OFFSET = NestedField(1, "offset", LongType(), required=False)
VALUE = NestedField(2, "value", BinaryType(), required=False)
PLAIN = Schema(OFFSET, VALUE)
MAPPING = "schema.name-mapping.default"
NEW_VERSION = 3


def needed(field: NestedField) -> NestedField:
    return field.model_copy(update={"required": True})


def parted(number: int, transform: Transform[Any, Any]) -> PartitionSpec:
    return PartitionSpec(PartitionField(number, 1000, transform, "part"))


@dataclass(frozen=True)
class OtherIceberg:
    """`refused` is what a job says of it, empty where it writes to it; `bad` of rows without a value."""

    name: str
    schema: Schema = PLAIN
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC
    order: SortOrder = UNSORTED_SORT_ORDER
    settings: dict[str, str] = field(default_factory=dict)
    refused: str = ""
    bad: str = ""

    @property
    def table(self) -> str:
        """Its name in its catalog."""
        return f"air.{self.name.replace('-', '_')}"

    def make(self, folder: Path) -> dict[str, str]:
        """The properties of the catalog that has it."""
        folder.mkdir(parents=True)
        properties = catalog_of(folder)
        catalog = load_catalog("default", **properties)
        catalog.create_namespace("air")
        catalog.create_table(
            self.table,
            self.schema,
            partition_spec=self.spec,
            sort_order=self.order,
            properties=self.settings,
        )
        if self.name.startswith("version-3"):
            renew(catalog, self.table, with_default="default" in self.name)
        return properties


def renew(catalog: Any, name: str, *, with_default: bool) -> None:
    """Register the table again with metadata of version 3, which pyiceberg reads and does not write."""
    place = catalog.load_table(name).metadata_location
    file = Path(place.removeprefix("file://"))
    metadata = json.loads(file.read_text())
    metadata |= {"format-version": NEW_VERSION, "next-row-id": 0}
    if with_default:
        (found,) = metadata["schemas"]
        found["fields"].append(
            {"id": 3, "name": "d", "required": False, "type": "long", "write-default": 7}
        )
        metadata["last-column-id"] = 3
    renewed = file.with_name("00009-3f0c53c5-6e2a-4a8e-9d9c-2f1c6ad0a3b1.metadata.json")
    renewed.write_text(json.dumps(metadata))
    catalog.drop_table(name)
    catalog.register_table(name, f"file://{renewed}")


WRITTEN = [
    OtherIceberg("plain"),
    OtherIceberg("version-1", settings={"format-version": "1"}),
    OtherIceberg("required", Schema(OFFSET, needed(VALUE)), bad="requires value"),
    OtherIceberg("identity", spec=parted(1, IdentityTransform())),
    OtherIceberg("identity-of-bytes", spec=parted(2, IdentityTransform())),
    OtherIceberg("void", spec=parted(1, VoidTransform())),
    OtherIceberg("sorted", order=SortOrder(SortField(1, IdentityTransform()))),
    OtherIceberg("mapped-otherwise", settings={MAPPING: '[{"field-id": 1, "names": ["other"]}]'}),
    OtherIceberg(
        "identifier", Schema(needed(OFFSET), VALUE, identifier_field_ids=[1])
    ),
]  # fmt: skip
INNER = StructType(NestedField(4, "x", LongType(), required=True))
REFUSED = [
    OtherIceberg("version-3", refused="format version 3, which asks its writers for row lineage"),
    OtherIceberg("version-3-default", refused="row lineage, the default value of d"),
    OtherIceberg("bucket", spec=parted(1, BucketTransform(4)), refused="partitioned by bucket"),
    OtherIceberg("truncate", spec=parted(2, TruncateTransform(1)), refused="partitioned by truncate"),
    OtherIceberg(
        "required-within", Schema(OFFSET, VALUE, NestedField(3, "o", INNER, required=False)),
        refused="requires o.x",
    ),
]  # fmt: skip


def read_by_all(properties: dict[str, str], name: str) -> dict[str, list[dict[str, Any]]]:
    """Rows by reader, in the order of their offsets."""
    table = load_catalog("default", **properties).load_table(name)
    place = table.metadata_location.removeprefix("file://")
    scan = f"select * from iceberg_scan('{place}')"
    found: dict[str, pa.Table] = {
        "pyiceberg": table.scan().to_arrow(),
        "DuckDB": duckdb_with("avro", "iceberg").sql(scan).to_arrow_table(),
    }
    return {
        name: sorted(rows.to_pylist(), key=lambda row: row["offset"])
        for name, rows in found.items()
    }
