"""Fetches: sessions, read passes over their partitions, and fetches that are delayed until there is enough.

A fetch reads the dirty partitions of its session. If that gives too little it becomes the session's delayed
fetch, and the next read pass follows when one of the partitions moves: at most once per turn of the loop, so
that one response has all appends of a turn. Reads never block: if the bytes are not in memory, a background
job reads the partition once, and another read pass follows. docs/fetch-path.md has the state diagram.

Behaviour: Kafka's ReplicaManager.fetchMessages, DelayedFetch and FetchSession; KIP-227 (sessions),
KIP-320 (epochs), KIP-392 (consumers may read from followers), KIP-903 (broker epochs).
A high watermark alone answers a parked follower only where consumers read from followers (a replica selector
is configured); else it travels with the next answer (KAFKA-9731).

Source: Kafka's ``DelayedFetch``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import NamedTuple

from barnabas.broker.cooperative_jobs import CooperativeJobs
from barnabas.broker.deadlines import Deadlines
from barnabas.broker.fetch.fetch_read import (
    FOLLOWERS_SERVE_SINCE,
    NO_DIVERGENCE,
    READ_COMMITTED,
    PendingRead,
    ReadPass,
    Session,
    Watched,
    error_answer,
    has_more,
    partition_answer,
    redirect_answer,
    remember,
    response_of,
)
from barnabas.broker.fetch.fetch_sessions import (
    FetchProgress,
    FetchSessions,
    Find,
    note_first,
    parts_of,
)
from barnabas.broker.fetch.replica_selector import NO_REPLICA, RackAwareReplicaSelector
from barnabas.broker.follower.replication_throttle import ReplicationThrottle
from barnabas.broker.leader_hints import LEADERSHIP
from barnabas.broker.partitions.partition import Partition
from barnabas.limits import SLICE_MS, UNSENT_BYTES_TOTAL
from barnabas.log.errors import CorruptLogError
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.ports import Ports, raise_soon
from barnabas.replication.sessions import INITIAL_EPOCH, NO_SESSION, PartitionKey
from barnabas.security.authorization.topic_reader import TopicReader
from barnabas.types import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.messages.fetch_response import FetchResponse, PartitionData
from barnabas.wire.request import Parked, Working
from barnabas.wire.schema import Message

COLD_READ_QUEUES = 4
"""Per log directory."""
RECHECK_MS = 5.0
"""A fetch with a larger min_bytes is read again this often at most."""
LEADERS_SINCE = 16
CONSUMER = -1
"""The replica id of a consumer."""
STORAGE_SINCE = 6
"""Older clients do not know KAFKA_STORAGE_ERROR, and would not try again."""
READ_PASS_MS_MAX = 3.0
"""An answer that covers `FetchBounds.timed_from` partitions covers no more after this."""


class FetchLimits(NamedTuple):
    """Bounds of this broker: response bytes, sessions."""

    response_bytes_max: int
    sessions_max: int


class DelayedFetch:
    """One fetch under way, and its conditions for every read pass."""

    __slots__ = (
        "bucket",
        "busy",
        "busy_with_request",
        "cold_reads",
        "committed",
        "deadline_ms",
        "leader_only",
        "listener",
        "max_bytes",
        "min_bytes",
        "parked",
        "rack",
        "reader",
        "service",
        "session",
        "version",
        "wait_ms",
        "whole",
    )

    def __init__(
        self,
        service: FetchService,
        session: Session,
        request: FetchRequest,
        version: int,
        listener: str,
        reader: TopicReader | None,
    ) -> None:
        self.service = service
        self.reader = None if session.is_follower else reader
        """Says which topics the consumer may read; None where it may read all."""
        self.session = session
        self.parked: Parked = DelayedFetchAnswer()
        self.bucket = -1
        self.deadline_ms = 0.0
        self.cold_reads = 0
        self.busy = False
        """Work for it is under way; a read pass follows that."""
        self.busy_with_request = False
        """Its session does not have all yet that the request says."""
        self.wait_ms = max(request.max_wait_ms, 0)
        self.committed = request.isolation_level == READ_COMMITTED
        """Return records only of transactions that have ended."""
        self.leader_only = session.is_follower or version < FOLLOWERS_SERVE_SINCE
        self.max_bytes = min(request.max_bytes, service.response_bytes_max)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.version = version
        self.listener = listener
        self.rack = "" if self.leader_only else request.rack_id
        """The rack of a consumer that may read from followers."""
        self.whole = session.id == NO_SESSION or request.session_epoch <= INITIAL_EPOCH
        """A full fetch: its answer names every partition."""

    def new_read_pass(self, *, whole: bool) -> ReadPass:
        return ReadPass(
            self.committed, whole, self.cold_reads >= self.service.bounds.cold_reads_max
        )

    def on_deadline(self) -> None:
        self.service.on_deadline(self)

    def __repr__(self) -> str:
        return f"ParkedFetch({self.session}, min {self.min_bytes} bytes)"


class DelayedFetchAnswer(Parked):
    """The answer of a fetch that waits for records. Answers to later requests of its connection wait with it,
    as in Kafka, so that ``fetch.min.bytes`` holds. For some seconds after a broker's death it is answered
    when a later answer is ready: clients that ask for metadata and their coordinator on the same connection
    get them at once.

    Fetch and answer refer to each other only while the fetch waits. An answer that kept its fetch would keep
    its records, megabytes each, until the next collection of reference cycles.
    """

    __slots__ = ("_fetch",)

    def __init__(self) -> None:
        super().__init__()
        self._fetch: DelayedFetch | None = None

    def wait_with(self, fetch: DelayedFetch) -> None:
        """`fetch` waits."""
        self._fetch = fetch

    def complete(self, response: Message | None) -> bool:
        self._fetch = None
        return super().complete(response)

    def abandon(self) -> None:
        self._fetch = None
        super().abandon()

    def hurry(self) -> None:
        if self._fetch is not None and self._fetch.service.brokers_died():
            self._fetch.on_deadline()


class FetchService:
    """All fetches of one broker."""

    def __init__(
        self,
        ports: Ports,
        find: Find,
        deadlines: Deadlines,
        slices: CooperativeJobs,
        limits: FetchLimits,
        add_leaders: Callable[[FetchResponse, str, dict[PartitionKey, Partition | None]], None],
        throttle: ReplicationThrottle | None = None,
        selector: RackAwareReplicaSelector | None = None,
        *,
        brokers_died: Callable[[], object] = bool,
    ) -> None:
        """`add_leaders` completes errors about leadership with who leads now (KIP-951). `brokers_died` says
        whether a broker has died within the last seconds."""
        self.brokers_died = brokers_died
        self._throttle = throttle
        self._selector = selector
        self._ports = ports
        self.bounds = ports.bounds.fetch
        self._deadlines = deadlines
        self._slices = slices
        self.response_bytes_max = limits.response_bytes_max
        self._add_leaders = add_leaders
        self._sessions = FetchSessions(ports, find, limits.sessions_max, self._on_drop)
        self.sessions = self._sessions.cache
        self._woken: dict[Session, None] = {}
        self._check_is_due = False
        self._rechecks: dict[Session, None] = {}
        self._cold_reads = itertools.count()

    # -- a request -------------------------------------------------------------------------------

    def fetch(
        self,
        request: FetchRequest,
        version: int,
        listener: str = "",
        reader: TopicReader | None = None,
    ) -> FetchResponse | Parked:
        """Answer, or park until there is enough to tell."""
        sessions = self._sessions
        session = sessions.begin(request, version)
        if isinstance(session, ErrorCode):
            return FetchResponse(error_code=session)
        self._complete_earlier(session)
        if reader is not None and session.access_version != reader.version:
            session.access_version = reader.version
            session.dirty.update(dict.fromkeys(session.partitions.values()))  # all are judged again
        if sum([len(topic.partitions) for topic in request.topics]) > self.bounds.inline_max:
            return self._apply_in_slices(session, request, version, listener, reader)
        sessions.update(session, request.topics)
        sessions.forget(session, request)
        sessions.keep_or_close(session, request)
        fetch = DelayedFetch(self, session, request, version, listener, reader)
        now_ms = self._ports.clock.now_ms()
        if session.is_follower:
            progress = FetchProgress(session, request.replica_state.replica_epoch, now_ms)
            progress.add_named(request.topics)
            progress.end()
        read_pass = self._read_pass(fetch, whole=fetch.whole)
        if self._is_complete(fetch, read_pass):
            return self._response(fetch, read_pass)
        return self._watch(fetch, now_ms + fetch.wait_ms, read_pass)

    def _is_complete(self, fetch: DelayedFetch, read_pass: ReadPass) -> bool:
        return not read_pass.cold and (
            fetch.wait_ms == 0
            or not fetch.session.partitions
            or self._is_satisfied(fetch, read_pass)
        )

    # -- requests and answers of hundreds of partitions ---------------------------------------------

    def _apply_in_slices(
        self,
        session: Session,
        request: FetchRequest,
        version: int,
        listener: str,
        reader: TopicReader | None,
    ) -> Parked:
        """Apply the partitions of a large request, a part per turn of the loop; then read."""
        fetch = DelayedFetch(self, session, request, version, listener, reader)
        parked = fetch.parked = Working(holds=False)
        fetch.busy = fetch.busy_with_request = True
        session.delayed_fetch = fetch
        self._slices.run(self._request_steps(fetch, request), partial(self._fail, fetch), parked)
        return parked

    def _request_steps(self, fetch: DelayedFetch, request: FetchRequest) -> Iterator[None]:
        session, sessions = fetch.session, self._sessions
        for topics in parts_of(request.topics, self.bounds.followed_per_slice):
            if session.delayed_fetch is not fetch:
                return
            sessions.update(session, topics)
            yield
        sessions.forget(session, request)
        sessions.keep_or_close(session, request)
        fetch.whole = fetch.whole or session.id == NO_SESSION
        now_ms = self._ports.clock.now_ms()
        if session.is_follower:
            progress = FetchProgress(session, request.replica_state.replica_epoch, now_ms)
            for topics in parts_of(request.topics, self.bounds.followed_per_slice):
                if session.delayed_fetch is not fetch:
                    return
                progress.add_named(topics)
                yield
            progress.end()
        fetch.busy_with_request = False
        read_pass = fetch.new_read_pass(whole=True) if fetch.whole else self._read_pass(fetch)
        if fetch.whole:
            yield from self._read_pass_steps(fetch, read_pass)
        if session.delayed_fetch is not fetch:
            return
        fetch.busy = False
        if self._is_complete(fetch, read_pass):
            self._unwatch(fetch)
            fetch.parked.complete(self._response(fetch, read_pass))
        else:
            self._watch(fetch, now_ms + fetch.wait_ms, read_pass)

    def _read_pass_steps(self, fetch: DelayedFetch, read_pass: ReadPass) -> Iterator[None]:
        """Read all partitions, a part with each step, and add the answers to `read_pass`."""
        dirty = iter(list(fetch.session.dirty))
        while among := list(islice(dirty, self.bounds.read_per_slice)):
            if fetch.session.delayed_fetch is not fetch:
                return
            self._read_pass(fetch, whole=True, among=among, after=read_pass)
            yield

    def _complete_in_slices(self, fetch: DelayedFetch) -> None:
        """Its full answer is due: what had nothing to tell while it waited is named all the same."""

        def steps() -> Iterator[None]:
            session = fetch.session
            session.dirty.update(dict.fromkeys(session.partitions.values()))
            read_pass = fetch.new_read_pass(whole=True)
            yield from self._read_pass_steps(fetch, read_pass)
            if session.delayed_fetch is not fetch:
                return
            fetch.busy = False
            self._complete(fetch, read_pass)

        fetch.busy = True
        self._slices.run(steps(), partial(self._fail, fetch))

    def _fail(self, fetch: DelayedFetch, error: Exception) -> None:
        self._unwatch(fetch)
        self.sessions.remove(fetch.session.id)
        self._sessions.drop(fetch.session)  # its peer begins another
        if isinstance(fetch.parked, Working):
            fetch.parked.fail(error)
        else:
            raise_soon(self._ports.wakeups, error)
            fetch.parked.complete(FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))

    # -- waiting ---------------------------------------------------------------------------------

    def _is_satisfied(self, fetch: DelayedFetch, read_pass: ReadPass) -> bool:
        return read_pass.urgent or read_pass.is_full or read_pass.size >= fetch.min_bytes

    def _watch(self, fetch: DelayedFetch, deadline_ms: float, read_pass: ReadPass) -> Parked:
        fetch.session.delayed_fetch = fetch
        fetch.deadline_ms = deadline_ms
        if isinstance(fetch.parked, DelayedFetchAnswer):
            fetch.parked.wait_with(fetch)
        if fetch.whole:
            for watched, data in read_pass.answers:
                if not data.records and not has_more(fetch.session, watched):
                    fetch.session.dirty.pop(watched, None)  # until it moves
        if read_pass.cold:
            self._read_cold(fetch, read_pass.cold)
        else:
            self._deadlines.add(fetch, deadline_ms)
        return fetch.parked

    def _complete_earlier(self, session: Session) -> None:
        """A peer that asks again has given up its former request."""
        earlier = session.delayed_fetch
        if earlier is not None:
            session.delayed_fetch = None
            self._deadlines.remove(earlier)
            earlier.parked.complete(FetchResponse(session_id=session.id))

    def _on_drop(self, session: Session) -> None:
        self._complete_earlier(session)
        self._woken.pop(session, None)
        self._rechecks.pop(session, None)

    # -- looking ---------------------------------------------------------------------------------

    def _read_pass(
        self,
        fetch: DelayedFetch,
        *,
        whole: bool = False,
        among: Iterable[Watched] | None = None,
        after: ReadPass | None = None,
    ) -> ReadPass:
        """Read the dirty partitions (or `among` these), within the byte bounds. What
        is found is added to what was found `after` an earlier pass. One that is not `whole` ends when it
        has found enough, or has lasted long enough."""
        session = fetch.session
        read_pass = fetch.new_read_pass(whole=whole) if after is None else after
        answers, is_follower = read_pass.answers, session.is_follower
        reader, left, bounds = fetch.reader, fetch.max_bytes, self.bounds
        if not is_follower and self._ports.network.unsent_bytes > UNSENT_BYTES_TOTAL:
            left = 0  # one batch
        size, throttled = read_pass.size, read_pass.throttled
        left -= size
        throttle = self._throttle if is_follower else None
        if throttle is not None and not throttle.limits_leader:
            throttle = None
        many = not whole and len(session.dirty) > bounds.timed_from
        until_ms = self._ports.clock.now_ms() + READ_PASS_MS_MAX if many else 0.0
        for watched in list(session.dirty) if among is None else among:
            if many and len(answers) >= bounds.timed_from:
                if len(answers) >= bounds.answered_max or self._ports.clock.now_ms() >= until_ms:
                    read_pass.urgent = True  # the others come first next time
                    break
            try:
                if reader is not None:
                    reader.check(watched.key[0])
                partition = watched.partition or self._sessions.bind(watched)
                log = partition.readable_log(watched.leader_epoch, leader_only=fetch.leader_only)
                room, first = left, size == 0
                if is_follower:
                    note_first(watched, partition)
                if throttle is not None and throttle.holds_back(
                    partition, session.follower_id, throttled
                ):
                    room, first = 0, False
                data = redirect(self._selector, fetch, watched, partition, log) or partition_answer(
                    read_pass, watched, partition, log, room, first
                )
                if room < watched.max_bytes and not (first or is_follower):
                    found = data is not None and bool(data.records)
                    read_pass.is_full = read_pass.is_full or (
                        not found and has_more(session, watched)
                    )
            except KafkaError as error:
                data = error_answer(watched, error)
                read_pass.urgent = True
            if data is None:
                if not has_more(session, watched):
                    session.dirty.pop(watched, None)
                continue
            if sent := len(data.records or ()):
                size += sent
                left -= sent
                if throttle is not None and throttle.counts_as_sent(partition):
                    throttled += sent
                if fetch.min_bytes > 1 and log.is_behind(watched.fetch_offset, data.high_watermark):
                    read_pass.urgent = True  # the rest is in another file: waiting does not add it
            elif data.diverging_epoch is not NO_DIVERGENCE or self._brings_high_watermark(
                watched, data
            ):
                read_pass.urgent = True
            answers.append((watched, data))
        read_pass.size, read_pass.throttled = size, throttled
        return read_pass

    def _brings_high_watermark(self, watched: Watched, data: PartitionData) -> bool:
        """Whether an answer without records must not wait: it names a nearer replica, or brings a high
        watermark to a follower that consumers read from."""
        if self._selector is None:
            return False
        if data.preferred_read_replica != NO_REPLICA:
            return True
        is_follower = watched.session.is_follower
        return is_follower and data.high_watermark > watched.sent_high_watermark

    def _response(self, fetch: DelayedFetch, read_pass: ReadPass) -> FetchResponse:
        """The response, and what the session remembers of it."""
        session = fetch.session
        refused: dict[PartitionKey, Partition | None] = {}
        for watched, data in read_pass.answers:
            remember(session, watched, data)
            if data.error_code:
                self._adapt_error(fetch, watched, data, refused)
        if read_pass.throttled and self._throttle is not None:
            self._throttle.sent(read_pass.throttled)
        response = response_of(session, read_pass.answers)
        if session.id == NO_SESSION:
            for watched in session.partitions.values():
                self._sessions.unbind(watched)
        if refused and fetch.version >= LEADERS_SINCE:
            self._add_leaders(response, fetch.listener, refused)
        return response

    def _adapt_error(
        self,
        fetch: DelayedFetch,
        watched: Watched,
        data: PartitionData,
        refused: dict[PartitionKey, Partition | None],
    ) -> None:
        """An error as this version knows it; those about leadership are completed."""
        if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR and fetch.version < STORAGE_SINCE:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if data.error_code in LEADERSHIP:
            refused[watched.key] = watched.partition

    # -- waking ----------------------------------------------------------------------------------

    def check_and_complete(self, session: Session) -> None:
        """One of the delayed fetch's partitions moved. A read pass follows this turn."""
        if session not in self._woken:
            self._woken[session] = None
            if not self._check_is_due:
                self._check_is_due = True
                self._ports.wakeups.call_soon(self._check_woken)

    def _check_woken(self) -> None:
        self._check_is_due = False
        woken, self._woken = self._woken, {}
        now_ms = self._ports.clock.now_ms
        until_ms = now_ms() + SLICE_MS
        left = iter(woken)
        for session in left:
            fetch = session.delayed_fetch
            if fetch is None or fetch.busy:
                continue
            if fetch.min_bytes > 1 and not session.is_follower:
                self._recheck_later(session)
                continue
            self._try_complete(fetch, last=False)
            if now_ms() >= until_ms:
                for other in left:
                    self.check_and_complete(other)

    def _recheck_later(self, session: Session) -> None:
        if not self._rechecks:
            self._ports.wakeups.call_at(self._ports.clock.now_ms() + RECHECK_MS, self._recheck)
        self._rechecks[session] = None

    def _recheck(self) -> None:
        waiting, self._rechecks = self._rechecks, {}
        for session in waiting:
            if session.delayed_fetch is not None and not session.delayed_fetch.busy:
                self._try_complete(session.delayed_fetch, last=False)

    def on_deadline(self, fetch: DelayedFetch) -> None:
        if fetch.session.delayed_fetch is fetch and not fetch.busy:
            self._try_complete(fetch, last=True)

    def _try_complete(self, fetch: DelayedFetch, *, last: bool) -> None:
        try:
            self._complete_if_satisfied(fetch, last=last)
        except Exception as fault:  # noqa: BLE001 - it fails this fetch; the others are read
            self._fail(fetch, fault)

    def _complete_if_satisfied(self, fetch: DelayedFetch, *, last: bool) -> None:
        if fetch.parked.done:  # its connection is gone
            self._unwatch(fetch)
            if fetch.session.id == NO_SESSION:
                self._sessions.drop(fetch.session)
            return
        read_pass = self._read_pass(fetch)
        if not last and not read_pass.cold and not self._is_satisfied(fetch, read_pass):
            return
        if fetch.whole and not read_pass.cold:
            if len(fetch.session.partitions) > self.bounds.inline_max:
                self._deadlines.remove(fetch)
                self._complete_in_slices(fetch)
                return
            # What had nothing to tell while it waited is named all the same.
            session = fetch.session
            session.dirty.update(dict.fromkeys(session.partitions.values()))
            read_pass = self._read_pass(fetch, whole=True)
        self._complete(fetch, read_pass)

    def _complete(self, fetch: DelayedFetch, read_pass: ReadPass) -> None:
        """The answer, unless some of it has to be brought into memory first."""
        if read_pass.cold:
            self._deadlines.remove(fetch)
            self._read_cold(fetch, read_pass.cold)
        else:
            self._unwatch(fetch)
            fetch.parked.complete(self._response(fetch, read_pass))

    def _unwatch(self, fetch: DelayedFetch) -> None:
        self._deadlines.remove(fetch)
        if fetch.session.delayed_fetch is fetch:
            fetch.session.delayed_fetch = None

    def _read_cold(self, fetch: DelayedFetch, cold: Iterable[PendingRead]) -> None:
        """Bring bytes into memory by reading them once where that may block."""
        fetch.busy = True
        fetch.cold_reads += 1
        jobs: dict[str, list[Callable[[], Buffer]]] = {}
        for watched, size, up_to in cold:
            log = None if watched.partition is None else watched.partition.log
            if log is not None:
                with suppress(
                    KafkaError, CorruptLogError, OSError
                ):  # the read pass that follows reports it
                    job = log.read_job(watched.fetch_offset, max(size, 0), up_to=up_to)
                    jobs.setdefault(log.log_dir, []).append(job)
        log_dirs = list(jobs) or [""]
        left = len(log_dirs)

        def read(log_dir: str) -> None:
            for job in jobs.get(log_dir, ()):
                job()

        def done(result: object) -> None:
            nonlocal left
            left -= 1
            if left:
                return
            # The read pass that follows finds an error of the disk again, and reports it.
            fetch.busy = False
            if fetch.session.delayed_fetch is not fetch:
                return
            now_ms = self._ports.clock.now_ms()
            if fetch.deadline_ms > now_ms:
                self._deadlines.add(fetch, fetch.deadline_ms)
            self._try_complete(fetch, last=fetch.deadline_ms <= now_ms)

        lane = next(self._cold_reads) % COLD_READ_QUEUES
        for log_dir in log_dirs:
            self._ports.background.run(f"read {log_dir} {lane}", partial(read, log_dir), done)


def redirect(
    selector: RackAwareReplicaSelector | None,
    fetch: DelayedFetch,
    watched: Watched,
    partition: Partition,
    log: PartitionLog,
) -> PartitionData | None:
    """The answer that names a replica nearer to the consumer, if there is one."""
    if selector is None or not fetch.rack or watched.session.follower_id != CONSUMER:
        return None
    replica = selector.preferred(partition, fetch.rack, fetch.listener, watched.fetch_offset)
    return None if replica == NO_REPLICA else redirect_answer(watched, log, replica)
