"""Fetches: sessions, what there is to tell of each partition, and requests that wait for it.

A fetch looks at the dirty partitions of its session. Where that gives too little it is parked in
the session and looked at again when one of them moves: at most once per turn of the loop, so that
appends which came together are told together. Reads never block: where the bytes are not in memory
the partition is read once in the background and the fetch is looked at again.

Behaviour: Kafka's ReplicaManager.fetchMessages, DelayedFetch and FetchSession; KIP-227 (sessions),
KIP-320 (epochs), KIP-392 (consumers may read from followers), KIP-903 (broker epochs).
A high watermark alone does not answer a parked follower, as in Kafka without a replica selector
(KAFKA-9731): it travels with the next answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from barnabas.broker.deadlines import Deadlines
from barnabas.broker.fetch_answers import (
    NO_DIVERGENCE,
    Cold,
    Look,
    Session,
    Watched,
    checked_log,
    error_answer,
    has_more,
    partition_answer,
    remember,
    response_of,
)
from barnabas.broker.leaders import LEADERSHIP
from barnabas.broker.partition import Partition
from barnabas.broker.replication_throttle import ReplicationThrottle
from barnabas.limits import UNSENT_BYTES_TOTAL
from barnabas.ports import Ports, Rng
from barnabas.replication.leader import UNKNOWN
from barnabas.replication.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    PartitionKey,
    SessionCache,
    SessionPartition,
    next_epoch,
)
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.fetch_request import FetchPartition, FetchRequest
from barnabas.wire.messages.fetch_response import FetchResponse, PartitionData
from barnabas.wire.request import Parked

COLD_READS_MAX = 3
"""Times that a fetch waits for its bytes to be brought into memory; after that it blocks."""
COLD_READ_QUEUES = 4
RECHECK_MS = 5.0
"""A fetch with a larger min_bytes is looked at again this often at most."""
LEADERS_SINCE = 12
ANSWERED_MAX = 300
"""Partitions of a session that one answer tells of, a full one apart: some 10 ms for either side."""

Find = Callable[[PartitionKey], tuple[Partition | None, ErrorCode]]
"""The replica here for (topic id or name, index), or why there is none."""


class FetchLimits(NamedTuple):
    """Bounds of this broker: response bytes, sessions."""

    response_bytes_max: int
    sessions_max: int


class Round(NamedTuple):
    """What one look at a session gave."""

    answers: list[tuple[Watched, PartitionData]]
    size: int
    urgent: bool
    """Something must not wait: an error, a divergence."""
    cold: list[Cold]
    throttled: int
    """Of `size`, what counts for the leader's throttle."""


class ParkedFetch:
    """One fetch under way, and what it asks of every look."""

    __slots__ = (
        "bucket",
        "cold_reads",
        "deadline_ms",
        "isolation",
        "max_bytes",
        "min_bytes",
        "parked",
        "reading",
        "service",
        "session",
        "version",
        "whole",
    )

    def __init__(
        self, service: FetchService, session: Session, request: FetchRequest, version: int
    ) -> None:
        self.service = service
        self.session = session
        self.parked = Parked()
        self.bucket = -1
        self.deadline_ms = 0.0
        self.cold_reads = 0
        self.reading = False
        self.isolation = request.isolation_level
        self.min_bytes = request.min_bytes
        self.max_bytes = request.max_bytes
        self.version = version
        self.whole = session.id == NO_SESSION or request.session_epoch <= INITIAL_EPOCH
        """A full fetch: its answer names every partition."""

    def on_deadline(self) -> None:
        self.service.on_deadline(self)

    def __repr__(self) -> str:
        return f"ParkedFetch({self.session}, min {self.min_bytes} bytes)"


