"""Files of an Iceberg table that pyiceberg may write again: an upsert or a compaction changes no row of them.

pyiceberg takes timestamps as INT96 for others where nanoseconds do not reach them
(:mod:`barnabas.pipeline.jobs.tables.far_times`). Iceberg's own writers have no INT96; files that were taken
over from a Parquet or Hive table do. A table with such times is refused; rows may be appended to it. Bounds
in the manifests tell most files, and each manifest is read once.
"""

from __future__ import annotations

import struct
from typing import Any

from barnabas.pipeline.errors import TableRefusedError
from barnabas.pipeline.jobs.tables.far_times import END, FAR, FIRST, far_column

NEAR = range(int(FIRST.timestamp()) * 1_000_000, int(END.timestamp()) * 1_000_000)
"""Microseconds that 64 bits of nanoseconds reach."""


class IcebergRewrites:
    """The manifests of the table `name` that were read."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._seen: set[str] = set()

    def check(self, table: Any) -> None:
        """Look at the files of a loaded table that were not looked at. Raises `TableRefusedError`."""
        from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent

        snapshot, times = table.current_snapshot(), _times_of(table.schema())
        if snapshot is None or not times:
            return
        for manifest in snapshot.manifests(table.io):
            path = manifest.manifest_path
            if path in self._seen or manifest.content != ManifestContent.DATA:
                continue
            for entry in manifest.fetch_manifest_entry(table.io):
                file = entry.data_file
                is_parquet = file.file_format == FileFormat.PARQUET
                if file.content == DataFileContent.DATA and is_parquet:
                    self._check_file(table, file, times)
            self._seen.add(path)

    def _check_file(self, table: Any, file: Any, times: list[int]) -> None:
        ends = [bounds or {} for bounds in (file.lower_bounds, file.upper_bounds)]
        if all(_is_near(bounds.get(field)) for bounds in ends for field in times):
            return
        with table.io.new_input(file.file_path).open() as opened:
            far = far_column(opened)
        if far is not None:
            raise TableRefusedError(
                f"Iceberg table {self._name} has {FAR} in column {far} of {file.file_path}: pyiceberg, which"
                " writes rows again for an upsert or a compaction, would take them for others; rows may be"
                " appended, and rewrite_data_files of Spark writes the files again"
            )


def _times_of(schema: Any) -> list[int]:
    """Ids of the fields that are timestamps, at any depth."""
    from pyiceberg.types import TimestampType, TimestamptzType

    return [
        number
        for number in sorted(schema.field_ids)
        if isinstance(schema.find_type(number), TimestampType | TimestamptzType)
    ]


def _is_near(bound: bytes | None) -> bool:
    return bound is not None and struct.unpack("<q", bound)[0] in NEAR
