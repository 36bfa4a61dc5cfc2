"""Elects a partition's leader: one function per strategy, each of which returns a result with its
reason.

A valid leader is in the ISR, or in the ELR while the ISR is empty, and acceptable (its broker is
active, its log directory online). The strategies read only the `Electorate`.

Source: KIP-631, KIP-460, KIP-966; the strategies of Kafka's PartitionChangeBuilder, and those of
the older controller by their own names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from barnabas.metadata.image.topic import NO_LEADER, Replicas


class Electorate(NamedTuple):
    """The state of a partition that an election reads. `replicas`, `isr` and `elr` are those of the change
    that is being built."""

    leader: int
    replicas: Replicas
    isr: Replicas
    elr: Replicas
    last_known: Replicas
    acceptable: Callable[[int], bool]
    balanced: bool = False
    """Whether the last known leader may lead again while ISR and ELR are empty (KIP-966, balanced)."""
    unclean: bool = False
    """Whether any acceptable replica may lead rather than none."""

    def valid(self, replica: int) -> bool:
        eligible = self.isr or self.elr
        return replica in eligible and self.acceptable(replica)


class Elected(NamedTuple):
    """The result of an election. `unclean`: the leader was not known to be in sync, so the ISR is
    the leader alone and it recovers; it may lack acknowledged records, unless the election is
    `lossless`."""

    leader: int
    reason: str
    unclean: bool = False
    lossless: bool = False
    """Whether it was the last leader and no replica has anything that it lacks. No other leader would have
    been better."""
    recover: bool = False
    """Whether several replicas could lead uncleanly. The controller asks them first which one is furthest
    ahead."""


def no_op(e: Electorate) -> Elected:
    """Report whether the present leader is valid, and change nothing."""
    if e.leader == NO_LEADER:
        return Elected(NO_LEADER, "there is no leader")
    return Elected(e.leader, "the leader is valid" if e.valid(e.leader) else why_not(e, e.leader))


def keep_or_offline(e: Electorate) -> Elected:
    """Keep the present leader if it is valid, else elect as for an offline partition."""
    if e.leader != NO_LEADER and e.valid(e.leader):
        return Elected(e.leader, "the leader stays")
    return offline(e)


def offline(e: Electorate) -> Elected:
    """Elect the first valid replica in the order of assignment. If there is none because ISR and
    ELR are empty, elect the last known leader. If that is not allowed, the only acceptable replica
    leads uncleanly, if this is allowed. If several replicas are acceptable, there is no leader yet:
    they are asked first which one is furthest ahead."""
    for replica in e.replicas:
        if e.valid(replica):
            return Elected(replica, _clean_reason(e, replica))
    if may_recover_balanced(e):
        return _balanced(e)
    if e.unclean:
        live = [replica for replica in e.replicas if e.acceptable(replica)]
        if live and e.last_known == e.replicas and not e.isr and not e.elr:
            return _only_replica(e, live[0])
        if len(live) == 1:
            why = f"unclean: {no_clean_leader_reason(e)}; {live[0]} is the only live replica"
            return Elected(live[0], why, True)
        if live:
            why = f"{no_clean_leader_reason(e)}; asking {live} which one is furthest ahead"
            return Elected(NO_LEADER, why, recover=True)
    return Elected(NO_LEADER, no_clean_leader_reason(e))


def preferred(e: Electorate) -> Elected:
    """Elect the first assigned replica if it is valid, else as `keep_or_offline`."""
    first = e.replicas[0]
    if e.valid(first):
        return Elected(first, f"{first} is the preferred leader")
    return keep_or_offline(e._replace(unclean=False))


def reassigned(e: Electorate) -> Elected:
    """Elect at the end of a reassignment: the present leader if it remains and is valid, else the
    first valid replica of the new assignment."""
    if e.leader in e.replicas and e.valid(e.leader):
        return Elected(e.leader, "the leader is among the new replicas")
    for replica in e.replicas:
        if e.valid(replica):
            return Elected(replica, f"{e.leader} is not among the new replicas")
    return Elected(NO_LEADER, no_clean_leader_reason(e))


def controlled_shutdown(e: Electorate, leaving: int) -> Elected:
    """Elect the first valid replica other than the leaving one, never uncleanly."""
    for replica in e.replicas:
        if replica != leaving and e.valid(replica):
            return Elected(replica, f"{leaving} shuts down")
    return Elected(NO_LEADER, f"{leaving} shuts down and {no_clean_leader_reason(e)}")


def designated(
    e: Electorate, *, unclean: bool, further: Callable[[int], tuple[int, int]] | None = None
) -> Elected:
    """Elect for ElectLeaders: the preferred leader, or any, uncleanly if need be (KIP-460).
    `further` gives a replica's log end; without it the first acceptable replica leads."""
    if not unclean:
        return preferred(e)
    result = keep_or_offline(e._replace(unclean=True))
    if not result.recover:
        return result
    live = [replica for replica in e.replicas if e.acceptable(replica)]
    best = live[0] if further is None else max(live, key=further)
    return Elected(
        best, f"unclean: {no_clean_leader_reason(e)}; {best} of {live} was designated", True
    )


