"""Bugs of replication: leaders, followers, fetches, acknowledgements."""

from __future__ import annotations

from functools import partial
from typing import Any

from barnabas.broker.fetch import fetch_read, fetch_service, session_reader
from barnabas.broker.fetch.fetch_sessions import FetchSessions
from barnabas.broker.follower import fetcher
from barnabas.broker.handlers import produce
from barnabas.broker.partitions.partition import Partition
from barnabas.broker.partitions.replica import Replica
from barnabas.record.batch import CorruptBatchError
from barnabas.replication import isr
from barnabas.replication.follower import FollowerPhase
from barnabas.replication.leader import IsrProposal, LeaderState
from barnabas.wire.errors import KafkaError
from tests.sim.mutants.planting import Mutant, Patch


def isr_expands_without_catching_up() -> list[Patch]:
    def admit_any_replica(
        self: LeaderState, follower: Any, high_watermark: int, eligible: Any
    ) -> IsrProposal | None:
        state = self.isr_state
        if state.in_flight or follower.broker in state.isr:
            return None
        if not eligible(follower.broker, follower.broker_epoch):
            return None
        return self._propose(isr.PendingExpand(state.committed, follower.broker))

    return [(LeaderState, "propose_expand", admit_any_replica)]


def truncates_to_the_high_watermark() -> list[Patch]:
    """As Kafka did before KIP-101: cut to what is known to be committed, compare no epochs."""
    honest = fetcher.Fetcher.add

    def cuts_first(self: fetcher.Fetcher, partition: Partition) -> None:
        if partition.log is not None:
            partition.truncate(partition.log.high_watermark)
        honest(self, partition)

    return [
        (fetcher.Fetcher, "add", cuts_first),
        (Replica, "diverging_epoch", lambda self, last_fetched_epoch, fetch_offset: None),
    ]


def acks_all_answered_early() -> list[Patch]:
    honest = produce._append

    def says_reached(*arguments: Any, **named: Any) -> Any:
        answer, *rest = honest(*arguments, **named)
        return (answer, 0, *rest[1:])

    return [(produce, "_append", says_reached)]


def answer_of_a_former_leader() -> list[Patch]:
    """What a leader sent is appended whatever became of it meanwhile."""

    def appends_anything(self: fetcher.Fetcher, key: Any, followed: Any, data: Any) -> None:
        partition, state = followed
        log = partition.log
        is_fetching = state.phase is FollowerPhase.FETCHING
        if is_fetching and log is not None and data.records and not data.error_code:
            state.moved_to(log.log_end_offset, log.last_epoch)
            try:
                self._append(key, followed, data)
            except (KafkaError, CorruptBatchError) as error:
                self._on_corrupt_data(key, followed, error)
        else:
            honest(self, key, followed, data)

    honest = fetcher.Fetcher._process_partition
    return [
        (fetcher.Fetcher, "_process_partition", appends_anything),
        (Replica, "check_leader_epoch", lambda self, epoch: None),
        (Replica, "diverging_epoch", lambda self, last_fetched_epoch, fetch_offset: None),
    ]


def high_watermark_not_bounded() -> list[Patch]:
    def of_the_leader(self: LeaderState, leader_end: int, *_: Any) -> int:
        return leader_end

    return [(LeaderState, "high_watermark", of_the_leader)]


def member_dropped_alone() -> list[Patch]:
    def without_them(self: isr.PendingShrink) -> tuple[int, ...]:
        return self.wanted

    return [(isr.PendingShrink, "maximal", property(without_them))]


def joining_follower_not_waited_for() -> list[Patch]:
    def without_it(self: isr.PendingExpand) -> tuple[int, ...]:
        return self.isr

    def mark(self: LeaderState, leader_end: int, min_isr: int, *_: Any) -> int | None:
        if self.is_under_min_isr(min_isr):
            return None
        return min([leader_end, *(f.log_end_offset for f in self._waited_for)])

    return [
        (isr.PendingExpand, "maximal", property(without_it)),
        (isr.PendingExpand, "wanted", property(lambda self: (*self.isr, self.joining))),
        (LeaderState, "high_watermark", mark),
    ]


