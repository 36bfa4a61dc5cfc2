"""Invariants 6 and 7: what a high watermark has covered is on every member of the ISR, and stays.

A replica that calls an offset committed must hold there what every other replica holds. A leader's high
watermark rests on what each ISR member has had. A leader has everything committed (unless it was elected
uncleanly). A replica that truncates its log removes nothing committed. A machine that lost its power may
have lost anything; it still counts as a holder of what it had, for the cluster must cope with that loss.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.record.decode import records_of
from barnabas.sim.checkers.chains import Link
from barnabas.sim.checkers.replica_logs import Key, ReplicaLogs, Rule, Watched
from barnabas.sim.cluster import SimCluster
from barnabas.sim.history import Promise, Violation


class CommittedRecordsStay(Rule):
    def __init__(self, promise_of: Callable[[str], Promise]) -> None:
        """`promise_of` says what a topic promises; one that does not settle is not looked at."""
        self._promise_of = promise_of

    # -- what is committed -----------------------------------------------------------------------

    def on_high_watermark(self, replica: Watched, before: int) -> None:
        mark = replica.high_watermark
        link = replica.held.at(mark)
        if link is None or link.end != mark or self._is_excused(replica):
            return
        versions = replica.versions
        known = versions.committed.get(mark)
        if known is None and replica.leads:
            self._commit(replica, link)
        elif known is not None and known is not link and replica.held.holds(known) is False:
            raise Violation(
                f"{replica.where}: its high watermark is {mark} with {link!r} before it, where"
                f" {known!r} was committed"
            )
        if replica.leads and mark > before:
            self._check_holders(replica, link, replica.isr)

    def _commit(self, replica: Watched, link: Link) -> None:
        versions = replica.versions
        at: Link | None = link
        while at is not None and at.end not in versions.committed:
            versions.committed[at.end] = at
            at = at.previous_link
        if at is not None and versions.committed[at.end] is not at:
            raise Violation(
                f"{replica.where}: commits {link!r}, before which {at!r} is where"
                f" {versions.committed[at.end]!r} was committed"
            )
        versions.high_watermark = max(versions.high_watermark, link.end)
        versions.committed_by[replica.epoch] = link

    def _check_holders(self, replica: Watched, link: Link, brokers: tuple[int, ...]) -> None:
        missing = [broker for broker in brokers if broker not in link.holders]
        if missing and link.header is not None:
            raise Violation(
                f"{replica.where}: high watermark {link.end} in leader epoch {replica.epoch}, but"
                f" {missing} of its ISR {list(replica.isr)} never had {link!r}"
            )

    @staticmethod
    def _latest(replica: Watched, epoch: int | None = None) -> Link | None:
        """The last committed batch; with `epoch` only by leaders of that epoch and before: a leader whose
        metadata lag does not know what later ones committed, and need not."""
        versions = replica.versions
        if epoch is None:
            return versions.committed.get(versions.high_watermark)
        known = [link for by, link in versions.committed_by.items() if by <= epoch]
        return max(known, key=lambda link: link.end, default=None)

    # -- who must have it ------------------------------------------------------------------------

    def on_isr(self, replica: Watched, joined: tuple[int, ...]) -> None:
        latest = self._latest(replica, replica.epoch)
        if latest is not None and not self._is_excused(replica) and replica.held.holds(latest):
            self._check_holders(replica, latest, joined)

    def on_leading(self, replica: Watched) -> None:
        if self._is_excused(replica):
            return
        latest = self._latest(replica, replica.epoch)
        if latest is not None and not replica.held.holds(latest):
            raise Violation(
                f"{replica.where}: leads in epoch {replica.epoch} and lacks committed records: it ends"
                f" with {replica.held.last!r}, {latest!r} was committed"
            )

    def on_dropped(self, replica: Watched, dropped: list[Link], *, restarted: bool) -> None:
        if restarted or self._is_excused(replica):
            return
        latest = self._latest(replica)
        if latest is None or replica.held.holds(latest):
            return
        for link in dropped:
            if replica.versions.committed.get(link.end) is link and link.end > replica.held.end:
                raise Violation(f"{replica.where}: cuts off {link!r}, which was committed")

    def _is_excused(self, replica: Watched) -> bool:
        """Whether a replica outside of ISR and ELR may lead here: then nothing is promised."""
        return not self._promise_of(replica.partition.topic).settles

    # -- the end ---------------------------------------------------------------------------------

    def at_end(self, logs: ReplicaLogs, cluster: SimCluster) -> None:
        for key, versions in logs.versions.items():
            live = logs.live(cluster, key)
            if not live or self._is_excused(live[0]):
                continue
            if live[0].compacted:
                _check_records(live, key)
                continue
            marks = {w.partition.high_watermark: w for w in live}
            for replica in live:
                lowest = min(*marks, replica.held.end)
                ours, theirs = replica.held.at(lowest), live[0].held.at(lowest)
                if ours is not theirs and ours is not None and theirs is not None:
                    if live[0].held.holds(ours) is False:
                        raise Violation(
                            f"{versions.name}: nodes {live[0].node.id} and {replica.node.id} differ"
                            f" below offset {lowest}: {theirs!r} and {ours!r}"
                        )


def _check_records(live: list[Watched], key: Key) -> None:
    """Two replicas of a compacted partition have equal records at the offsets that both have."""
    first: dict[int, tuple[bytes | None, bytes | None]] = {}
    for replica in live:
        log = replica.partition.log
        assert log is not None
        disk = replica.node.machine.disk
        for segment in log.segments:
            if disk.is_rotten(segment.path):
                continue
            for located in segment.headers():
                if located.header.is_control or located.header.next_offset > log.high_watermark:
                    continue
                for record in records_of(segment.view(located)):
                    key_bytes = None if record.key is None else bytes(record.key)
                    value = None if record.value is None else bytes(record.value)
                    known = first.setdefault(record.offset, (key_bytes, value))
                    if known != (key_bytes, value):
                        raise Violation(
                            f"{replica.where}: another record at offset {record.offset} than on node"
                            f" {live[0].node.id}"
                        )
