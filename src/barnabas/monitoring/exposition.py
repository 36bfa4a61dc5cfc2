"""The text of one scrape: Prometheus' text format 0.0.4, or OpenMetrics 1.0.

A family is written once, however many sources give values to it. A value costs one string: a page
of 100,000 values takes some tens of milliseconds. No library does that, so the text is written
here. Sources give the labels of a partition as text that they keep (`labels_text`).

Source: Prometheus' "Exposition formats", the OpenMetrics specification 1.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from barnabas.monitoring.metric import Metric, MetricType

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


def labels_text(labels: Mapping[str, str]) -> str:
    """Labels as the format writes them, without braces; values may be any text."""
    return ",".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in labels.items())


def accepts_open_metrics(accept: str) -> bool:
    """Whether the header field ``Accept`` of a request names OpenMetrics."""
    return "application/openmetrics-text" in accept


class Exposition:
    """Values by metric, and the page that they make."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self._metrics = metrics
        self._lines: dict[str, list[str]] = {}
        self._heads: dict[str, Metric] = {}

    def add(self, mbean: str, value: float, labels: str = "") -> None:
        """Add one value. `labels` is `labels_text` of the open labels. Raises KeyError where the table has
        no such metric."""
        self.lines(mbean).append(f"{self.series(mbean, labels)} {value}")

    def add_histogram(
        self, mbean: str, bounds: Sequence[float], counts: Sequence[int], total: float, labels: str
    ) -> None:
        """Add the buckets, the sum and the count of one histogram. `counts` has one bucket more than
        `bounds`, and each counts its own values only."""
        metric, lines, below = self._metrics[mbean], self.lines(mbean), 0
        assert metric.type is MetricType.HISTOGRAM, f"{mbean} is no histogram"
        name = metric.name
        for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
            below += count
            lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {below}')
        lines.append(f"{name}_sum{{{labels}}} {total}")
        lines.append(f"{name}_count{{{labels}}} {below}")

    def add_named(self, mbean: str, value: float) -> None:
        """Add a value by its whole MBean, as JMX writes it: a tag that the table leaves open is a label."""
        if mbean in self._metrics:
            self.add(mbean, value)
            return
        head, *tags = mbean.split(",")
        pairs = [tag.partition("=") for tag in tags if not tag.startswith("name=")]
        kept = [tag if tag.startswith("name=") else f"{tag.partition('=')[0]}=*" for tag in tags]
        self.add(",".join([head, *kept]), value, labels_text({key: own for key, _, own in pairs}))

    def series(self, mbean: str, labels: str = "") -> str:
        """The name with its labels, as a line begins with it."""
        metric = self._metrics[mbean]
        fixed = labels_text(dict(metric.labels))
        both = f"{fixed},{labels}" if fixed and labels else fixed or labels
        return f"{metric.name}{{{both}}}" if both else metric.name

    def lines(self, mbean: str) -> list[str]:
        """The lines of a metric's family, to which a source with many values appends its own."""
        metric = self._metrics[mbean]
        found = self._lines.get(metric.name)
        if found is None:
            found = self._lines[metric.name] = []
            self._heads[metric.name] = metric
        return found

    def parts(self, *, open_metrics: bool = False) -> Iterator[bytes]:
        """The page, a family at a time: some hundred kilobytes for ten thousand partitions."""
        for name, lines in self._lines.items():
            if lines:
                head = _head(self._heads[name], name, open_metrics=open_metrics)
                yield "\n".join((head, *lines, "")).encode("utf-8", "replace")
        if open_metrics:
            yield b"# EOF\n"

    def text(self, *, open_metrics: bool = False) -> bytes:
        """The whole page."""
        return b"".join(self.parts(open_metrics=open_metrics))


def _head(metric: Metric, name: str, *, open_metrics: bool) -> str:
    family = name
    if open_metrics and metric.type is MetricType.COUNTER:
        family = name.removesuffix("_total")
    text = metric.meaning.translate(_HELP_ESCAPES)
    if open_metrics:
        text = text.replace('"', r"\"")
    return f"# HELP {family} {text}\n# TYPE {family} {metric.type}"
