"""Reads a page that :mod:`barnabas.monitoring.exposition` wrote: families with their samples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.monitoring.metric import MetricType

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_BUCKET, _SUM, _COUNT = "_bucket", "_sum", "_count"


class Family(NamedTuple):
    """A metric with its samples, as the lines between two heads have them."""

    name: str
    help: str
    type: MetricType
    samples: list[tuple[str, dict[str, str], float]]
    """Name (with ``_bucket``, ``_sum``, ``_count`` of a histogram), labels, value."""


class HistogramSample(NamedTuple):
    """One histogram of a family."""

    labels: dict[str, str]
    bounds: list[float]
    counts: list[int]
    """The counts by bucket, not added up: one more than `bounds`."""
    total: float


def families_of(page: str) -> Iterator[Family]:
    """The families of a page in Prometheus' text format, as a node writes it."""
    family: Family | None = None
    help_text = ""
    for line in page.split("\n"):
        if line.startswith("# HELP "):
            help_text = line.split(" ", 3)[3]
        elif line.startswith("# TYPE "):
            if family is not None:
                yield family
            _, _, name, kind = line.split(" ", 3)
            family = Family(name, help_text, MetricType(kind), [])
        elif line and family is not None:
            family.samples.append(_sample(line))
    if family is not None:
        yield family


def _sample(line: str) -> tuple[str, dict[str, str], float]:
    found = _SAMPLE.fullmatch(line)
    if found is None:
        raise ValueError(f"{line!r} is no sample")
    name, labels, value = found.groups()
    pairs = _LABEL.findall(labels or "")
    return name, {key: _ESCAPED.sub(_unescaped, text) for key, text in pairs}, float(value)


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


def histograms_of(family: Family) -> Iterator[HistogramSample]:
    """The histograms of a family, whose lines stand together: buckets, sum, count."""
    bounds: list[float] = []
    below: list[int] = []
    total = 0.0
    for name, labels, value in family.samples:
        kind = name.removeprefix(family.name)
        if kind == _BUCKET:
            bounds.append(float(labels["le"]))
            below.append(int(value))
        elif kind == _SUM:
            total = value
        elif kind == _COUNT:
            counts = [count - before for before, count in zip([0, *below], below, strict=False)]
            yield HistogramSample(labels, bounds[:-1], counts, total)
            bounds, below = [], []
