"""The figures of ``barnabas perf``: rates, and percentiles of latencies."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
MIB = 1 << 20


class Latencies:
    """Latencies in ms; eight bytes each."""

    def __init__(self) -> None:
        self._all = array("d")

    def __len__(self) -> int:
        return len(self._all)

    def add(self, latency_ms: float) -> None:
        self._all.append(latency_ms)

    def summary(self) -> dict[str, float]:
        """Average, percentiles and maximum in ms, rounded to microseconds; empty where there is none."""
        if not self._all:
            return {}
        ordered = sorted(self._all)
        found = {"avg": sum(ordered) / len(ordered)}
        found |= {name: percentile(ordered, part) for name, part in PERCENTILES.items()}
        return {name: round(value, 3) for name, value in (found | {"max": ordered[-1]}).items()}


def percentile(ordered: Sequence[float], part: float) -> float:
    """The value below which `part` of the ordered values are, as Kafka's tools take it: none between two."""
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def rates(records: int, size: int, passed_s: float) -> dict[str, Any]:
    """Records and bytes, in all and per second."""
    passed_s = max(passed_s, 1e-9)
    return {
        "records": records,
        "bytes": size,
        "seconds": round(passed_s, 3),
        "records_per_second": round(records / passed_s, 1),
        "mib_per_second": round(size / passed_s / MIB, 3),
    }


def payloads(size: int, file: Path | None, delimiter: bytes = b"\n") -> Iterator[bytes]:
    """Values without an end: the lines of `file` in turn, else one of `size` bytes that hardly compress.
    Raises ``ValueError`` for a file without a line, and ``OSError``."""
    if file is None:
        lines = [_hardly_compressible(size)]
    else:
        lines = [line for line in file.read_bytes().split(delimiter) if line]
        if not lines:
            raise ValueError(f"{file} has no line")
    while True:
        yield from lines


def _hardly_compressible(size: int) -> bytes:
    """The same bytes in each run, so that two runs can be compared."""
    state, found = 0x9E3779B97F4A7C15, bytearray()
    while len(found) < size:
        state = (state * 6364136223846793005 + 1442695040888963407) & ((1 << 64) - 1)
        found += (state >> 16).to_bytes(6, "little")
    return bytes(found[:size])
