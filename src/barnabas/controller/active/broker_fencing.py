"""Fences brokers: those that end together are fenced together, and brokers with many partitions in
slices.

Until a broker's last partition is decided, its registration is not fenced yet. But it is in
`cluster.departing`, so it leads no further partition and enters no ISR. Every slice is a complete
decision. If the controller changes between two slices, the next controller notices the same brokers
and starts again.

This is the fencing that the controller decides by itself, for any number of brokers. A broker that
asks to be fenced gets a decision with its answer, for itself alone
(:func:`~barnabas.controller.brokers.controlled_shutdown.fence_on_request`). Both take the changes
of partitions from `isr_updates` and the record from `fence_change`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from barnabas.controller.decision import Decision
from barnabas.controller.duties import DutyController
from barnabas.controller.partitions.leader_and_isr import (
    fence_change,
    isr_updates,
    led_by,
    partitions_leaders_first,
    replicas_of,
)


class BrokerFencing:
    """The brokers that are being fenced, and the work that fences them."""

    def __init__(self, controller: DutyController) -> None:
        self._controller = controller
        self._pending: dict[int, tuple[int, str]] = {}
        """Epoch and reason, by broker, of the brokers that no work has taken up yet."""
        self._under_way: dict[int, tuple[int, str]] = {}
        """The brokers that are being fenced now."""
        self._scheduled = False

    def fence(self, broker: int, reason: str) -> None:
        """Fence the broker's present incarnation, unless that is done or under way. A broker that
        is departing for another reason, such as a lost directory, is fenced, too."""
        controller = self._controller
        known = controller.image.brokers.get(broker)
        if known is None or known.fenced:
            return
        begun = self._pending.get(broker) or self._under_way.get(broker)
        if begun is not None and begun[0] == known.epoch:
            return
        controller.cluster.departing[broker] = reason
        self._pending[broker] = (known.epoch, reason)
        controller.ports.log("warning", "broker.fencing", broker=broker, reason=reason)
        if not self._scheduled:
            self._scheduled = True
            controller.begin(self._work())

    def clear(self) -> None:
        self._pending.clear()
        self._under_way.clear()
        self._scheduled = False

    def _work(self) -> Iterator[Decision[Any]]:
        """Fence all pending brokers, and those that are added meanwhile."""
        try:
            while self._pending:
                self._under_way, self._pending = self._pending, {}
                yield from self._fence_together(self._present())
                self._under_way.clear()
        except Exception:
            self._give_up()
            raise
        self._scheduled = False

    def _give_up(self) -> None:
        """After an unexpected fault, give each broker that is still to be fenced a new session; when that
        runs out, the fencing is tried again."""
        controller = self._controller
        for broker, (epoch, _) in {**self._under_way, **self._pending}.items():
            controller.cluster.departing.pop(broker, None)
            controller.sessions.start(broker, epoch, controller.now_ms())
        self.clear()
        controller.arm(controller.sessions.deadline_ms())

    def _present(self) -> dict[int, tuple[int, str]]:
        """The brokers of the present work that still have to be fenced, since other work may have
        fenced some. They are departing from now on."""
        cluster = self._controller.cluster
        present = {}
        for broker, (epoch, reason) in self._under_way.items():
            known = cluster.image.brokers.get(broker)
            if known is not None and known.epoch == epoch and not known.fenced:
                cluster.departing[broker] = reason
                present[broker] = (epoch, reason)
            elif cluster.departing.get(broker) is reason:
                del cluster.departing[broker]
        return present

    def _fence_together(self, brokers: dict[int, tuple[int, str]]) -> Iterator[Decision[Any]]:
        """The decisions that fence the brokers. Brokers with few partitions are fenced by one decision.
        Otherwise the first slices move the partitions that they lead, since clients wait for a leader, and
        the next ones those that they follow. The last slice also has the fencing itself."""
        cluster = self._controller.cluster
        last: list[int] = []
        replicas = sum(cluster.image.replicas_on(broker) for broker in brokers)
        if replicas <= cluster.bounds.inline_max:
            steps = (
                step for broker in brokers for step in partitions_leaders_first(cluster, broker)
            )
            last = list(dict.fromkeys(key for step in steps for key in step))
        else:
            for steps_of in (led_by, replicas_of):
                for broker in brokers:
                    for keys in steps_of(cluster, broker):
                        yield Decision(None, list(isr_updates(cluster, last, None)))
                        last = keys
        yield self._finish(brokers, last)

    def _finish(self, brokers: dict[int, tuple[int, str]], keys: list[int]) -> Decision[Any]:
        cluster = self._controller.cluster
        records: list[Any] = list(isr_updates(cluster, keys, None))
        for broker, (epoch, reason) in brokers.items():
            known = cluster.image.brokers.get(broker)
            if known is not None and known.epoch == epoch and not known.fenced:
                records.append(fence_change(known, reason))
            cluster.departing.pop(broker, None)
        return Decision(None, records, "; ".join(reason for _, reason in brokers.values()))
