"""Fencing brokers, in slices where they hold much, together where known together.

Until a broker's last partition is decided its registration is not fenced yet, but it is in
`cluster.departing`: it leads nothing new and enters no ISR. Should the controller change in
between, the next one notices the same and begins afresh; every slice is a whole decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from barnabas.controller.decision import Decision
from barnabas.controller.isr import SLICE, fence_change, isr_updates, led_first

if TYPE_CHECKING:
    from barnabas.controller.runtime import ControllerRuntime


class Fencing:
    """Which brokers are being fenced, and the work that does it."""

    def __init__(self, runtime: ControllerRuntime) -> None:
        self._runtime = runtime
        self._pending: dict[int, tuple[int, str]] = {}
        """Broker → (epoch, reason) of those that no work has taken up yet."""
        self._scheduled = False

    def fence(self, broker: int, reason: str) -> None:
        """Fence the broker's present incarnation; nothing to do where that has been done."""
        runtime = self._runtime
        known = runtime.image.brokers.get(broker)
        if known is None or known.fenced or broker in runtime.cluster.departing:
            return
        runtime.cluster.departing[broker] = reason
        self._pending[broker] = (known.epoch, reason)
        runtime.ports.log("warning", "fencing broker", broker=broker, reason=reason)
        if not self._scheduled:
            self._scheduled = True
            runtime.begin(self._work())

    def clear(self) -> None:
        self._pending.clear()
        self._scheduled = False

    def _work(self) -> Iterator[Decision[Any]]:
        """Take up all that is pending, also what comes while this goes on."""
        while self._pending:
            taken, self._pending = self._pending, {}
            yield from self._fence_together(taken)
        self._scheduled = False

    def _fence_together(self, brokers: dict[int, tuple[int, str]]) -> Iterator[Decision[Any]]:
        cluster = self._runtime.cluster
        reasons = "; ".join(reason for _, reason in brokers.values())
        keys: list[int] = []
        for broker in brokers:
            keys += led_first(cluster, broker)
        if len(brokers) > 1:
            keys = list(dict.fromkeys(keys))
        start = 0
        while len(keys) - start > SLICE:
            records = list(isr_updates(cluster, keys[start : start + SLICE], reasons))
            start += SLICE
            if records:
                yield Decision(None, list(records))
        yield self._finish(brokers, keys[start:], reasons)

    def _finish(
        self, brokers: dict[int, tuple[int, str]], keys: list[int], reasons: str
    ) -> Decision[Any]:
        cluster = self._runtime.cluster
        records: list[Any] = list(isr_updates(cluster, keys, reasons))
        for broker, (epoch, reason) in brokers.items():
            known = cluster.image.brokers.get(broker)
            if known is not None and known.epoch == epoch and not known.fenced:
                records.append(fence_change(known, reason))
            cluster.departing.pop(broker, None)
        return Decision(None, records, reasons)
