"""The Parquet files of one micro-batch: written to a hidden folder, and synced before a table names them.

Owns the hidden folder ``_staged`` of a table. Its files belong to a batch that is under way, or to one whose
driver was killed; a run clears it when it begins. Tasks write the files: driver and executors must share the
path. Source: Hadoop's and Arrow's rule that names with ``_`` are no data. In an object store nothing is moved
(:mod:`barnabas.pipeline.places.stored_files`): there files are written where they stay.
"""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.places.stored_files import DATA, StoredFile, for_spark, written_below

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

STAGED = "_staged"
PART = "barnabas_part"


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch: `job` is the name of the writer in all its runs, `planned` the digest of the plan."""

    job: str
    number: int
    planned: str


class BatchRows(Protocol):
    """The rows of a micro-batch, not computed yet."""

    @property
    def schema(self) -> StructType: ...

    def staged(
        self, table: str, batch: Batch, partition_by: tuple[str, ...] = (), *, keeps: bool = False
    ) -> Path:
        """Write the rows into a new folder, with a subfolder for each value of `partition_by`, and return it.
        Readers take no other file in it for data. `keeps`: the files have these columns too."""

    def stored(
        self, table: str, batch: Batch, partition_by: tuple[str, ...] = (), *, keeps: bool = False
    ) -> list[StoredFile]:
        """The files of `staged`, for a table in an object store: they are where they stay."""


@dataclass(frozen=True, slots=True)
class FrameRows:
    """Rows of a Spark frame, whose tasks write them."""

    frame: DataFrame

    @property
    def schema(self) -> StructType:
        found: StructType = self.frame.schema
        return found

    def staged(
        self, table: str, batch: Batch, partition_by: tuple[str, ...] = (), *, keeps: bool = False
    ) -> Path:
        frame, parts = self._parted(partition_by, keeps=keeps)
        return write_staged(frame, table, batch, parts)

    def stored(
        self, table: str, batch: Batch, partition_by: tuple[str, ...] = (), *, keeps: bool = False
    ) -> list[StoredFile]:
        frame, parts = self._parted(partition_by, keeps=keeps)
        folder = f"{DATA}/batch-{batch.number}-{uuid.uuid4().hex}"
        writer = frame.write.mode("error").partitionBy(*parts)
        writer.parquet(f"{for_spark(table)}/{folder}")
        return written_below(table, folder)

    def _parted(self, partition_by: tuple[str, ...], *, keeps: bool) -> tuple[Any, tuple[str, ...]]:
        """The frame, and the columns that name its folders."""
        frame: Any = self.frame
        if not keeps:
            return frame, partition_by
        # Spark leaves out of a file what its folder names.
        parts = tuple(f"{PART}{number}" for number in range(len(partition_by)))
        # It has one folder for null and for an empty text, which are two partitions here.
        named = [
            f"concat('=', cast(`{column}` as string)) as {part}"
            for part, column in zip(parts, partition_by, strict=True)
        ]
        return frame.selectExpr("*", *named), parts


def clear_staged(table: str) -> None:
    shutil.rmtree(Path(table, STAGED), ignore_errors=True)


def write_staged(frame: DataFrame, table: str, batch: Batch, partition_by: tuple[str, ...]) -> Path:
    """Write the rows of the batch into a new folder, whose only data they are, and return it. Raises
    `StagingError` if driver and executors do not share the folder."""
    folder = Path(table, STAGED, f"{batch.number}-{uuid.uuid4().hex}")
    writer = frame.write.mode("error").partitionBy(*partition_by)
    writer.parquet(f"file://{folder}")
    if not folder.is_dir():
        raise StagingError(f"{folder} is not there: driver and executors do not share {table}")
    for path in folder.rglob("*"):
        if path.name.startswith((".", "_")):
            if path.is_file():  # Hadoop's checksums and markers
                path.unlink()
        elif path.is_file():
            sync(path)
    return folder


def data_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def sync(path: Path) -> None:
    """fsync a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