def may_recover_balanced(e: Electorate) -> bool:
    """Whether ISR and ELR are empty because every former member was shut down uncleanly. A member may have
    lost records, but a process that was killed still has what it wrote, so the controller asks all of
    them."""
    return e.balanced and not e.isr and not e.elr and len(e.last_known) == 1


def _balanced(e: Electorate) -> Elected:
    """The election that asks every replica, even if the last known leader is back: it may have lost
    its log in a power failure."""
    live = [replica for replica in e.replicas if e.acceptable(replica)]
    if live and len(e.replicas) == 1:
        return _only_replica(e, live[0])
    if live:
        why = f"ISR and ELR are empty; asking {live} which one is furthest ahead"
        return Elected(NO_LEADER, why, recover=True)
    return Elected(NO_LEADER, no_clean_leader_reason(e))


def _only_replica(e: Electorate, replica: int) -> Elected:
    if e.last_known != e.replicas:
        return Elected(
            replica, f"unclean: {no_clean_leader_reason(e)}; {replica} is the only replica", True
        )
    return Elected(replica, f"{replica} led last and is the only replica", True, lossless=True)


def why_not(e: Electorate, replica: int) -> str:
    """The reason why `replica` cannot lead, as a sentence."""
    if replica not in e.replicas:
        return f"{replica} is no replica"
    if not e.acceptable(replica):
        return f"{replica} is not available"
    if e.isr:
        return f"{replica} is not in the ISR {list(e.isr)}"
    if e.elr:
        return f"{replica} is not in the ELR {list(e.elr)}"
    return f"{replica} is neither in the ISR nor in the ELR, which are empty"


def no_clean_leader_reason(e: Electorate) -> str:
    """The reason why no replica can lead cleanly, as a sentence."""
    if e.isr:
        return f"no member of the ISR {list(e.isr)} is available"
    if e.elr:
        return f"no member of the ELR {list(e.elr)} is available"
    if len(e.last_known) == 1 and not e.acceptable(e.last_known[0]):
        return f"ISR and ELR are empty and the last known leader {e.last_known[0]} is not available"
    return "ISR and ELR are empty"


def _clean_reason(e: Electorate, replica: int) -> str:
    first = first_live(replica, "ISR" if e.isr else "ELR")
    if e.leader == NO_LEADER or not e.acceptable(e.leader):
        return first
    return f"{why_not(e, e.leader)}; {first}"


@lru_cache(maxsize=4096)
def first_live(replica: int, kind: str) -> str:
    """The reason for an election of the first live member. Many partitions share the text."""
    return f"{replica} is the first live member of the {kind}"
