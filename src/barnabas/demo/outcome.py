"""Reads the demo's results with independent code and compares them with the figures of the file.

Arrow reads the Parquet files, confluent-kafka the topic ``delays``. The expected figures are those of
:func:`barnabas.demo.flights.figures_of`, which reads only the package's file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from barnabas.demo.flights import Delays, Figures, hour_key

READ_S = 30.0


@dataclass(frozen=True, slots=True)
class Check:
    """One claim with the expected value and the one that was found."""

    claim: str
    expected: str
    found: str

    @property
    def holds(self) -> bool:
        return self.expected == self.found


@dataclass(slots=True)
class Landed:
    """Figures of the Parquet files."""

    figures: Figures
    distinct_rows: int
    smallest_row: int
    largest_row: int


@dataclass(slots=True)
class Changelog:
    """The content of topic ``delays``."""

    latest: dict[str, Delays]
    records: int
    repeated: int
    """Records whose number of flights is not above that of the key's previous record."""


def read_landed(directory: Path) -> Landed:
    """Figures of the Parquet files, by Arrow's own aggregates."""
    # Folders are batches and months; names that begin with _ are not committed.
    folders = pa.schema([("batch", pa.string()), ("month", pa.int32())])
    partitioning = ds.partitioning(folders, flavor="hive")
    table = ds.dataset(directory, format="parquet", partitioning=partitioning).to_table(
        columns=["row", "month", "origin", "hour", "distance", "dep_delay", "arr_delay"]
    )
    figures = Figures(rows=len(table), distance=pc.sum(table["distance"]).as_py() or 0)
    for month in table.group_by("month").aggregate([([], "count_all")]).to_pylist():
        figures.by_month[month["month"]] = month["count_all"]
    for key, sums in _sums(table, ["origin"]):
        figures.by_origin[key[0]] = sums
    for key, sums in _sums(table, ["origin", "hour"]):
        figures.by_origin_and_hour[hour_key(*key)] = sums
    numbers = pc.min_max(table["row"]).as_py()
    return Landed(
        figures,
        distinct_rows=pc.count_distinct(table["row"]).as_py(),
        smallest_row=numbers["min"] if numbers["min"] is not None else -1,
        largest_row=numbers["max"] if numbers["max"] is not None else -1,
    )


def _sums(table: pa.Table, keys: list[str]) -> Iterator[tuple[tuple[str, int], Delays]]:
    sums = [("distance", "sum"), ("dep_delay", "count"), ("dep_delay", "sum")]
    sums += [("arr_delay", "count"), ("arr_delay", "sum")]
    for row in table.group_by(keys).aggregate([([], "count_all"), *sums]).to_pylist():
        yield (
            tuple(row[key] for key in keys),
            Delays(
                flights=row["count_all"],
                distance=row["distance_sum"] or 0,
                departures=row["dep_delay_count"],
                departure_delay=row["dep_delay_sum"] or 0,
                arrivals=row["arr_delay_count"],
                arrival_delay=row["arr_delay_sum"] or 0,
            ),
        )


def read_changelog(access: Mapping[str, str]) -> Changelog:
    """Read topic ``delays`` from beginning to end. `access`: librdkafka's settings for the cluster. Raises
    ``TimeoutError``, ``RuntimeError``."""
    consumer = Consumer(
        {
            **access,
            "group.id": "demo",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found = Changelog({}, 0, 0)
    try:
        partitions = sorted(consumer.list_topics("delays", READ_S).topics["delays"].partitions)
        consumer.assign(
            [TopicPartition("delays", partition, OFFSET_BEGINNING) for partition in partitions]
        )
        # Offsets do not tell the number of records, since transactions write control records.
        left = set(partitions)
        deadline = time.monotonic() + READ_S
        while left:
            messages = consumer.consume(1000, 0.5)
            if messages:
                deadline = time.monotonic() + READ_S
            elif time.monotonic() > deadline:
                raise TimeoutError(
                    f"partitions {sorted(left)} of delays could not be read to their end"
                )
            for message in messages:
                if message.error() is not None:
                    if message.error().code() == KafkaError._PARTITION_EOF:
                        left.discard(message.partition())
                        continue
                    raise RuntimeError(str(message.error()))
                _add(found, message.key().decode(), Delays(**json.loads(message.value())))
    finally:
        consumer.close()
    return found


def _add(found: Changelog, key: str, sums: Delays) -> None:
    before = found.latest.get(key)
    if before is not None and sums.flights <= before.flights:
        found.repeated += 1
    found.latest[key] = sums
    found.records += 1


def compare(truth: Figures, landed: Landed, changelog: Changelog, changed: int) -> list[Check]:
    """All claims of the demo. `changed` is the number of changes that Spark reports as published."""
    checks = [
        Check("flights in Parquet", f"{truth.rows:,}", f"{landed.figures.rows:,}"),
        Check("different row numbers", f"{truth.rows:,}", f"{landed.distinct_rows:,}"),
        Check(
            "first and last row number",
            f"0, {truth.rows - 1:,}",
            f"{landed.smallest_row:,}, {landed.largest_row:,}",
        ),
        Check("flights per month", months(truth), months(landed.figures)),
        Check("miles flown", f"{truth.distance:,}", f"{landed.figures.distance:,}"),
    ]
    for origin in sorted(truth.by_origin):
        checks.append(
            Check(
                f"{origin}: flights, miles, delays",
                text_of(truth.by_origin[origin]),
                text_of(landed.figures.by_origin.get(origin)),
            )
        )
    hours, found = truth.by_origin_and_hour, landed.figures.by_origin_and_hour
    equal = sum(1 for key in hours if found.get(key) == hours[key])
    checks.append(
        Check(
            "origin and hour in Parquet",
            f"{len(hours)} of {len(hours)}",
            f"{equal} of {len(found)}",
        )
    )
    latest = changelog.latest
    equal = sum(1 for key in hours if latest.get(key) == hours[key])
    checks.append(
        Check(
            "origin and hour in delays",
            f"{len(hours)} of {len(hours)}",
            f"{equal} of {len(latest)}",
        )
    )
    checks.append(Check("changes in delays", f"{changed:,}", f"{changelog.records:,}"))
    checks.append(Check("changes that came twice", "0", f"{changelog.repeated:,}"))
    return checks


def months(figures: Figures) -> str:
    return " ".join(f"{figures.by_month.get(month, 0)}" for month in range(1, 13))


def text_of(sums: Delays | None) -> str:
    if sums is None:
        return "none"
    return (
        f"{sums.flights:,} / {sums.distance:,} mi / "
        f"{sums.departure_delay:,} + {sums.arrival_delay:,} min"
    )
