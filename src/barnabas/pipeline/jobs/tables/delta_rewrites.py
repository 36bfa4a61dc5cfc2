"""Files of a Delta table that deltalake may write again: an upsert or a compaction changes no row of them.

deltalake takes two kinds of files, which Spark writes, for others than they are. A path that has letters
beyond ASCII in the log: the file is removed by another spelling of its name, and stays beside its new rows.
A timestamp as INT96, Spark's default: it is read in nanoseconds, and times that these do not reach become
others (9999-12-31 becomes 1816-03-29). A table with such a file is refused; rows may be appended to it.

Statistics of the log tell most files; of the others the footer is read, and columns that are INT96. Each file
is looked at once. Source: Delta's protocol, "Add File and Remove File"; Parquet's INT96.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from barnabas.pipeline.errors import TableRefusedError
from barnabas.pipeline.jobs.tables.delta_duties import MAPPING_MODE
from barnabas.pipeline.jobs.tables.far_times import ADVICE, END, FAR, FIRST, far_column
from barnabas.pipeline.places.place_names import is_in_store
from barnabas.pipeline.places.stored_files import table_store


class DeltaRewrites:
    """The files of the table at `place` that were looked at."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._seen: set[str] = set()

    def check(self, table: Any) -> None:
        """Look at the files of an open table that were not looked at. Raises `TableRefusedError`."""
        import pyarrow as pa

        files = pa.table(table.get_add_actions(flatten=True))
        at = [
            number
            for number, path in enumerate(files["path"].to_pylist())
            if path not in self._seen
        ]
        if not at:
            return
        times = [*_times_in(json.loads(table.schema().to_json())["fields"])]
        # The log's statistics of mapped columns have other names.
        told = table.metadata().configuration.get(MAPPING_MODE, "none") == "none"
        bounds = [f"{end}.{name}" for name in times for end in ("min", "max")]
        told = told and set(bounds) <= set(files.column_names)
        shown = files.select(["path", *(bounds if told else ())]).take(at)
        for batch in shown.to_batches(1000):
            for row in batch.to_pylist():
                self._check_file(row, bool(times) and not (told and _are_near(row, bounds)))

    def _check_file(self, row: Mapping[str, Any], has_times: bool) -> None:
        path = row["path"]
        if not path.isascii():
            raise TableRefusedError(
                f"Delta table {self._place} names the file {path} with letters beyond ASCII: deltalake, which"
                " writes rows again for an upsert or a compaction, would not remove it and double its rows;"
                " rows may be appended"
            )
        far = self._far_column(path) if has_times else None
        if far is not None:
            raise TableRefusedError(
                f"Delta table {self._place} has {FAR} in column {far} of {path}: deltalake, which writes rows"
                f" again for an upsert or a compaction, would take them for others; {ADVICE}"
            )
        self._seen.add(path)

    def _far_column(self, path: str) -> str | None:
        if ":" in path or path.startswith("/"):
            return None  # a file of another table, by a shallow clone: deltalake does not write it again
        name = unquote(path)
        store = table_store(self._place) if is_in_store(self._place) else None
        with store.open_input(name) if store else Path(self._place, name).open("rb") as opened:
            return far_column(opened)


def _times_in(fields: list[dict[str, Any]], above: str = "") -> Iterator[str]:
    """Paths of the columns that are timestamps, at any depth."""
    for field in fields:
        yield from _times_below(field["type"], f"{above}{field['name']}")


def _times_below(type_: Any, path: str) -> Iterator[str]:
    match type_:
        case "timestamp":
            yield path
        case {"type": "struct", "fields": fields}:
            yield from _times_in(fields, f"{path}.")
        case {"type": "array", "elementType": element}:
            yield from _times_below(element, f"{path}.element")
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from _times_below(key, f"{path}.key")
            yield from _times_below(value, f"{path}.value")


def _are_near(row: Mapping[str, Any], bounds: list[str]) -> bool:
    """Whether statistics say that all times of a file are ones that nanoseconds reach."""
    return all(row[bound] is not None and FIRST <= row[bound] < END for bound in bounds)
