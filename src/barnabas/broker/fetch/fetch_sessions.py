"""Fetch sessions: the partitions that each one watches, and the progress of followers that requests
prove.

A request opens a session or continues one, names partitions and forgets others; a follower's request also
says how far it has read. A request that names hundreds is handled in parts (:meth:`FetchSessions.update`
and :meth:`FetchProgress.add_named`), in the order of the request.

Behaviour: Kafka's FetchSession; KIP-227 (sessions), KIP-903 (broker epochs).

Source: Kafka's ``FetchManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from barnabas.broker.fetch.fetch_read import Session, Watched
from barnabas.broker.partitions.partition import Partition
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
from barnabas.wire.messages.fetch_request import (
    FetchRequest,
    FetchTopic,
)

Find = Callable[[PartitionKey], tuple[Partition | None, ErrorCode]]
"""The replica here for (topic id or name, index), or why there is none."""


class FetchSessions:
    """All sessions of one broker. `on_drop` gets each session that is over."""

    def __init__(
        self, ports: Ports, find: Find, slots: int, on_drop: Callable[[Session], None]
    ) -> None:
        self._ports = ports
        self._find = find
        self._on_drop = on_drop
        self._rng: Rng = ports.rng("fetch.sessions")
        self.cache: SessionCache[Partition] = SessionCache(
            slots, ports.bounds.fetch.session_eviction_ms_min
        )

    # -- a request -------------------------------------------------------------------------------

    def begin(self, request: FetchRequest, version: int) -> Session | ErrorCode:
        """The session of `request`, before the request is applied; `update`, `forget` and
        `keep_or_close` apply it."""
        uses_ids = version >= 13
        epoch = request.session_epoch
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id != NO_SESSION:
                self.drop(self.cache.remove(request.session_id))
            now_ms = self._ports.clock.now_ms()
            return FetchSession(replica_of(request), uses_ids=uses_ids, now_ms=now_ms)
        session = self.cache.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch or (
            session.delayed_fetch is not None and session.delayed_fetch.is_applying
        ):
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_ids != uses_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = next_epoch(epoch)
        return session

    def update(self, session: Session, topics: Iterable[FetchTopic]) -> None:
        """Apply the partitions that the request names."""
        uses_ids = session.uses_ids
        for topic in topics:
            topic_key = topic.topic_id if uses_ids else topic.topic
            for wanted in topic.partitions:
                key = (topic_key, wanted.partition)
                watched = session.partitions.get(key)
                if watched is None:
                    watched = SessionPartition(session, key, topic.topic)
                    session.partitions[key] = watched
                    try:
                        self.bind(watched)
                    except KafkaError:
                        pass  # the read pass reports it
                if (
                    wanted.current_leader_epoch != watched.leader_epoch
                    or wanted.fetch_offset < watched.fetch_offset
                ):
                    # The peer may have ignored the last answer as one to an older request.
                    watched.sent_high_watermark = watched.sent_log_start = -1
                watched.fetch_offset = wanted.fetch_offset
                watched.max_bytes = wanted.partition_max_bytes
                watched.leader_epoch = wanted.current_leader_epoch
                watched.last_fetched_epoch = wanted.last_fetched_epoch
                watched.log_start_offset = wanted.log_start_offset
                session.dirty[watched] = None

    def forget(self, session: Session, request: FetchRequest) -> None:
        """Remove the partitions that an incremental request forgets. Like Kafka, ignore the list in
        a full request."""
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            return
        for forgotten in request.forgotten_topics_data:
            topic_key = forgotten.topic_id if session.uses_ids else forgotten.topic
            for index in forgotten.partitions:
                gone = session.drop((topic_key, index))
                if gone is not None:
                    self.unbind(gone)

    def keep_or_close(self, session: Session, request: FetchRequest) -> None:
        """The request is applied: keep a new session, and end one without partitions."""
        now_ms = self._ports.clock.now_ms()
        if session.id != NO_SESSION:
            if not session.partitions:
                # The request forgot every partition: the session ends (the response has id 0).
                self.cache.remove(session.id)
                session.id = NO_SESSION
        elif request.session_epoch == INITIAL_EPOCH and session.partitions:
            for _ in range(8):
                kept, displaced = self.cache.add(
                    session, self._rng.randrange(1, 0x7FFFFFFF), now_ms
                )
                if displaced is not None:
                    self.drop(displaced)
                if kept:
                    break
        self.cache.touch(session, now_ms)

    # -- watching --------------------------------------------------------------------------------

    def bind(self, watched: Watched) -> Partition:
        """Find the replica and subscribe to its moves. Raises KafkaError if there is none here."""
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

    def unbind(self, watched: Watched) -> None:
        partition = watched.partition
        if partition is not None:
            if watched.session.is_follower:
                partition.append_watchers.pop(watched, None)
            else:
                partition.high_watermark_watchers.pop(watched, None)
            watched.partition = watched.follower = None

    def drop(self, session: Session | None) -> None:
        """The session is over: no partition marks it dirty any more."""
        if session is None:
            return
        self._on_drop(session)
        for watched in session.partitions.values():
            self.unbind(watched)
        session.dirty.clear()


class FetchProgress:
    """The progress that one request of a follower proves. The follower moved in each partition that
    the request names, and stayed where it was in dirty partitions that it does not name."""

    __slots__ = ("_broker_epoch", "_named", "_now_ms", "_registered_again", "_session")

    def __init__(self, session: Session, broker_epoch: int, now_ms: float) -> None:
        self._session = session
        self._broker_epoch = broker_epoch
        self._now_ms = now_ms
        self._registered_again = broker_epoch != session.broker_epoch
        self._named: set[PartitionKey] = set()
        session.broker_epoch = broker_epoch

    def add_named(self, topics: Iterable[FetchTopic]) -> None:
        """Note the partitions that the request names."""
        session = self._session
        for topic in topics:
            topic_key = topic.topic_id if session.uses_ids else topic.topic
            for wanted in topic.partitions:
                key = (topic_key, wanted.partition)
                self._named.add(key)
                watched = session.partitions.get(key)
                if watched is not None:  # else one request names and forgets it
                    update_follower_state(watched, self._broker_epoch)

    def end(self) -> None:
        """All named partitions are noted: note the others."""
        session = self._session
        if self._registered_again:
            note_registration(session, self._broker_epoch, self._named)
        for watched in list(session.dirty):
            partition, follower = watched.partition, watched.follower
            if watched.key in self._named or partition is None or follower is None:
                continue
            if partition.leader is not None and partition.log is not None:
                partition.leader.touch(follower, partition.log.log_end_offset, self._now_ms)


def note_registration(session: Session, broker_epoch: int, named: set[PartitionKey]) -> None:
    """Note that the same process registered again, which removed it from every ISR. Its fetch
    offsets are in the session, even those of idle partitions, which it would never name again (seed
    100)."""
    for watched in session.partitions.values():
        if watched.key not in named:
            update_follower_state(watched, broker_epoch)


def note_first(watched: Watched, partition: Partition) -> None:
    """Take the follower's fetch offset from the session: it named the partition before the replica
    was found or this leadership began. Raises UNKNOWN_LEADER_EPOCH if it is not among the
    partition's followers (the metadata here may lag), NOT_LEADER_OR_FOLLOWER if it sent no leader
    epoch."""
    follower = watched.follower
    if follower is None:
        if watched.leader_epoch < 0:
            raise partition.not_leader()
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{watched.session.follower_id} has no replica of {partition.name} in epoch"
            f" {watched.leader_epoch}",
        )
    if follower.log_end_offset == UNKNOWN:
        update_follower_state(watched, watched.session.broker_epoch)


def update_follower_state(watched: Watched, broker_epoch: int) -> None:
    """Note the follower's fetch offset, unless its fetch would be answered by an error or a
    divergence."""
    partition, follower = watched.partition, watched.follower
    if partition is None or follower is None or 0 <= broker_epoch < follower.broker_epoch:
        return
    try:
        log = partition.readable_log(watched.leader_epoch, leader_only=True)
        if partition.diverging_epoch(watched.last_fetched_epoch, watched.fetch_offset):
            return
    except KafkaError:
        return  # the read pass reports it
    if log.log_start_offset <= watched.fetch_offset <= log.log_end_offset:
        partition.on_follower_fetch(follower, watched, broker_epoch)


def replica_of(request: FetchRequest) -> int:
    """The id of the broker that fetches, -1 for a consumer, -2 for a debugging consumer. KIP-903
    moved the field."""
    return request.replica_state.replica_id if request.replica_id == -1 else request.replica_id


def parts_of(topics: Sequence[FetchTopic], most: int | None) -> Iterable[Sequence[FetchTopic]]:
    """The topics in parts of at most `most` partitions; None: in one part."""
    return (topics,) if most is None else _parts_of(topics, most)


def _parts_of(topics: Iterable[FetchTopic], most: int) -> Iterator[list[FetchTopic]]:
    for topic in topics:
        partitions = iter(topic.partitions)
        while taken := list(islice(partitions, most)):
            yield [FetchTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=taken)]
