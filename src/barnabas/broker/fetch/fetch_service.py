"""Serves fetches: sessions, read passes over their partitions, and fetches that wait for enough to
read.

A fetch reads the dirty partitions of its session. If that gives too little it becomes the session's
delayed fetch, and the next read pass follows when one of the partitions moves: at most once per
turn of the loop, so that one response has all appends of a turn. Reads never block: if the bytes
are not in memory, a background job reads the partition once, and another read pass follows. Every
request, small or large, goes through `_serve`. docs/fetch-path.md has the state diagram,
`FetchState` the states.

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
from typing import NamedTuple, Protocol

from barnabas.broker.cooperative_jobs import CONTINUES, CooperativeJobs, StepResult, take_all
from barnabas.broker.deadlines import Deadlines
from barnabas.broker.fetch.delayed_fetch import DelayedFetch, DelayedFetchAnswer, FetchState
from barnabas.broker.fetch.fetch_read import (
    PendingRead,
    ReadPass,
    Session,
    Watched,
    has_more,
    remember,
    response_of,
)
from barnabas.broker.fetch.fetch_sessions import (
    FetchProgress,
    FetchSessions,
    Find,
    parts_of,
)
from barnabas.broker.fetch.replica_selector import RackAwareReplicaSelector
from barnabas.broker.fetch.session_reader import SessionReader
from barnabas.broker.follower.replication_throttle import ReplicationThrottle
from barnabas.broker.leader_hints import LEADERSHIP
from barnabas.broker.partitions.partition import Partition
from barnabas.limits import SLICE_MS
from barnabas.log.errors import CorruptLogError
from barnabas.ports import Ports, raise_soon
from barnabas.replication.sessions import NO_SESSION, PartitionKey
from barnabas.security.authorization.topic_reader import TopicReader
from barnabas.types import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.messages.fetch_response import FetchResponse, PartitionData
from barnabas.wire.request import Parked, Working

COLD_READ_QUEUES = 4
"""Queues of cold reads per log directory."""
RECHECK_MS = 5.0
"""A fetch with a larger min_bytes is read again this often at most."""
LEADERS_SINCE = 16
STORAGE_SINCE = 6
"""The first version of Fetch whose clients know KAFKA_STORAGE_ERROR; older ones would not retry
it."""
DELAYED, ENDED = FetchState.DELAYED, FetchState.ENDED


class FetchLimits(NamedTuple):
    """Bounds of this broker: response bytes, sessions."""

    response_bytes_max: int
    sessions_max: int


class FetchHost(Protocol):
    """The part of the broker that its fetches need."""

    def add_fetch_leaders(
        self,
        response: FetchResponse,
        listener: str,
        found: dict[PartitionKey, Partition | None],
        /,
    ) -> None:
        """Add the present leaders to errors about leadership (KIP-951)."""

    def brokers_died(self) -> object:
        """Whether a broker has died within the last seconds."""


class FetchService:
    """All fetches of one broker."""

    def __init__(
        self,
        ports: Ports,
        find: Find,
        deadlines: Deadlines,
        jobs: CooperativeJobs,
        limits: FetchLimits,
        host: FetchHost,
        throttle: ReplicationThrottle | None = None,
        selector: RackAwareReplicaSelector | None = None,
    ) -> None:
        self.brokers_died = host.brokers_died
        self._throttle = throttle
        self._ports = ports
        self.bounds = ports.bounds.fetch
        self._deadlines = deadlines
        self._jobs = jobs
        self.response_bytes_max = limits.response_bytes_max
        self._add_leaders = host.add_fetch_leaders
        self._sessions = FetchSessions(ports, find, limits.sessions_max, self._on_drop)
        self.sessions = self._sessions.cache
        self.reads_from_followers = selector is not None
        """Whether consumers may be sent to a follower (KIP-392)."""
        self._reader = SessionReader(ports, self._sessions, throttle, selector)
        self._woken: dict[Session, None] = {}
        self._check_is_due = False
        self._rechecks: dict[Session, None] = {}
        self._cold_reads = itertools.count()

    def validate(self) -> None:
        """Raises AssertionError if a collection has a fetch in a state that it must not have. For
        tests and the simulator, between two turns of the loop."""
        self.sessions.validate()
        for session in (*self.sessions.sessions(), *self._woken, *self._rechecks):
            if session.delayed_fetch is not None:
                session.delayed_fetch.validate()
        assert self._check_is_due or not self._woken, "fetches are woken and not checked"

    # -- a request -------------------------------------------------------------------------------

    def fetch(
        self,
        request: FetchRequest,
        version: int,
        listener: str = "",
        reader: TopicReader | None = None,
    ) -> FetchResponse | Parked | None:
        """Answer the request, or park it until there is enough to read."""
        session = self._sessions.begin(request, version)
        if isinstance(session, ErrorCode):
            return FetchResponse(error_code=session)
        self._complete_earlier(session)
        if reader is not None and session.access_version != reader.version:
            session.access_version = reader.version
            session.dirty.update(
                dict.fromkeys(session.partitions.values())
            )  # check all partitions again
        fetch = DelayedFetch(self, session, request, version, listener, reader)
        if sum([len(topic.partitions) for topic in request.topics]) <= self.bounds.inline_max:
            return take_all(self._serve(fetch, request, None))
        fetch.parked = parked = Working(holds=False)
        session.delayed_fetch = fetch
        steps = self._serve(fetch, request, self.bounds.followed_per_slice)
        on_error = partial(self._fail, fetch)
        return self._jobs.answer(steps, at_once=False, parked=parked, on_error=on_error)

    def _serve(
        self, fetch: DelayedFetch, request: FetchRequest, per_step: int | None
    ) -> Iterator[FetchResponse | Parked | StepResult | None]:
        """Apply the request to its session, `per_step` partitions with each step (None: in one
        step), and read. Returns the answer, or the parked answer; None if the fetch was cancelled
        between two steps."""
        session, sessions = fetch.session, self._sessions
        for topics in parts_of(request.topics, per_step):
            if fetch.state is ENDED:
                yield None
                return
            sessions.update(session, topics)
            yield CONTINUES
        sessions.forget(session, request)
        sessions.keep_or_close(session, request)
        fetch.whole = fetch.whole or session.id == NO_SESSION
        now_ms = self._ports.clock.now_ms()
        if session.is_follower:
            progress = FetchProgress(session, request.replica_state.replica_epoch, now_ms)
            for topics in parts_of(request.topics, per_step):
                if fetch.state is ENDED:
                    yield None
                    return
                progress.add_named(topics)
                yield CONTINUES
            progress.end()
        if fetch.whole:
            if per_step is not None:
                fetch.enter(FetchState.READING)
            read_pass = fetch.new_read_pass(whole=True)
            for _ in self._reader.read_all(fetch, read_pass):
                yield CONTINUES
        else:
            read_pass = self._reader.read_news(fetch)
        if fetch.state is ENDED:
            yield None
        elif read_pass.cold or not (
            fetch.wait_ms == 0 or not session.partitions or self._is_satisfied(fetch, read_pass)
        ):
            yield self._watch(fetch, now_ms + fetch.wait_ms, read_pass)
        else:
            if session.delayed_fetch is fetch:
                self._end(fetch)
            yield self._response(fetch, read_pass)

    def _fail(self, fetch: DelayedFetch, error: Exception) -> None:
        if fetch.state is not ENDED:
            self._end(fetch)
        self.sessions.remove(fetch.session.id)
        self._sessions.drop(fetch.session)  # its peer begins another session
        if isinstance(fetch.parked, Working):
            fetch.parked.fail(error)
        else:
            raise_soon(self._ports.wakeups, error)
            fetch.parked.complete(FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))

    # -- waiting ---------------------------------------------------------------------------------

    def _is_satisfied(self, fetch: DelayedFetch, read_pass: ReadPass) -> bool:
        return read_pass.urgent or read_pass.is_full or read_pass.size >= fetch.min_bytes

    def _watch(self, fetch: DelayedFetch, deadline_ms: float, read_pass: ReadPass) -> Parked:
        fetch.deadline_ms = deadline_ms
        if fetch.session.delayed_fetch is not fetch:  # it arrived in this turn
            fetch.parked = DelayedFetchAnswer(fetch)
            fetch.session.delayed_fetch = fetch
        if fetch.whole:
            for watched, data in read_pass.answers:
                if not data.records and not has_more(fetch.session, watched):
                    fetch.session.dirty.pop(watched, None)  # it is clean until it moves
        if read_pass.cold:
            self._read_cold(fetch, read_pass.cold)
        else:
            fetch.enter(DELAYED)
            self._deadlines.add(fetch, deadline_ms)
        return fetch.parked

    def _complete_earlier(self, session: Session) -> None:
        """Complete the session's delayed fetch: a peer that asks again has given it up."""
        earlier = session.delayed_fetch
        if earlier is not None:
            self._end(earlier)
            earlier.parked.complete(FetchResponse(session_id=session.id))

    def _on_drop(self, session: Session) -> None:
        self._complete_earlier(session)
        self._woken.pop(session, None)
        self._rechecks.pop(session, None)

    # -- the answer ------------------------------------------------------------------------------

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
        """Translate an error into one that the request's version knows, and add the leader to
        errors about leadership."""
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
            if fetch is None or fetch.state is not DELAYED:
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
            fetch = session.delayed_fetch
            if fetch is not None and fetch.state is DELAYED:
                self._try_complete(fetch, last=False)

    def on_deadline(self, fetch: DelayedFetch) -> None:
        if fetch.state is DELAYED:
            self._try_complete(fetch, last=True)

    def _try_complete(self, fetch: DelayedFetch, *, last: bool) -> None:
        try:
            self._complete_if_satisfied(fetch, last=last)
        except Exception as fault:  # noqa: BLE001 - it fails this fetch; the others are read
            self._fail(fetch, fault)

    def _complete_if_satisfied(self, fetch: DelayedFetch, *, last: bool) -> None:
        if fetch.parked.done:  # its connection is gone
            self._end(fetch)
            if fetch.session.id == NO_SESSION:
                self._sessions.drop(fetch.session)
            return
        read_pass = self._reader.read_news(fetch)
        if not last and not read_pass.cold and not self._is_satisfied(fetch, read_pass):
            return
        if read_pass.cold or not fetch.whole:
            self._complete(fetch, read_pass)
            return
        self._deadlines.remove(fetch)
        fetch.enter(FetchState.READING)
        steps = self._complete_whole(fetch)
        if len(fetch.session.partitions) <= self.bounds.inline_max:
            for _ in steps:
                pass
        else:
            self._jobs.run(steps, partial(self._fail, fetch))

    def _complete_whole(self, fetch: DelayedFetch) -> Iterator[None]:
        """Complete a full fetch: its answer also names partitions that did not move while it
        waited."""
        session = fetch.session
        session.dirty.update(dict.fromkeys(session.partitions.values()))
        read_pass = fetch.new_read_pass(whole=True)
        yield from self._reader.read_all(fetch, read_pass)
        if fetch.state is not ENDED:
            self._complete(fetch, read_pass)

    def _complete(self, fetch: DelayedFetch, read_pass: ReadPass) -> None:
        """Answer the fetch, unless some of its bytes have to be read from the disk first."""
        if read_pass.cold:
            self._deadlines.remove(fetch)
            self._read_cold(fetch, read_pass.cold)
        else:
            self._end(fetch)
            fetch.parked.complete(self._response(fetch, read_pass))

    def _end(self, fetch: DelayedFetch) -> None:
        fetch.enter(ENDED)
        self._deadlines.remove(fetch)
        if fetch.session.delayed_fetch is fetch:
            fetch.session.delayed_fetch = None

    def _read_cold(self, fetch: DelayedFetch, cold: Iterable[PendingRead]) -> None:
        """Bring bytes into memory: read them once on another thread."""
        fetch.enter(FetchState.READING_COLD)
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
            if fetch.state is ENDED:
                return
            # The read pass that follows finds an error of the disk again, and reports it.
            fetch.enter(DELAYED)
            now_ms = self._ports.clock.now_ms()
            if fetch.deadline_ms > now_ms:
                self._deadlines.add(fetch, fetch.deadline_ms)
            self._try_complete(fetch, last=fetch.deadline_ms <= now_ms)

        lane = next(self._cold_reads) % COLD_READ_QUEUES
        for log_dir in log_dirs:
            self._ports.background.run(f"read {log_dir} {lane}", partial(read, log_dir), done)
