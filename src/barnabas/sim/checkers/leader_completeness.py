"""Invariant 3: what is committed is in every later leader's log; and it is committed once a majority of
voters has it on disk, not before.

A later leader is one of a later epoch: votes of an older one may arrive when its successor has committed
already (seed 10600), and who is elected by them commits nothing. The second half is judged from outside:
when a leader's high watermark moves, the voters are looked at, dead ones as they were when they were last
seen. A voter that lost its power keeps what it had synced.
"""

from __future__ import annotations

from barnabas.sim.checkers.chains import Link
from barnabas.sim.checkers.quorum_logs import QuorumLogs, QuorumMember, QuorumRule
from barnabas.sim.history import Violation


class LeaderCompleteness(QuorumRule):
    def __init__(self) -> None:
        self._latest: dict[int, Link] = {}
        """The last entry that was committed in each epoch."""

    def on_leading(self, logs: QuorumLogs, member: QuorumMember) -> None:
        before = [link for epoch, link in self._latest.items() if epoch < member.led_epoch]
        latest = max(before, key=lambda link: link.end, default=None)
        if latest is not None and not member.held.holds(latest):
            raise Violation(
                f"{member.where}: leads epoch {member.led_epoch} without {latest!r}, which was"
                f" committed; it ends with {member.held.last!r}"
            )

    def on_commit(self, logs: QuorumLogs, member: QuorumMember, link: Link) -> None:
        versions, mark = logs.versions, link.end
        known = versions.committed.get(mark)
        if known is not None and known is not link:
            raise Violation(
                f"{member.where}: says that {link!r} is committed, where {known!r} was committed"
            )
        if mark <= versions.high_watermark or link.header is None:
            return
        self._check_majority(logs, member, link)
        quorum = member.quorum
        if quorum is not None and quorum.leader_id == member.node.id and link.epoch != quorum.epoch:
            raise Violation(
                f"{member.where}: leads epoch {quorum.epoch} and commits {link!r}: an entry of another"
                " epoch commits only with one of the leader's own behind it"
            )
        at: Link | None = link
        while at is not None and at.end not in versions.committed:
            versions.committed[at.end] = at
            at = at.previous_link
        if at is not None and versions.committed[at.end] is not at:
            raise Violation(
                f"{member.where}: {link!r} is committed behind {at!r}, where"
                f" {versions.committed[at.end]!r} was committed"
            )
        versions.high_watermark = mark
        if quorum is not None:
            self._latest[quorum.epoch] = link

    @staticmethod
    def _check_majority(logs: QuorumLogs, member: QuorumMember, link: Link) -> None:
        quorum = member.quorum
        assert quorum is not None
        voters = list(quorum.machine.voters)
        # One event may commit and then append other voters (seed 109018): either set will do in it.
        if not any(_is_majority(logs, link, some) for some in (voters, member.voters) if some):
            having = [voter for voter in voters if _has(logs, link, voter)]
            raise Violation(
                f"{member.where}: calls {link!r} committed in epoch {quorum.epoch}; of the voters"
                f" {voters} only {having} have it on disk"
            )


def _is_majority(logs: QuorumLogs, link: Link, voters: list[int]) -> bool:
    return sum(_has(logs, link, voter) for voter in voters) * 2 > len(voters)


def _has(logs: QuorumLogs, link: Link, voter: int) -> bool:
    """Whether a replica has `link` on its disk."""
    other = logs.members.get(voter)
    return other is not None and other.durable >= link.end and other.held.holds(link)
