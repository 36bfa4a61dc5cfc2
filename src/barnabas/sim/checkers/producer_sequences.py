"""Invariant 9, from the logs themselves: an idempotent producer's sequences leave no duplicate and no gap.

Each batch that no replica had before is compared with the last one of the same producer in the chain
before it: the same epoch goes on with the next sequence number, a newer one begins with 0, an older one
never comes. A first batch may have any number only where the log does not begin at offset 0.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.sim.checkers.chains import Link
from barnabas.sim.checkers.replica_logs import Rule, Watched
from barnabas.sim.history import Promise, Violation

WRAP = 0x7FFFFFFF


class ProducerSequences(Rule):
    def __init__(self, promise_of: Callable[[str], Promise]) -> None:
        """`promise_of` says what a topic promises; one that does not promise *once* is not looked at: where
        a replica outside the ISR may lead, a producer's first batches may be gone."""
        self._promise_of = promise_of
        self._last: dict[Link, dict[int, Link]] = {}
        """Link → producer id → its last batch up to there. Kept for the ends of chains."""

    def on_appended(self, replica: Watched, link: Link, *, new: bool) -> None:
        before, header = link.previous, link.header
        if not new or before is None or header is None:
            return
        if replica.compacted or not self._promise_of(replica.partition.topic).once:
            return
        last = self._producers_at(before)
        if header.producer_id >= 0 and not header.is_control:
            self._check(replica, link, last.get(header.producer_id))
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
    def _check(replica: Watched, link: Link, last: Link | None) -> None:
        header = link.header
        assert header is not None
        first = header.base_sequence
        who = f"{replica.where}: producer {header.producer_id}, epoch {header.producer_epoch}"
        if last is None or last.header is None:
            if first != 0 and replica.held.chain[0].start == 0 and not replica.held.chain[0].header:
                raise Violation(f"{who} begins with sequence {first} at offset {link.start}")
            return
        former = last.header
        if header.producer_epoch < former.producer_epoch:
            raise Violation(
                f"{who} at offset {link.start} comes after its epoch {former.producer_epoch}"
            )
        if header.producer_epoch > former.producer_epoch:
            if first != 0:
                raise Violation(f"{who} begins a new epoch with sequence {first}")
            return
        expected = (former.last_sequence + 1) & WRAP
        if first == expected:
            return
        kind = "a duplicate" if first <= former.last_sequence else "a gap"
        raise Violation(
            f"{who}: {kind}: sequence {first} at offset {link.start} after"
            f" {former.base_sequence} to {former.last_sequence} at offset {last.start}"
        )
