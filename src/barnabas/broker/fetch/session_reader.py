"""Reads a session's partitions for its fetch: those that moved, or all.

Reads never block: :mod:`barnabas.broker.fetch.fetch_read` notes bytes that are not in memory as cold. A byte
bound limits the answer, and the leader's throttle what followers get. An incremental answer also has a bound
of time; a full one names every partition, read a part with each step.

Source: Kafka's ``ReplicaManager.readFromLog``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from barnabas.broker.fetch.delayed_fetch import DelayedFetch, FetchState
from barnabas.broker.fetch.fetch_read import (
    NO_DIVERGENCE,
    ReadPass,
    Watched,
    error_answer,
    has_more,
    partition_answer,
    redirect_answer,
)
from barnabas.broker.fetch.fetch_sessions import FetchSessions, note_first
from barnabas.broker.fetch.replica_selector import NO_REPLICA, RackAwareReplicaSelector
from barnabas.broker.follower.replication_throttle import ReplicationThrottle
from barnabas.broker.partitions.partition import Partition
from barnabas.limits import UNSENT_BYTES_TOTAL
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.ports import Ports
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.fetch_response import PartitionData

CONSUMER = -1
"""The replica id of a consumer."""
READ_PASS_MS_MAX = 3.0
"""Time after which an answer that covers `FetchBounds.timed_from` partitions takes no more."""


class SessionReader:
    """The reads of all fetches of one broker."""

    def __init__(
        self,
        ports: Ports,
        sessions: FetchSessions,
        throttle: ReplicationThrottle | None,
        selector: RackAwareReplicaSelector | None,
    ) -> None:
        self._ports = ports
        self._bounds = ports.bounds.fetch
        self._sessions = sessions
        self._throttle = throttle
        self._selector = selector

    def read_news(self, fetch: DelayedFetch) -> ReadPass:
        """Read the dirty partitions: all of them if they are few, else until the answer covers
        enough or has taken too long."""
        read_pass = fetch.new_read_pass(whole=False)
        dirty = list(fetch.session.dirty)
        is_bounded = len(dirty) > self._bounds.timed_from
        self._read(fetch, read_pass, self._bounded(read_pass, dirty) if is_bounded else dirty)
        return read_pass

    def _bounded(self, read_pass: ReadPass, dirty: Iterable[Watched]) -> Iterator[Watched]:
        """The dirty partitions that the answer has room and time for."""
        bounds, now_ms = self._bounds, self._ports.clock.now_ms
        answers, until_ms = read_pass.answers, now_ms() + READ_PASS_MS_MAX
        for watched in dirty:
            if len(answers) >= bounds.timed_from and (
                len(answers) >= bounds.answered_max or now_ms() >= until_ms
            ):
                read_pass.urgent = True  # the next answer begins with the others
                return
            yield watched

    def read_all(self, fetch: DelayedFetch, read_pass: ReadPass) -> Iterator[None]:
        """Read all partitions for an answer that names each of them, a part with each step."""
        dirty = iter(list(fetch.session.dirty))
        while some := list(islice(dirty, self._bounds.read_per_slice)):
            if fetch.state is FetchState.ENDED:
                return
            self._read(fetch, read_pass, some)
            yield

    def _read(
        self, fetch: DelayedFetch, read_pass: ReadPass, partitions: Iterable[Watched]
    ) -> None:
        """Read `partitions` within the byte bounds, and add to `read_pass` what there is to tell."""
        session, reader = fetch.session, fetch.reader
        answers, is_follower, left = read_pass.answers, session.is_follower, fetch.max_bytes
        if not is_follower and self._ports.network.unsent_bytes > UNSENT_BYTES_TOTAL:
            left = 0  # at least one batch
        size, throttled = read_pass.size, read_pass.throttled
        left -= size
        throttle = self._throttle if is_follower else None
        if throttle is not None and not throttle.limits_leader:
            throttle = None
        for watched in partitions:
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
                    read_pass.urgent = (
                        True  # the rest is in another file, and waiting would not add it
                    )
            elif data.diverging_epoch is not NO_DIVERGENCE or self._brings_high_watermark(
                watched, data
            ):
                read_pass.urgent = True
            answers.append((watched, data))
        read_pass.size, read_pass.throttled = size, throttled

    def _brings_high_watermark(self, watched: Watched, data: PartitionData) -> bool:
        """Whether an answer without records must not wait: it names a nearer replica, or carries a
        high watermark to a follower that consumers read from."""
        if self._selector is None:
            return False
        if data.preferred_read_replica != NO_REPLICA:
            return True
        is_follower = watched.session.is_follower
        return is_follower and data.high_watermark > watched.sent_high_watermark


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
