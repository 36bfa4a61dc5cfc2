"""Delta and Iceberg tables in a directory, and their rows by readers that know nothing of jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from pyiceberg.catalog import load_catalog

from barnabas.pipeline.jobs.tables.delta_table import DeltaTable
from barnabas.pipeline.jobs.tables.iceberg_table import IcebergTable
from barnabas.pipeline.jobs.tables.table_rules import TableRules

NAME = "air.flights"
"""Of the Iceberg table."""


def catalog_of(directory: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"file://{directory}/warehouse",
    }


def table_of(kind: str, directory: Path, **rules: Any) -> DeltaTable | IcebergTable:
    if kind == "delta":
        return DeltaTable(str(directory / "delta"), TableRules(**rules))
    return IcebergTable(NAME, catalog_of(directory), TableRules(**rules))


def rows_of(kind: str, directory: Path) -> pa.Table:
    if kind == "delta":
        return deltalake.DeltaTable(directory / "delta").to_pyarrow_table()
    return load_catalog("default", **catalog_of(directory)).load_table(NAME).scan().to_arrow()
