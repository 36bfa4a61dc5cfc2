"""Invariant 9, checked on the logs: an idempotent producer leaves no duplicate and no gap.

Each batch that no replica had before is compared with the previous batch of the same producer in the same
log. Within a producer epoch, the sequence number continues the previous batch. A newer epoch begins with
sequence number 0. An older epoch is a violation. A producer's first batch has sequence number 0 where the
log begins at offset 0, and any number elsewhere.

A leader forgets a producer that is silent for ``producer.id.expiration.ms``. Where that may have happened by
the clock of the leader's machine, any sequence number may follow. From then on the checkers accept duplicates
and another order in that partition (`History.forgotten`).
"""

from __future__ import annotations

from barnabas.sim.checkers.chains import Link
from barnabas.sim.checkers.replica_logs import Rule, Watched
from barnabas.sim.history import History, Violation
from barnabas.sim.world.world import START_WALL_MS

WRAP = 0x7FFFFFFF


class ProducerSequences(Rule):
    def __init__(self, history: History) -> None:
        """Topics that do not promise *once* are not checked: where a replica outside the ISR may lead, a
        producer's first batches may be lost."""
        self._history = history
        self._last: dict[Link, dict[int, Link]] = {}
        """Link → producer id → the producer's last batch up to that link."""

    def on_appended(self, replica: Watched, link: Link, *, new: bool) -> None:
        before, header = link.previous_link, link.header
        if not new or before is None or header is None:
            return
        if replica.compacted or not self._history.promise(replica.partition.topic).once:
            return
        last = self._producers_at(before)
        if header.producer_id >= 0 and not header.is_control:
            wrong = self._wrong(replica, link, last.get(header.producer_id))
            if wrong and not self._may_have_forgotten(replica, last.get(header.producer_id)):
                raise Violation(wrong)
            if wrong:
                self._history.forgotten.add((replica.partition.topic, replica.partition.index))
                replica.node.cluster.world.totals["producers forgotten"] += 1
            last = {**last, header.producer_id: link}
        self._last[link] = last

    def _producers_at(self, link: Link) -> dict[int, Link]:
        """The last batch of each producer up to `link`."""
        known = self._last.get(link)
        if known is not None:
            return known
        found: dict[int, Link] = {}
        at: Link | None = link
        while at is not None:
            header = at.header
            if header is not None and header.producer_id >= 0 and not header.is_control:
                found.setdefault(header.producer_id, at)
            at = at.previous_link
        return found

    @staticmethod
    def _may_have_forgotten(replica: Watched, last: Link | None) -> bool:
        """Whether the producer may have expired: it was silent for ``producer.id.expiration.ms`` by the
        machine's wall clock, at the furthest that this clock runs ahead."""
        node = replica.node
        expires = node.cluster.topology.settings.get("producer.id.expiration.ms")
        if expires is None or last is None or last.header is None:
            return False
        latest = START_WALL_MS + node.cluster.world.now_ms + node.machine.clock_ahead_ms
        return latest - last.header.max_timestamp >= int(expires)

    @staticmethod
    def _wrong(replica: Watched, link: Link, last: Link | None) -> str:
        """The fault of `link` where `last` is its producer's previous batch; empty if it is right."""
        header = link.header
        assert header is not None
        first = header.base_sequence
        who = f"{replica.where}: producer {header.producer_id}, epoch {header.producer_epoch}"
        if last is None or last.header is None:
            if first != 0 and replica.held.chain[0].start == 0 and not replica.held.chain[0].header:
                return f"{who} begins with sequence {first} at offset {link.start}"
            return ""
        former = last.header
        if header.producer_epoch < former.producer_epoch:
            return f"{who} at offset {link.start} comes after its epoch {former.producer_epoch}"
        if header.producer_epoch > former.producer_epoch:
            return f"{who} begins a new epoch with sequence {first}" if first else ""
        expected = (former.last_sequence + 1) & WRAP
        if first == expected:
            return ""
        kind = "a duplicate" if first <= former.last_sequence else "a gap"
        return (
            f"{who}: {kind}: sequence {first} at offset {link.start} after"
            f" {former.base_sequence} to {former.last_sequence} at offset {last.start}"
        )
