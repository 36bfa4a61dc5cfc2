"""Data files of tables in object stores: written where they stay, because a store has no rename.

A file that no commit of the table's log names is no data. Those of a batch whose driver was killed stay until
the table's own tools remove them (``vacuum``, ``remove_orphan_files``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.places import s3_settings
from barnabas.pipeline.places.stores import ArrowStore, open_store

DATA = "data"
"""The folder below a table that tasks write into."""
NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A data file. `name` is below the table."""

    name: str
    rows: int
    size: int

    @property
    def parts(self) -> dict[str, str | None]:
        """Values by column that the names of its folders have."""
        return values_in(self.name.split("/")[:-1])


def values_in(folders: list[str] | tuple[str, ...]) -> dict[str, str | None]:
    """The values of folders named ``column=value``, as Spark and Hive name them."""
    found: dict[str, str | None] = {}
    for folder in folders:
        name, equals, value = folder.partition("=")
        if equals:
            found[unquote(name)] = None if value == NULL else unquote(value)
    return found


def for_spark(place: str) -> str:
    """The URI under the scheme that Hadoop has for it."""
    scheme, colon, rest = place.partition(":")
    return f"s3a:{rest}" if colon and scheme.lower() in s3_settings.SCHEMES else place


def for_delta(place: str) -> dict[str, str]:
    """deltalake's ``storage_options``. Stores other than S3 take keys from their own variables."""
    is_s3 = place.partition(":")[0].lower() in s3_settings.SCHEMES
    return s3_settings.settings_here().for_delta() if is_s3 else {}


def table_store(table: str) -> ArrowStore:
    """Raises `StagingError`."""
    store = open_store(table)
    if not isinstance(store, ArrowStore):
        raise StagingError(f"{table} is no store")
    return store


def written_below(table: str, folder: str) -> list[StoredFile]:
    """Data files that Spark has written below a folder of the table."""
    import pyarrow.parquet as pq

    store = table_store(table)
    found = []
    for name, size in store.files(folder):
        if name.endswith(".parquet"):
            with store.open_input(name) as file:
                found.append(StoredFile(name, pq.read_metadata(file).num_rows, size))
        else:  # Hadoop's markers
            store.delete(name)
    return found


def check_there(table: str, files: list[StoredFile]) -> None:
    """Raises `StagingError` where the driver does not find what tasks wrote."""
    store = table_store(table)
    for file in files:
        if store.size(file.name) != file.size:
            raise StagingError(
                f"{file.name}, which a task has written, is not in {table} for the driver: both are to open"
                " the same store"
            )


def rows_of_files(table: str, files: list[StoredFile], schema: Any) -> Any:
    """The rows as an Arrow table of this schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    store = table_store(table)
    tables = [schema.empty_table()]
    for stored in files:
        with store.open_input(stored.name) as file:
            tables.append(pq.read_table(file).select(schema.names).cast(schema))
    return pa.concat_tables(tables)


def remove(table: str, files: list[StoredFile]) -> None:
    store = table_store(table)
    for file in files:
        store.delete(file.name)