class FetchService:
    """All fetches of one broker."""

    def __init__(
        self,
        ports: Ports,
        find: Find,
        deadlines: Deadlines,
        limits: FetchLimits,
        add_leaders: Callable[[FetchResponse, int, dict[PartitionKey, Partition]], None],
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        """`add_leaders` completes errors about leadership with who leads now (KIP-951)."""
        self._throttle = throttle
        self._ports = ports
        self._find = find
        self._deadlines = deadlines
        self._limits = limits
        self._add_leaders = add_leaders
        self._rng: Rng = ports.rng("fetch.sessions")
        self.sessions: SessionCache[Partition] = SessionCache(limits.sessions_max)
        self._woken: dict[Session, None] = {}
        self._flushing = False
        self._rechecks: dict[Session, None] = {}
        self._cold_reads = itertools.count()

    # -- a request -------------------------------------------------------------------------------

    def fetch(self, request: FetchRequest, version: int) -> FetchResponse | Parked:
        """Answer, or park until there is enough to tell."""
        session = self._session_of(request, version)
        if isinstance(session, ErrorCode):
            return FetchResponse(error_code=session)
        now_ms = self._ports.clock.now_ms()
        self.sessions.touch(session, now_ms)
        self._end_parked(session)
        fetch = ParkedFetch(self, session, request, version)
        if session.is_follower:
            self._note_progress(session, request, now_ms)
        round = self._look(fetch, whole=fetch.whole)
        wait_ms = max(request.max_wait_ms, 0)
        if not round.cold and (
            wait_ms == 0 or not session.partitions or self._enough(fetch, round)
        ):
            return self._answer(fetch, round)
        return self._park(fetch, now_ms + wait_ms, round)

    def _enough(self, fetch: ParkedFetch, round: Round) -> bool:
        return round.urgent or round.size >= fetch.min_bytes

    def _park(self, fetch: ParkedFetch, deadline_ms: float, round: Round) -> Parked:
        fetch.session.parked = fetch
        fetch.deadline_ms = deadline_ms
        if fetch.whole:
            for watched, data in round.answers:
                if not data.records and not has_more(fetch.session, watched):
                    fetch.session.dirty.pop(watched, None)  # until it moves
        if round.cold:
            self._warm(fetch, round.cold)
        else:
            self._deadlines.add(fetch, deadline_ms)
        return fetch.parked

    def _end_parked(self, session: Session) -> None:
        """A peer that asks again has given up its former request."""
        earlier = session.parked
        if earlier is not None:
            session.parked = None
            self._deadlines.remove(earlier)
            earlier.parked.complete(FetchResponse(session_id=session.id))

    # -- sessions --------------------------------------------------------------------------------

    def _session_of(self, request: FetchRequest, version: int) -> Session | ErrorCode:
        uses_ids = version >= 13
        epoch = request.session_epoch
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._drop(self.sessions.remove(request.session_id))
            return self._full_session(request, uses_ids, keep=epoch == INITIAL_EPOCH)
        session = self.sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_ids != uses_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        self._update(session, request)
        if not session.partitions:
            # Everything was forgotten: the session ends (its peer is told id 0).
            self.sessions.remove(session.id)
            session.id = NO_SESSION
            return session
        session.epoch = next_epoch(session.epoch)
        return session

    def _full_session(self, request: FetchRequest, uses_ids: bool, *, keep: bool) -> Session:
        now_ms = self._ports.clock.now_ms()
        follower = replica_of(request)
        session: Session = FetchSession(follower, uses_ids=uses_ids, now_ms=now_ms)
        self._update(session, request)
        if keep and session.partitions:
            for _ in range(8):
                kept, displaced = self.sessions.add(
                    session, self._rng.randrange(1, 0x7FFFFFFF), now_ms
                )
                self._drop(displaced)
                if kept:
                    break
        return session

    def _update(self, session: Session, request: FetchRequest) -> None:
        uses_ids = session.uses_ids
        for topic in request.topics:
            topic_key = topic.topic_id if uses_ids else topic.topic
            for wanted in topic.partitions:
                key = (topic_key, wanted.partition)
                watched = session.partitions.get(key)
                if watched is None:
                    watched = SessionPartition(session, key, topic.topic)
                    session.partitions[key] = watched
                    with suppress(KafkaError):  # told when it is looked at
                        self._bind(watched)
                _renew(watched, wanted)
                session.dirty[watched] = None
        for forgotten in request.forgotten_topics_data:
            topic_key = forgotten.topic_id if uses_ids else forgotten.topic
            for index in forgotten.partitions:
                gone = session.drop((topic_key, index))
                if gone is not None:
                    self._unbind(gone)

    def _bind(self, watched: Watched) -> Partition:
        """Find the replica and be told when it moves. Raises KafkaError where there is none here."""
        partition, code = self._find(watched.key)
        if partition is None:
            raise KafkaError(code, f"no replica of {watched} here")
        watched.partition = partition
        session = watched.session
        if session.is_follower:
            partition.append_watchers[watched] = None
            if partition.leader is not None:
                watched.follower = partition.leader.followers.get(session.follower_id)
        else:
            partition.high_watermark_watchers[watched] = None
        return partition

    def _unbind(self, watched: Watched) -> None:
        partition = watched.partition
        if partition is not None:
            partition.append_watchers.pop(watched, None)
            partition.high_watermark_watchers.pop(watched, None)
            watched.partition = watched.follower = None

    def _drop(self, session: Session | None) -> None:
        """The session is over: nobody marks it any more."""
        if session is None:
            return
        self._end_parked(session)
        for watched in session.partitions.values():
            self._unbind(watched)
        session.dirty.clear()
        self._woken.pop(session, None)
        self._rechecks.pop(session, None)

    # -- followers' progress ---------------------------------------------------------------------

    def _note_progress(self, session: Session, request: FetchRequest, now_ms: float) -> None:
        """What the follower has by its asking for more. Named partitions moved; dirty ones that are
        not named are where they were."""
        broker_epoch = request.replica_state.replica_epoch
        registered_anew = broker_epoch != session.broker_epoch
        session.broker_epoch = broker_epoch
        named: set[PartitionKey] = set()
        for topic in request.topics:
            topic_key = topic.topic_id if session.uses_ids else topic.topic
            for wanted in topic.partitions:
                key = (topic_key, wanted.partition)
                named.add(key)
                watched = session.partitions.get(key)
                if watched is None:  # named and forgotten in one request
                    continue
                if self._may_progress(watched, broker_epoch):
                    assert watched.partition is not None and watched.follower is not None
                    watched.partition.on_follower_fetch(watched.follower, watched, broker_epoch)
        if registered_anew:
            self._note_registration(session, broker_epoch, named)
        for watched in list(session.dirty):
            partition, follower = watched.partition, watched.follower
            if watched.key in named or partition is None or follower is None:
                continue
            if partition.leader is not None and partition.log is not None:
                partition.leader.touch(follower, partition.log.log_end_offset, now_ms)

    def _note_registration(
        self, session: Session, broker_epoch: int, named: set[PartitionKey]
    ) -> None:
        """The same process registered again, which took it out of every ISR: where it is stands in the
        session, also of partitions that are idle and that it would never name again (seed 100)."""
        for watched in session.partitions.values():
            if watched.key not in named and self._may_progress(watched, broker_epoch):
                assert watched.partition is not None and watched.follower is not None
                watched.partition.on_follower_fetch(watched.follower, watched, broker_epoch)

    def _note_first(self, watched: Watched, partition: Partition) -> None:
        """The replica was found, or this leadership began, after the follower had named the
        partition: its place stands in the session. Raises NOT_LEADER_OR_FOLLOWER where it is none of
        the partition's followers."""
        follower = watched.follower
        if follower is None:
            raise partition.not_leader()
        epoch = watched.session.broker_epoch
        if follower.log_end_offset == UNKNOWN and self._may_progress(watched, epoch):
            partition.on_follower_fetch(follower, watched, epoch)

    def _may_progress(self, watched: Watched, broker_epoch: int) -> bool:
        """Whether this fetch would be answered without an error or a divergence."""
        partition = watched.partition
        if partition is None or watched.follower is None:
            return False
        if 0 <= broker_epoch < watched.follower.broker_epoch:
            return False
        try:
            log = partition.readable_log(watched.leader_epoch, leader_only=True)
            if partition.diverging_epoch(watched.last_fetched_epoch, watched.fetch_offset):
                return False
        except KafkaError:
            return False  # told when the partition is read
        return log.log_start_offset <= watched.fetch_offset <= log.log_end_offset

    # -- looking ---------------------------------------------------------------------------------

    def _look(self, fetch: ParkedFetch, *, whole: bool = False) -> Round:
        """What there is to tell of the dirty partitions, within the byte bounds."""
        session = fetch.session
        cold: list[Cold] = []
        look = Look(fetch.version, fetch.isolation, whole, fetch.cold_reads >= COLD_READS_MAX, cold)
        answers: list[tuple[Watched, PartitionData]] = []
        left = min(fetch.max_bytes, self._limits.response_bytes_max)
        if not session.is_follower and self._ports.network.unsent_bytes > UNSENT_BYTES_TOTAL:
            left = 0  # one batch
        size, urgent, throttled = 0, False, 0
        throttle = self._throttle if session.is_follower else None
        if throttle is not None and not throttle.limits_leader:
            throttle = None
        for watched in list(session.dirty):
            if len(answers) >= ANSWERED_MAX and not whole:
                break  # the others come first next time
            try:
                partition = watched.partition or self._bind(watched)
                log = checked_log(look, watched, partition)
                room, first = left, size == 0
                if session.is_follower:
                    self._note_first(watched, partition)
                if throttle is not None and throttle.holds_back(
                    partition, session.follower_id, throttled
                ):
                    room, first = 0, False
                data = partition_answer(look, watched, partition, log, room, first)
            except KafkaError as error:
                data = error_answer(watched, error)
                urgent = True
            if data is None:
                if not has_more(session, watched):
                    session.dirty.pop(watched, None)
                continue
            if data.records:
                size += len(data.records)
                left -= len(data.records)
                if throttle is not None and throttle.counts_as_sent(partition):
                    throttled += len(data.records)
            elif data.diverging_epoch is not NO_DIVERGENCE:
                urgent = True
            answers.append((watched, data))
        return Round(answers, size, urgent, cold, throttled)

    def _answer(self, fetch: ParkedFetch, round: Round) -> FetchResponse:
        """The response, and what the session remembers of it."""
        session = fetch.session
        refused: dict[PartitionKey, Partition] = {}
        for watched, data in round.answers:
            remember(session, watched, data)
            if data.error_code in LEADERSHIP and watched.partition is not None:
                refused[watched.key] = watched.partition
        if round.throttled and self._throttle is not None:
            self._throttle.sent(round.throttled)
        response = response_of(session, round.answers)
        if session.id == NO_SESSION:
            for watched in session.partitions.values():
                self._unbind(watched)
        if refused and fetch.version >= LEADERS_SINCE:
            self._add_leaders(response, fetch.version, refused)
        return response

    # -- waking ----------------------------------------------------------------------------------

    def wake(self, session: Session) -> None:
        """One of the parked fetch's partitions moved. It is looked at after this turn."""
        if session not in self._woken:
            self._woken[session] = None
            if not self._flushing:
                self._flushing = True
                self._ports.wakeups.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        woken, self._woken = self._woken, {}
        for session in woken:
            fetch = session.parked
            if fetch is None or fetch.reading:
                continue
            if fetch.min_bytes > 1 and not session.is_follower:
                self._recheck_later(session)
            else:
                self._try(fetch, last=False)

    def _recheck_later(self, session: Session) -> None:
        if not self._rechecks:
            self._ports.wakeups.call_at(self._ports.clock.now_ms() + RECHECK_MS, self._recheck)
        self._rechecks[session] = None

    def _recheck(self) -> None:
        waiting, self._rechecks = self._rechecks, {}
        for session in waiting:
            if session.parked is not None and not session.parked.reading:
                self._try(session.parked, last=False)

    def on_deadline(self, fetch: ParkedFetch) -> None:
        if fetch.session.parked is fetch and not fetch.reading:
            self._try(fetch, last=True)

    def _try(self, fetch: ParkedFetch, *, last: bool) -> None:
        if fetch.parked.done:  # its connection is gone
            self._unpark(fetch)
            if fetch.session.id == NO_SESSION:
                self._drop(fetch.session)
            return
        round = self._look(fetch)
        if not round.cold and (last or self._enough(fetch, round)):
            if fetch.whole:
                # What had nothing to tell while it waited is named all the same.
                session = fetch.session
                session.dirty.update(dict.fromkeys(session.partitions.values()))
                round = self._look(fetch, whole=True)
        if round.cold:
            self._deadlines.remove(fetch)
            self._warm(fetch, round.cold)
        elif last or self._enough(fetch, round):
            self._unpark(fetch)
            fetch.parked.complete(self._answer(fetch, round))

    def _unpark(self, fetch: ParkedFetch) -> None:
        self._deadlines.remove(fetch)
        if fetch.session.parked is fetch:
            fetch.session.parked = None

    def _warm(self, fetch: ParkedFetch, cold: Iterable[Cold]) -> None:
        """Bring bytes into memory by reading them once where that may block."""
        fetch.reading = True
        fetch.cold_reads += 1
        jobs = [
            watched.partition.log.read_job(watched.fetch_offset, max(size, 0), up_to=up_to)
            for watched, size, up_to in cold
            if watched.partition is not None and watched.partition.log is not None
        ]

        def read() -> None:
            for job in jobs:
                job()

        def done(result: object) -> None:
            # What the disk has against it is found again, and told, by the look that follows.
            fetch.reading = False
            if fetch.session.parked is not fetch:
                return
            now_ms = self._ports.clock.now_ms()
            if fetch.deadline_ms > now_ms:
                self._deadlines.add(fetch, fetch.deadline_ms)
            self._try(fetch, last=fetch.deadline_ms <= now_ms)

        queue = f"read {next(self._cold_reads) % COLD_READ_QUEUES}"
        self._ports.background.run(queue, read, done)


def replica_of(request: FetchRequest) -> int:
    """The broker that fetches, or -1 for a consumer (KIP-903 moved it)."""
    return request.replica_state.replica_id if request.replica_id < 0 else request.replica_id


def _renew(watched: Watched, wanted: FetchPartition) -> None:
    watched.fetch_offset = wanted.fetch_offset
    watched.max_bytes = wanted.partition_max_bytes
    watched.leader_epoch = wanted.current_leader_epoch
    watched.last_fetched_epoch = wanted.last_fetched_epoch
    watched.log_start_offset = wanted.log_start_offset