def stale_session() -> list[Patch]:
    """A session continues with the follower's place in a leadership that is over."""
    return [(Partition, "_rebind_watchers", lambda self: None)]


def session_forgets_nothing() -> list[Patch]:
    """What a consumer wants no more stays in its session."""
    return [(FetchSessions, "forget", lambda self, session, topics: None)]


def consumers_session_misses_the_watermark() -> list[Patch]:
    """A consumer's session is not marked where there is more to read."""
    honest = Partition._on_high_watermark

    def signal_no_follower(self: Partition, mark: int) -> None:
        watchers, self.high_watermark_watchers = self.high_watermark_watchers, {}
        try:
            honest(self, mark)
        finally:
            self.high_watermark_watchers = watchers

    return [(Partition, "_on_high_watermark", signal_no_follower)]


def reads_past_the_high_watermark() -> list[Patch]:
    honest = fetch_read._read

    def reads_everything(
        look: Any, watched: Any, partition: Any, log: Any, left: int, first: bool, up_to: Any
    ) -> Any:
        return honest(look, watched, partition, log, left, first, None)

    return [
        (fetch_read, "_read", reads_everything),
        (fetch_read, "has_more", _more_anywhere),
        (session_reader, "has_more", _more_anywhere),
        (fetch_service, "has_more", _more_anywhere),
    ]


def _more_anywhere(session: Any, watched: Any) -> bool:
    partition = watched.partition
    if partition is None or partition.log is None:
        return True
    return bool(watched.fetch_offset < partition.log.log_end_offset)


def high_watermark_goes_back() -> list[Patch]:
    honest = LeaderState.high_watermark

    def advance(self: Partition) -> bool:
        leader, log, host = self.leader, self.log, self._host
        if leader is None or log is None:
            return False
        mark = honest(leader, log.log_end_offset, self.min_isr, host.now_ms(), host.lag_ms_max,
                      partial(host.is_eligible, self))  # fmt: skip
        if mark is None or mark == log.high_watermark:
            return False
        log.move_high_watermark(mark)
        self._on_high_watermark(mark)
        return True

    return [(Partition, "advance_high_watermark", advance)]


MUTANTS = (
    Mutant("isr-expands-early", "a follower joins the ISR without having caught up",
           isr_expands_without_catching_up),
    Mutant("truncates-to-high-watermark", "a follower cuts to its high watermark instead of by epoch",
           truncates_to_the_high_watermark),
    Mutant("acks-all-early", "acks=all is answered when the leader alone has it", acks_all_answered_early),
    Mutant("wrong-epoch-fetch", "fetches and answers of another leader epoch are taken",
           answer_of_a_former_leader),
    Mutant("unbounded-high-watermark", "the high watermark is not bounded by the ISR",
           high_watermark_not_bounded),
    Mutant("isr-dropped-alone", "a leader stops waiting for a member before the controller has dropped it",
           member_dropped_alone),
    Mutant("joining-not-waited-for", "the high watermark does not wait for a follower about to join",
           joining_follower_not_waited_for),
    Mutant("stale-fetch-session", "a fetch session keeps the place of a leadership that is over",
           stale_session),
    Mutant("forgotten-stays-in-session", "what a fetch session forgets is sent all the same",
           session_forgets_nothing),
    Mutant("session-not-told", "a consumer's fetch session does not learn that the high watermark moved",
           consumers_session_misses_the_watermark),
    Mutant("reads-past-high-watermark", "consumers are given what is not committed",
           reads_past_the_high_watermark),
    Mutant("high-watermark-goes-back", "the high watermark follows a member backwards",
           high_watermark_goes_back),
)  # fmt: skip
