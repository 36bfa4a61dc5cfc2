"""The steps of a job and what they read: a graph of names, its order, and what is wrong with it.

Owns `JobStep`, `Watermark`, and :class:`StepGraph`, which knows sources and steps by name, in the order
in which they are computed. Names of views have no case in Spark, so they have none here. Needs no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from barnabas.config.nearest import hint


@dataclass(frozen=True, slots=True)
class Watermark:
    """Rows whose `column` is more than `delay_ms` behind the latest one seen are late."""

    column: str
    delay_ms: int

    @property
    def delay(self) -> str:
        """The delay as Spark reads it."""
        return f"{self.delay_ms} milliseconds"


@dataclass(frozen=True, slots=True)
class JobStep:
    """A view by SQL, or by a Python function of the frames that it reads."""

    name: str
    reads: tuple[str, ...]
    sql: str = ""
    function: str = ""
    watermark: Watermark | None = None
    deduplicate_by: tuple[str, ...] = ()
    aggregates: bool = False
    has_watermark_clause: bool = False

    @property
    def bounds_state(self) -> bool:
        return self.watermark is not None or self.has_watermark_clause


class StepGraph:
    """Sources and steps of one job. `marked` are the sources with a watermark of their own."""

    def __init__(
        self, sources: Iterable[str], steps: Iterable[JobStep], marked: Iterable[str] = ()
    ) -> None:
        self.sources = tuple(sources)
        self.steps = tuple(steps)
        self._marked = {key.lower() for key in marked}
        self._steps = {step.name.lower(): step for step in self.steps}
        self._known = {source.lower(): source for source in self.sources}
        self._known |= {step.name.lower(): step.name for step in self.steps}

    def named(self, name: str) -> str | None:
        """The name as it was defined, None where nothing has it."""
        return self._known.get(name.lower())

    def why_unknown(self, name: str) -> str:
        return f"there is no source or step {name}{hint(name, tuple(self._known.values()))}"

    def cycle(self) -> tuple[str, ...]:
        """Names that read each other in a circle, the first one again at its end; empty if there is none."""
        done: set[str] = set()
        for step in self.steps:
            found = self._circle(step.name.lower(), (), done)
            if found:
                return tuple(self._known[name] for name in found)
        return ()

    def _circle(self, name: str, path: tuple[str, ...], done: set[str]) -> tuple[str, ...]:
        if name in path:
            return (*path[path.index(name) :], name)
        if name in done or name not in self._steps:
            return ()
        for read in self._steps[name].reads:
            found = self._circle(read.lower(), (*path, name), done)
            if found:
                return found
        done.add(name)
        return ()

    def above(self, name: str) -> tuple[JobStep, ...]:
        """The steps that `name` needs, itself included, each behind those that it reads."""
        found: dict[str, JobStep] = {}
        for key in self._walk(name.lower()):
            if key in self._steps:
                found.setdefault(key, self._steps[key])
        return tuple(found.values())

    def sources_above(self, name: str) -> tuple[str, ...]:
        """The sources that `name` reads, itself included, in the order of their first use."""
        found = [key for key in self._walk(name.lower()) if key not in self._steps]
        return tuple(dict.fromkeys(self._known[key] for key in found if key in self._known))

    def _walk(self, name: str) -> Iterator[str]:
        """Yield the names that `name` needs, then `name`; there is no cycle."""
        step = self._steps.get(name)
        for read in step.reads if step is not None else ():
            yield from self._walk(read.lower())
        yield name

    def unread(self, wanted: Iterable[str]) -> list[str]:
        """Sources and steps that none of `wanted` needs."""
        used = {key for name in wanted for key in self._walk(name.lower())}
        return [name for low, name in self._known.items() if low not in used]

    def bounds_state(self, name: str) -> bool:
        """Whether a watermark is above `name`, or may be: a Python function may set one."""
        return any(step.bounds_state or step.function for step in self.above(name)) or any(
            source.lower() in self._marked for source in self.sources_above(name)
        )

    def aggregate_above(self, name: str) -> str:
        """The first step above `name` that aggregates; empty where there is none."""
        return next((step.name for step in self.above(name) if step.aggregates), "")

    def may_aggregate(self, name: str) -> bool:
        return any(step.aggregates or step.function for step in self.above(name))
