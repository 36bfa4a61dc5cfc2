"""What tests do to the checkpoint of a query that has ended."""

from __future__ import annotations

from pathlib import Path


def uncommit(checkpoint: Path | str, batch: int) -> None:
    """As if the driver had been killed when all sinks had the batch: Spark repeats it."""
    commits = Path(checkpoint, "commits")
    (commits / f"{batch}").unlink()
    (commits / f".{batch}.crc").unlink(missing_ok=True)
