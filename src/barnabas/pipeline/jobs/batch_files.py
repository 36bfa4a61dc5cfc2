"""The Parquet files of one micro-batch: written where no reader looks, on disk before they are named.

Owns the hidden folder ``_staged`` of a table. What is in it belongs to a batch that is under way, or to one
whose driver was killed; a run clears it when it begins. Tasks write the files, so driver and executors share
the path. Source: Hadoop's and Arrow's rule that names with ``_`` are no data.
"""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.pipeline.errors import StagingError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGED = "_staged"


@dataclass(frozen=True, slots=True)
class Batch:
    """Which micro-batch: `job` names the writer for good, `planned` is the digest of its plan."""

    job: str
    number: int
    planned: str


def clear_staged(table: str) -> None:
    shutil.rmtree(Path(table, STAGED), ignore_errors=True)


def write_staged(frame: DataFrame, table: str, batch: Batch, partition_by: tuple[str, ...]) -> Path:
    """A folder with the rows of the batch and nothing else that a reader takes for data."""
    folder = Path(table, STAGED, f"{batch.number}-{uuid.uuid4().hex}")
    writer = frame.write.mode("errorifexists").partitionBy(*partition_by)
    writer.parquet(f"file://{folder}")
    if not folder.is_dir():
        raise StagingError(f"{folder} is not there: driver and executors do not share {table}")
    for each in folder.rglob("*"):
        if each.name.startswith((".", "_")):
            if each.is_file():  # checksums and marks of Hadoop's
                each.unlink()
        elif each.is_file():
            sync(each)
    return folder


def data_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def sync(path: Path) -> None:
    """Of a file, or of a folder's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
