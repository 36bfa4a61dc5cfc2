"""Periodic work on leaderships: it moves leaderships back to preferred leaders, and searches for
missing leaders.

A pass moves a bounded number of leaderships, and only where that is safe. A broker that leads too
few of the partitions that prefer it (`percentage`) gets them back, if the preferred replica is live
and in the ISR and no reassignment is under way. For every other partition there is a reason among
the refusals. It is the partition's own reason, or one for its broker: if the broker is not
available, lacks too few partitions, or has more such partitions than are reported one by one. A
reported reason is reported again when it changes.

Source: Kafka 3.9's ``leader.imbalance.per.broker.percentage`` (gone in 4, see
docs/divergence.md), ReplicationControlManager.maybeBalancePartitionLeaders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import STRATEGY, UNCLEAN, ControllerContext
from barnabas.controller.duties import DutyController
from barnabas.controller.partitions import elections
from barnabas.controller.partitions.failover_reconcile import look_for_leaders
from barnabas.controller.partitions.partition_change import PartitionChangeBuilder
from barnabas.metadata.image.topic import ORDINARY, Topic
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.wire.schema import Message

TOLD_MAX = 20
"""The number of partitions of one broker whose reasons one pass reports; the others are counted."""
NAMED_MAX = 5
"""The number of partitions that are named where partitions are counted."""
CODE = "PREFERRED_LEADER"


class Imbalance(NamedTuple):
    """The partitions that prefer one broker, and those of them that it does not lead."""

    broker: int
    preferred: int
    elsewhere: list[int]
    """The keys of partitions that prefer the broker and have another leader."""

    @property
    def percentage(self) -> float:
        return 100.0 * len(self.elsewhere) / self.preferred if self.preferred else 0.0


def imbalance(cluster: ControllerContext, broker: int) -> Iterator[Imbalance | None]:
    """Count the partitions that prefer `broker` and have another leader. The result comes last; the steps
    before yield None."""
    slots = cluster.image.slots
    preferred, scanned = 0, cluster.bounds.scanned_per_slice
    elsewhere = []
    for _ in cluster.image.broker_partitions.sift(broker):
        yield None
    for at, key in enumerate(cluster.image.partition_keys_of(broker)):
        topic = slots[key >> 32]
        index = key & 0xFFFFFFFF
        if topic is not None and topic.replicas[index][0] == broker:
            preferred += 1
            if topic.leader[index] != broker:
                elsewhere.append(key)
        if at % scanned == scanned - 1:
            yield None
    yield Imbalance(broker, preferred, elsewhere)


def left_alone(cluster: ControllerContext, topic: Topic, index: int) -> str | None:
    """The reason why the preferred replica does not take over now, or None."""
    first = topic.replicas[index][0]
    rare = topic.rare.get(index, ORDINARY)
    if rare.adding or rare.removing:
        return "the partition is being reassigned"
    if not cluster.may_lead(first, topic.directories[index][0]):
        return f"preferred leader {first} is not available"
    if first not in topic.isr[index]:
        return f"preferred leader {first} has not caught up: the ISR is {list(topic.isr[index])}"
    return None


class LeaderSearch:
    """The search for partitions without a leader. It runs periodically, and when the rules of
    elections change: a topic may now allow an election that it did not allow before."""

    def __init__(self, controller: DutyController) -> None:
        self._controller = controller
        self.interval_ms = float(controller.config.controller.unclean_election_interval_ms)
        self._next_ms: float | None = None

    def on_activation(self) -> None:
        self._next_ms = self._controller.now_ms() + self.interval_ms
        self._controller.arm(self._next_ms)

    def clear(self) -> None:
        self._next_ms = None

    def deadline_ms(self) -> float | None:
        return self._next_ms

    def on_time(self, now_ms: float) -> None:
        if self._next_ms is not None and now_ms >= self._next_ms:
            self._next_ms = now_ms + self.interval_ms
            self.check("a leader is looked for again")

    def check(self, reason: str) -> None:
        self._controller.begin(look_for_leaders(self._controller.cluster, reason))

    def on_configs(self, decision: Decision[Any], offset: int) -> None:
        """Configurations were changed."""
        for record in decision.records:
            if isinstance(record, ConfigRecord) and record.name in (UNCLEAN, STRATEGY):
                self.check(f"{record.name} is {record.value} now")
                return


class Reasons:
    """The reasons why leaders stay; each is reported when it is new. It remembers the reports of
    the last complete pass."""

    def __init__(self, note: Callable[[str, str, str], None]) -> None:
        self._note = note
        self._told: dict[str, str] = {}
        self._current: dict[str, None] = {}

    def log_change(self, subject: str, why: str) -> None:
        self._current[subject] = None
        if self._told.get(subject) != why:
            self._told[subject] = why
            self._note(subject, CODE, why)

    def end(self) -> None:
        """A pass has seen all partitions: reasons that it did not report hold no longer."""
        self._told = {subject: self._told[subject] for subject in self._current}
        self._current = {}

    def clear(self) -> None:
        self._told, self._current = {}, {}


class LeaderBalancer:
    """The periodic pass of the active controller."""

    def __init__(self, controller: DutyController) -> None:
        self._controller = controller
        settings = controller.config.controller
        self.enabled = bool(settings.leader_rebalance)
        self.interval_ms = settings.imbalance_check_interval_seconds * 1000.0
        self.percentage = settings.imbalance_percentage
        self._next_ms: float | None = None
        self._running = False
        self._reasons = Reasons(controller.refusals.add)

    def on_activation(self) -> None:
        if self.enabled:
            self._next_ms = self._controller.now_ms() + self.interval_ms
            self._controller.arm(self._next_ms)

    def clear(self) -> None:
        self._next_ms = None
        self._running = False
        self._reasons.clear()

    def deadline_ms(self) -> float | None:
        return self._next_ms

    def on_time(self, now_ms: float) -> None:
        if self._next_ms is None or now_ms < self._next_ms:
            return
        self._next_ms = now_ms + self.interval_ms
        if not self._running:
            self._running = True
            self._controller.begin(self.work())

    def work(self) -> Iterator[Decision[Any]]:
        """Run one pass. After an exception in it the next pass runs as usual."""
        try:
            yield from self._pass()
        except Exception:
            self._running = False
            raise

    def _pass(self) -> Iterator[Decision[Any]]:
        """One pass over all brokers, in slices."""
        controller = self._controller
        image, tell = controller.image, self._reasons.log_change
        moves, bounds = 0, controller.cluster.bounds
        for broker in sorted({*image.brokers, *image.broker_partitions.brokers()}):
            if moves >= bounds.moves_max:
                break
            found = Imbalance(broker, 0, [])
            for last in imbalance(controller.cluster, broker):
                found = last or found
                yield Decision(None)
            if not found.elsewhere:
                continue
            if not controller.cluster.is_active(broker):
                tell(f"broker {broker}", self._lacking(found, "it is not available"))
                continue
            if found.percentage <= self.percentage:
                why = f"{self.percentage}% may be led elsewhere"
                tell(f"broker {broker}", self._lacking(found, why))
                continue
            alone: list[str] = []
            for start in range(0, len(found.elsewhere), bounds.slice_max):
                keys = found.elsewhere[start : start + bounds.slice_max]
                records = self._slice(found, keys, moves, alone)
                moves += len(records)
                why = (
                    f"broker {broker} did not lead {found.percentage:.0f}% of the"
                    f" {found.preferred} partitions that prefer it"
                )
                yield Decision(None, records, why if records else "")
            if len(alone) > TOLD_MAX:
                count = len(alone) - TOLD_MAX
                tell(f"broker {broker}", f"{count} more are left: {_some(alone[TOLD_MAX:], count)}")
        self._running = False
        if moves >= bounds.moves_max:
            tell("leaders", f"{moves} were moved in one pass; the next begins at once")
            self._next_ms = controller.now_ms()
            controller.arm(self._next_ms)
        else:
            self._reasons.end()

    def _lacking(self, found: Imbalance, why: str) -> str:
        first = [self._controller.image.at(key) for key in found.elsewhere[:NAMED_MAX]]
        names = [f"{at[0].name}-{at[1]}" for at in first if at is not None]
        count = len(found.elsewhere)
        return (
            f"it does not lead {count} of the {found.preferred} partitions that prefer it, and"
            f" {why}: {_some(names, count)}"
        )

    def _slice(
        self, found: Imbalance, keys: list[int], moves: int, alone: list[str]
    ) -> list[Message]:
        """The records for the partitions of `keys` that may move. The names of the others are added to
        `alone`."""
        cluster = self._controller.cluster
        records: list[Message] = []
        for key in keys:
            at = cluster.image.at(key)
            if at is None or moves + len(records) >= cluster.bounds.moves_max:
                continue
            topic, index = at
            if topic.leader[index] == found.broker or not topic.has(index):
                continue
            why = left_alone(cluster, topic, index)
            if why is not None:
                alone.append(f"{topic.name}-{index}")
                if len(alone) <= TOLD_MAX:
                    self._reasons.log_change(alone[-1], why)
                continue
            change = PartitionChangeBuilder(
                cluster, topic, index, "leaders are rebalanced", elections.preferred
            )
            record = change.build()
            if record is not None:
                records.append(record)
        return records


def _some(names: list[str], count: int) -> str:
    """The first few of `count` names, and the number of the others."""
    more = f" and {count - NAMED_MAX} more" if count > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
