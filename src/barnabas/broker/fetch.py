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

from collections.abc import Callable, Iterable
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

from barnabas.broker.deadlines import Deadlines
from barnabas.broker.partition import Partition
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
from barnabas.types import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.fetch_request import FetchPartition, FetchRequest
from barnabas.wire.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from barnabas.wire.request import Parked

READ_COMMITTED = 1
CONSUMER = -1
COLD_READS_MAX = 3
"""Times that a fetch waits for its bytes to be brought into memory; after that it blocks."""
RECHECK_MS = 5.0
"""A fetch with a larger min_bytes is looked at again this often at most."""
NO_DIVERGENCE = EpochEndOffset()
NO_LEADER = LeaderIdAndEpoch()
NO_SNAPSHOT = SnapshotId()
_LENGTH = Struct(">qi")

Watched = SessionPartition[Partition]
Session = FetchSession[Partition]
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
    cold: list[tuple[Watched, int, int | None]]
    """(partition, bytes, up to) that are not in memory."""


class ParkedFetch:
    """One fetch under way, and what it asks of every look."""

    __slots__ = (
        "answer_all",
        "bucket",
        "cold_reads",
        "deadline_ms",
        "incremental",
        "isolation",
        "max_bytes",
        "min_bytes",
        "parked",
        "reading",
        "service",
        "session",
        "uses_ids",
        "version",
    )

    def __init__(self, service: FetchService, session: Session, request: FetchRequest) -> None:
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
        self.incremental = False
        self.answer_all = False
        self.version = 0

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
    ) -> None:
        """`add_leaders` completes errors about leadership with who leads now (KIP-951)."""
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

    # -- a request -------------------------------------------------------------------------------

    def fetch(self, request: FetchRequest, version: int) -> FetchResponse | Parked:
        """Answer, or park until there is enough to tell."""
        session = self._session_of(request, version)
        if isinstance(session, ErrorCode):
            return FetchResponse(error_code=session)
        now_ms = self._ports.clock.now_ms()
        self.sessions.touch(session, now_ms)
        self._end_parked(session)
        fetch = ParkedFetch(self, session, request)
        fetch.version = version
        fetch.incremental = session.id != NO_SESSION and request.session_epoch > INITIAL_EPOCH
        fetch.answer_all = not fetch.incremental
        if session.is_follower:
            self._note_progress(session, request, now_ms)
        round = self._look(fetch, block=False)
        if round.cold:
            return self._park(fetch, now_ms + max(request.max_wait_ms, 0), round)
        if self._enough(fetch, round) or request.max_wait_ms <= 0 or not session.partitions:
            return self._answer(fetch, round)
        return self._park(fetch, now_ms + request.max_wait_ms, round)

    def _enough(self, fetch: ParkedFetch, round: Round) -> bool:
        return round.urgent or round.size >= fetch.min_bytes

    def _park(self, fetch: ParkedFetch, deadline_ms: float, round: Round) -> Parked:
        fetch.session.parked = fetch
        fetch.deadline_ms = deadline_ms
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
                    self._bind(watched)
                _renew(watched, wanted)
                session.dirty[watched] = None
        for forgotten in request.forgotten_topics_data:
            topic_key = forgotten.topic_id if uses_ids else forgotten.topic
            for index in forgotten.partitions:
                gone = session.drop((topic_key, index))
                if gone is not None:
                    self._unbind(gone)

    def _bind(self, watched: Watched) -> ErrorCode:
        """Find the replica and be told when it moves."""
        partition, code = self._find(watched.key)
        if partition is None:
            return code
        watched.partition = partition
        session = watched.session
        if session.is_follower:
            partition.append_watchers[watched] = None
            if partition.leader is not None:
                watched.follower = partition.leader.followers.get(session.follower_id)
        else:
            partition.high_watermark_watchers[watched] = None
        return ErrorCode.NONE

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
        broker_epoch = session.broker_epoch = request.replica_state.replica_epoch
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
        for watched in list(session.dirty):
            partition, follower = watched.partition, watched.follower
            if watched.key in named or partition is None or follower is None:
                continue
            if partition.leader is not None and partition.log is not None:
                partition.leader.touch(follower, partition.log.log_end_offset, now_ms)

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

    def _look(self, fetch: ParkedFetch, *, block: bool) -> Round:
        """What there is to tell of the dirty partitions, within the byte bounds."""
        session = fetch.session
        round = Round([], 0, False, [])
        left = min(fetch.max_bytes, self._limits.response_bytes_max)
        size, urgent, idle = 0, False, []
        for watched in list(session.dirty):
            try:
                data = self._tell(fetch, watched, left, size == 0, block, round.cold)
            except KafkaError as error:
                data = self._error(watched, error)
                urgent = True
            if data is None:
                idle.append(watched)
                continue
            if data.records:
                size += len(data.records)
                left -= len(data.records)
            elif data.diverging_epoch is not NO_DIVERGENCE:
                urgent = True
            round.answers.append((watched, data))
        for watched in idle:
            if not fetch.answer_all:
                session.dirty.pop(watched, None)
        return round._replace(size=size, urgent=urgent)

    def _tell(
        self,
        fetch: ParkedFetch,
        watched: Watched,
        left: int,
        first: bool,
        block: bool,
        cold: list[tuple[Watched, int, int | None]],
    ) -> PartitionData | None:
        """The answer for one partition; None where the peer knows all of it. Raises KafkaError."""
        partition = watched.partition
        if partition is None:
            code = self._bind(watched)
            partition = watched.partition
            if partition is None:
                raise KafkaError(code, f"no replica of {watched} here")
        session = watched.session
        follower = session.is_follower
        log = partition.readable_log(
            watched.leader_epoch, leader_only=follower or fetch.version < 11
        )
        if follower:
            self._note_first(watched, partition)
        diverging = NO_DIVERGENCE
        records: Buffer | None = None
        high_watermark = log.high_watermark
        up_to = None
        if not follower:
            up_to = log.last_stable_offset if fetch.isolation == READ_COMMITTED else high_watermark
        parts = partition.diverging_epoch(watched.last_fetched_epoch, watched.fetch_offset)
        if parts is not None:
            diverging = EpochEndOffset(epoch=parts[0], end_offset=parts[1])
        else:
            size = min(watched.max_bytes, left)
            end = log.log_end_offset if up_to is None else up_to
            if watched.fetch_offset >= end or (size <= 0 and not first):
                partition.check_offset(watched.fetch_offset)
            else:
                found = partition.read(
                    watched.fetch_offset, max(size, 0), up_to, at_least_one=first, block=block
                )
                if found is None:
                    cold.append((watched, size, up_to))
                elif first or _has_whole_batch(found.records):
                    records = found.records
        if (
            not records
            and diverging is NO_DIVERGENCE
            and not fetch.answer_all
            and high_watermark == watched.sent_high_watermark
            and log.log_start_offset == watched.sent_log_start
        ):
            return None
        aborted = None
        if up_to is not None and fetch.isolation == READ_COMMITTED:
            aborted = _aborted(partition, watched.fetch_offset, up_to) if records else []
        return PartitionData(
            partition_index=watched.key[1],
            high_watermark=high_watermark,
            last_stable_offset=high_watermark if follower else log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            diverging_epoch=diverging,
            current_leader=NO_LEADER,
            snapshot_id=NO_SNAPSHOT,
            aborted_transactions=aborted,
            preferred_read_replica=-1,
            records=records if records is not None else b"",
        )

    @staticmethod
    def _error(watched: Watched, error: KafkaError) -> PartitionData:
        return PartitionData(
            partition_index=watched.key[1],
            error_code=error.code,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            diverging_epoch=NO_DIVERGENCE,
            current_leader=NO_LEADER,
            snapshot_id=NO_SNAPSHOT,
            aborted_transactions=None,
            records=b"",
        )

    def _answer(self, fetch: ParkedFetch, round: Round) -> FetchResponse:
        """The response, and what the session remembers of it."""
        session = fetch.session
        topics: dict[Any, list[PartitionData]] = {}
        names: dict[Any, str] = {}
        errors: dict[PartitionKey, Partition] = {}
        for watched, data in round.answers:
            topic_key = watched.key[0]
            found = topics.get(topic_key)
            if found is None:
                found = topics[topic_key] = []
                names[topic_key] = watched.topic
            found.append(data)
            _remember(session, watched, data)
            if data.error_code in _LEADERSHIP and watched.partition is not None:
                errors[watched.key] = watched.partition
        response = FetchResponse(
            session_id=session.id,
            responses=[
                FetchableTopicResponse(topic_id=key, partitions=partitions)
                if session.uses_ids
                else FetchableTopicResponse(topic=names[key], partitions=partitions)
                for key, partitions in topics.items()
            ],
        )
        if session.id == NO_SESSION:
            for watched in session.partitions.values():
                self._unbind(watched)
        if errors and fetch.version >= 12:
            self._add_leaders(response, fetch.version, errors)
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
        round = self._look(fetch, block=fetch.cold_reads >= COLD_READS_MAX)
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

    def _warm(self, fetch: ParkedFetch, cold: Iterable[tuple[Watched, int, int | None]]) -> None:
        """Bring bytes into memory by reading them once where that may block."""
        fetch.reading = True
        fetch.cold_reads += 1
        jobs = [
            partial(
                watched.partition.log.read,
                watched.fetch_offset,
                max(size, 0),
                up_to=up_to,
                at_least_one=True,
            )
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

        self._ports.background.run("read", read, done)


_LEADERSHIP = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def replica_of(request: FetchRequest) -> int:
    """The broker that fetches, or -1 for a consumer (KIP-903 moved it)."""
    return request.replica_state.replica_id if request.replica_id < 0 else request.replica_id


def _renew(watched: Watched, wanted: FetchPartition) -> None:
    watched.fetch_offset = wanted.fetch_offset
    watched.max_bytes = wanted.partition_max_bytes
    watched.leader_epoch = wanted.current_leader_epoch
    watched.last_fetched_epoch = wanted.last_fetched_epoch
    watched.log_start_offset = wanted.log_start_offset


def _remember(session: Session, watched: Watched, data: PartitionData) -> None:
    """What the peer knows now, and whether there is more to tell."""
    if data.error_code:
        watched.sent_high_watermark = watched.sent_log_start = -1
        session.later(watched)
        return
    watched.sent_high_watermark = data.high_watermark
    watched.sent_log_start = data.log_start_offset
    if data.records or data.diverging_epoch is not NO_DIVERGENCE:
        session.later(watched)
    else:
        partition = watched.partition
        if partition is None or not _has_more(session, watched, partition):
            session.dirty.pop(watched, None)


def _has_more(session: Session, watched: Watched, partition: Partition) -> bool:
    log = partition.log
    if log is None:
        return True
    end = log.log_end_offset if session.is_follower else log.high_watermark
    return watched.fetch_offset < end


def _has_whole_batch(records: Buffer) -> bool:
    return len(records) >= 12 and 12 + _LENGTH.unpack_from(records)[1] <= len(records)


def _aborted(partition: Partition, start: int, end: int) -> list[AbortedTransaction]:
    assert partition.log is not None
    return [
        AbortedTransaction(producer_id=producer, first_offset=first)
        for producer, first in partition.log.read_transactions(start, end)
    ]
