"""Invariant 9, from the logs themselves: an idempotent producer's sequences leave no duplicate and no gap.

Each batch that no replica had before is compared with the last one of the same producer in the chain
before it: the same epoch continues with the next sequence number, a newer one begins with 0, an older one
never comes. A first batch may have any number only where the log does not begin at offset 0. Where the
leader's date says that it may have forgotten the producer (``producer.id.expiration.ms``), any number may
follow, and of that partition nothing is promised of once and order any more.
"""

from __future__ import annotations

from barnabas.sim.checkers.chains import Link
from barnabas.sim.checkers.replica_logs import Rule, Watched
from barnabas.sim.history import History, Violation
from barnabas.sim.world.world import START_WALL_MS

WRAP = 0x7FFFFFFF


class ProducerSequences(Rule):
    def __init__(self, history: History) -> None:
        """A topic that does not promise *once* is not looked at: where a replica outside the ISR may lead,
        a producer's first batches may be gone."""
        self._history = history
        self._last: dict[Link, dict[int, Link]] = {}
        """Link → producer id → its last batch up to there. Kept for the ends of chains."""

    def on_appended(self, replica: Watched, link: Link, *, new: bool) -> None:
        before, header = link.previous, link.header
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
            at = at.previous
        return found

    @staticmethod
    def _may_have_forgotten(replica: Watched, last: Link | None) -> bool:
        """Whether the producer was silent for long enough by the date here, at its furthest ahead."""
        node = replica.node
        expires = node.cluster.topology.settings.get("producer.id.expiration.ms")
        if expires is None or last is None or last.header is None:
            return False
        latest = START_WALL_MS + node.cluster.world.now_ms + node.machine.clock_ahead_ms
        return latest - last.header.max_timestamp >= int(expires)

    @staticmethod
    def _wrong(replica: Watched, link: Link, last: Link | None) -> str:
        """What is wrong with the batch behind its producer's `last`, in words."""
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
