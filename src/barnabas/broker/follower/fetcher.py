"""Replicates partitions from one leader: one fetch session, one request in flight.

A :class:`Fetcher` follows some of the partitions that one broker leads. Its request names only the
partitions that moved since the last one (an incremental fetch session). One response has the records of all
partitions; the fetcher appends them and sends the next request in the same turn. :class:`FetcherPool` has one
or several fetchers per leader (``num.replica.fetchers``).

Behaviour: as Kafka's AbstractFetcherThread and ReplicaFetcherThread. A partition with an error waits
`replica.fetch.backoff.ms` while the others continue; a partition whose leader epoch is fenced waits for newer
metadata.

Source: Kafka's ``ReplicaFetcherThread``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from barnabas.broker.controller_client.controller_channel import Sender
from barnabas.broker.follower.fetch_plan import FetchPlan, Key
from barnabas.broker.follower.offset_out_of_range import OutOfRangeResolver
from barnabas.broker.follower.replication_throttle import ReplicationThrottle
from barnabas.broker.partitions.partition import Partition
from barnabas.client.network.connection import ChannelError
from barnabas.config.settings import ReplicationSettings
from barnabas.limits import SLICE_MS
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.ports import Ports, Wakeup
from barnabas.record.batch import CorruptBatchError
from barnabas.replication.follower import (
    FollowerPhase,
    FollowerState,
    truncation_offset,
)
from barnabas.replication.sessions import WantedPartition
from barnabas.types import Endpoint, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.fetch_response import FetchResponse, PartitionData

LOST_RETRY_MS = 50.0
"""Wait after the first lost connection; each further loss doubles it, up to `replica.fetch.backoff.ms`. It is
short because a connection may be reset while its leader lives."""
LEADER_UNKNOWN_RETRY_MS = 50.0
"""Wait for a leader that has not replayed the metadata of its leadership yet."""
LEADER_LAGS = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors of a leader whose metadata are older than this follower's."""

FETCHED_SOON = frozenset({FollowerPhase.FETCHING, FollowerPhase.DELAYED})
"""Phases of partitions that are fetched as soon as their leader can be asked."""
NO_MORE_PARTS: tuple[Key, PartitionData | None] = (Uuid(bytes(16)), -1), None


class Followed(NamedTuple):
    partition: Partition
    state: FollowerState


class FetcherContext(NamedTuple):
    """The parts that all fetchers of one broker share."""

    ports: Ports
    channels: Sender
    node_id: int
    settings: ReplicationSettings
    broker_epoch: Callable[[], int]
    endpoint_of: Callable[[int], Endpoint | None]
    """The address of another broker's inter-broker listener; None while that is unknown."""
    on_lost: Callable[[int], None] = lambda leader: None
    """Called when the connection to a leader ended."""
    on_reached: Callable[[int], None] = lambda leader: None
    """Called when a leader answers again after `on_lost`."""
    throttle: ReplicationThrottle | None = None


class Fetcher:
    """The partitions that this broker follows from one leader, or a share of them."""

    def __init__(
        self,
        context: FetcherContext,
        leader: int,
        number: int | str,
        *,
        wait_ms_max: Callable[[], int] | None = None,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        """`wait_ms_max`: how long the leader may keep the next request (None: as configured). `on_answer` is
        called before the next request is planned."""
        self.context = context
        self._wait_ms_max = wait_ms_max or (lambda: context.settings.fetch_wait_ms_max)
        self._on_answer = on_answer
        self.leader = leader
        self.purpose = f"fetch-{number}"
        self.followed: dict[Key, Followed] = {}
        """All partitions of this fetcher, in every phase."""
        self._plan = FetchPlan(context.settings, context.ports.bounds.follower.named_max)
        """The requests. `wanted` has all and only partitions in phase FETCHING."""
        self._out_of_range = OutOfRangeResolver(
            context.ports, context.channels, context.node_id, context.settings.fetch_backoff_ms
        )
        self._delayed: dict[Key, None] = {}
        """All and only partitions in phase DELAYED."""
        self._unflushed: dict[Key, None] = {}
        """All and only partitions whose state `awaits_flush`: ``flush.messages`` demands that their
        records are synced first. The next fetch would acknowledge these records to the leader, so
        it waits (Kafka's fetcher syncs within the append)."""
        self.is_in_flight = False
        """Whether a request is under way (the leader keeps it while there is nothing new), or its
        response is being appended."""
        self._wakeup: Wakeup | None = None
        self._endpoint: Endpoint | None = None
        self._closed = False
        self._lost = False
        self._losses = 0
        self.rounds = 0

    def validate(self) -> None:
        """Raises AssertionError if a collection does not have exactly the partitions that its
        docstring says."""
        phases = {key: followed.state.phase for key, followed in self.followed.items()}
        fetching = {key for key, phase in phases.items() if phase is FollowerPhase.FETCHING}
        delayed = {key for key, phase in phases.items() if phase is FollowerPhase.DELAYED}
        unflushed = {key for key, followed in self.followed.items() if followed.state.awaits_flush}
        assert self._plan.wanted.keys() == fetching, f"{self} plans others than {fetching}"
        assert self._delayed.keys() == delayed, f"{self} delays others than {delayed}"
        assert self._unflushed.keys() == unflushed, f"{self} has unflushed others than {unflushed}"

    # -- which partitions ------------------------------------------------------------------------

    def add(self, partition: Partition) -> None:
        """Follow `partition` in its present leader epoch, from its log's end."""
        log = partition.log
        if log is None:
            return
        is_ready = _keep_committed(partition, log)
        state = FollowerState(partition.leader_epoch, log.log_end_offset, log.last_epoch)
        key = (partition.topic_id, partition.index)
        followed = self.followed[key] = Followed(partition, state)
        self._delayed.pop(key, None)
        self._plan.add(key, _wanted(partition, state))
        self._unflushed.pop(key, None)
        if _is_unflushed(partition):  # this broker led it until now
            state.awaits_flush = True
            self._unflushed[key] = None
        if not is_ready:
            self._delay(key, followed, self.context.settings.fetch_backoff_ms)

    def remove(self, key: Key) -> None:
        if self.followed.pop(key, None) is not None:
            self._plan.remove(key)
            self._delayed.pop(key, None)
            self._unflushed.pop(key, None)

    def hand_over(self, target: Fetcher, keys: Iterable[Key] | None = None) -> list[Key]:
        """Move partitions in phase FETCHING to `target`, a fetcher of the same leader. Data for them that is
        in flight is dropped on arrival. `keys`: only these partitions. Returns the keys that moved.

        Partitions that the request in flight names stay: `target` uses another connection, so the leader
        could read this older request after the newer one and take its offsets for the newest."""
        moved = []
        for key in list(self.followed) if keys is None else keys:
            followed = self.followed[key]
            waits = followed.state.awaits_flush or key in self._plan.named
            if followed.state.phase is FollowerPhase.FETCHING and not waits:
                self.remove(key)
                target.take_over(key, followed)
                moved.append(key)
        return moved

    def take_over(self, key: Key, followed: Followed) -> None:
        """Continue a partition that another fetcher handed over."""
        self.followed[key] = followed
        self._plan.add(key, _wanted(*followed))

    def on_flushed(self, key: Key) -> None:
        """A sync of this partition's log ended: fetch again if it was the last that the fetch waits for."""
        if key in self._unflushed and not _is_unflushed(self.followed[key].partition):
            del self._unflushed[key]
            self.followed[key].state.awaits_flush = False
            self.maybe_fetch()

    def _enter(self, key: Key, followed: Followed, phase: FollowerPhase) -> None:
        """Change a partition's phase, and keep the collections by phase in step. Every change goes
        through here."""
        assert self.followed.get(key) is followed, f"{followed.partition.name} is not followed"
        followed.state.enter(phase)
        if phase is FollowerPhase.FETCHING:
            self._plan.add(key, _wanted(*followed))
        else:
            self._plan.remove(key)
        if phase is FollowerPhase.DELAYED:
            self._delayed[key] = None
        else:
            self._delayed.pop(key, None)

    def _delay(self, key: Key, followed: Followed, ms: float) -> None:
        if self.followed.get(key) is followed:  # else this turn has removed it
            followed.state.delay(self.context.ports.clock.now_ms() + ms)
            self._enter(key, followed, FollowerPhase.DELAYED)

    def _fail(self, key: Key, followed: Followed, why: str) -> None:
        """Stop fetching this partition until the metadata name a leader again."""
        if self.followed.get(key) is followed and followed.state.phase is not FollowerPhase.FAILED:
            self._enter(key, followed, FollowerPhase.FAILED)
        name = followed.partition.name if key in self.followed else key
        self.context.ports.log("warning", "fetcher.partition_failed", partition=str(name), why=why)

    def on_start_moved(self, key: Key) -> None:
        """Retention deleted a log's first records: the next request reports the new start to its leader."""
        if key in self._plan.wanted:
            self._plan.add(key, _wanted(*self.followed[key]))

    def retry_now(self) -> None:
        """Forget the delays and fetch now: the leader may have recovered."""
        for key in self._delayed:
            self.followed[key].state.delayed_until_ms = 0.0
        self.maybe_fetch()

    # -- a round ---------------------------------------------------------------------------------

    def maybe_fetch(self) -> None:
        """Send the next request, unless one is in flight, a sync is awaited, or no partition is ready."""
        if self.is_in_flight or self._closed or self._unflushed:
            return
        self._delay_throttled()
        if self._delayed:
            self._end_delays()
        if not self._plan.wanted:
            return
        endpoint = self.context.endpoint_of(self.leader)
        if endpoint is None:
            self._schedule(self.context.ports.clock.now_ms() + LEADER_UNKNOWN_RETRY_MS)
            return
        if endpoint != self._endpoint:
            self._plan.forget()
            self._endpoint = endpoint
        self.is_in_flight = True
        self.rounds += 1
        settings = self.context.settings
        self.context.channels.send(
            endpoint,
            self._plan.next_request(
                self.context.node_id, self.context.broker_epoch(), self._wait_ms_max()
            ),
            self._on_response,
            timeout_ms=max(settings.socket_timeout_ms, settings.fetch_wait_ms_max + 1000),
            purpose=self.purpose,
        )

    def _on_response(self, response: FetchResponse | ChannelError) -> None:
        if self._closed:
            self.is_in_flight = False
        elif isinstance(response, ChannelError):
            self.is_in_flight = False
            self._plan.end_round()
            self._on_leader_lost(response)
            self.maybe_fetch()
        elif response.error_code:
            self._losses = 0
            self._on_session_error(code_of(response.error_code))
            self._finish_round()
        else:
            self._losses = 0
            if self._lost:
                self._lost = False
                self.context.on_reached(self.leader)
            self._plan.on_answer(response.session_id)
            self._process_partitions(_parts_of(response))

    def _process_partitions(self, parts: Iterator[tuple[Key, PartitionData]]) -> None:
        """Append a response's records, a bounded number of partitions per turn of the loop. The request
        counts as in flight until the last partition is processed."""
        if self._closed:
            return
        now_ms = self.context.ports.clock.now_ms
        until_ms = now_ms() + SLICE_MS
        bounds = self.context.ports.bounds.follower
        for taken in range(bounds.appended_max):
            if taken >= bounds.timed_from and now_ms() >= until_ms:
                break
            key, data = next(parts, NO_MORE_PARTS)
            if data is None:
                self._finish_round()
                return
            followed = self.followed.get(key)
            if followed is None:
                continue
            try:
                self._process_partition(key, followed, data)
            except Exception as error:  # a bug: raise it, and let other partitions continue
                self._fail(key, followed, repr(error))
                self.context.ports.wakeups.call_soon(partial(self._process_partitions, parts))
                raise
        self.context.ports.wakeups.call_soon(partial(self._process_partitions, parts))

    def _finish_round(self) -> None:
        if self._closed:
            return  # an append failed with its log directory, and the pool closed this fetcher
        self.is_in_flight = False
        self._plan.end_round()
        self._on_answer()
        self.maybe_fetch()

    def _on_leader_lost(self, error: ChannelError) -> None:
        """The connection failed: back off, and start a new session with a full request."""
        self.context.ports.log("info", "fetcher.leader_lost", leader=self.leader, error=str(error))
        self._lost = True
        self.context.on_lost(self.leader)
        self._plan.forget()
        backoff = min(
            LOST_RETRY_MS * 2 ** min(self._losses, 10), self.context.settings.fetch_backoff_ms
        )
        self._losses += 1
        for key, followed in self.followed.items():
            if followed.state.phase in FETCHED_SOON:
                self._delay(key, followed, backoff)

    def _on_session_error(self, code: ErrorCode) -> None:
        self.context.ports.log("info", "fetcher.session_error", leader=self.leader, error=code.name)
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._plan.forget()
            return
        self._plan.reset()
        if code not in (
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ):
            for key, followed in self.followed.items():
                if followed.state.phase in FETCHED_SOON:
                    self._delay(key, followed, self.context.settings.fetch_backoff_ms)

    # -- one partition's answer ------------------------------------------------------------------

    def _process_partition(self, key: Key, followed: Followed, data: PartitionData) -> None:
        partition, state = followed
        asked = self._plan.asked(key)
        if (
            asked is None
            or state.phase is not FollowerPhase.FETCHING
            or asked.fetch_offset != state.fetch_offset
            or asked.leader_epoch != state.leader_epoch
            or partition.log is None
        ):
            return  # the position or leader epoch changed since the request was sent
        try:
            if data.error_code:
                self._on_partition_error(key, followed, code_of(data.error_code))
            elif data.diverging_epoch.epoch >= 0:
                self._truncate(key, followed, data)
            else:
                self._append(key, followed, data)
        except KafkaError as error:
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR and not partition.is_online:
                self._fail(key, followed, str(error))
            else:
                self._on_corrupt_data(key, followed, error)
        except CorruptBatchError as error:
            self._on_corrupt_data(key, followed, error)

    def _on_corrupt_data(self, key: Key, followed: Followed, error: Exception) -> None:
        """The records cannot be appended: fetch again from the log's end after a backoff."""
        partition, state = followed
        self.context.ports.log(
            "error", "fetcher.bad_data", partition=str(partition.name), error=str(error)
        )
        if partition.log is not None:
            state.moved_to(partition.log.log_end_offset, partition.log.last_epoch)
        self._delay(key, followed, self.context.settings.fetch_backoff_ms)

    def _append(self, key: Key, followed: Followed, data: PartitionData) -> None:
        partition, state = followed
        records = data.records
        log = partition.log
        assert log is not None
        end = log.log_end_offset
        if (
            data.log_start_offset == end > log.log_start_offset
            and log.last_written_epoch != partition.leader_epoch
        ):
            # The leader's log starts where this one ends, so it has no epoch to compare these
            # records with: they may come from a deposed leader. Replace them by an empty log that
            # starts here (seed 634424).
            partition.start_over_at(end)
        if records:
            assert not isinstance(records, list)
            try:
                partition.append_as_follower(records)
            finally:
                if _is_unflushed(partition) and self.followed.get(key) is followed:
                    state.awaits_flush = True
                    self._unflushed[key] = None
            if self.context.throttle is not None:
                self.context.throttle.fetched(partition, len(records))
            if log.log_end_offset != state.fetch_offset:
                state.moved_to(log.log_end_offset, log.last_epoch)
                self._plan.add(key, _wanted(partition, state))
        start = log.log_start_offset
        partition.follow_watermarks(data.high_watermark, data.log_start_offset)
        if log.log_start_offset != start:
            self._plan.add(key, _wanted(partition, state))

    def _truncate(self, key: Key, followed: Followed, data: PartitionData) -> None:
        partition, state = followed
        log = partition.log
        assert log is not None
        diverging = data.diverging_epoch
        own_epoch, own_end = log.epoch_end_offset(diverging.epoch)
        offset = truncation_offset(
            diverging.epoch,
            diverging.end_offset,
            own_epoch,
            own_end,
            log.log_end_offset,
            state.fetch_offset,
        )
        self.context.ports.log(
            "warning" if offset < log.high_watermark else "info",
            "fetcher.truncating",
            partition=str(partition.name),
            to=offset,
            end=log.log_end_offset,
            high_watermark=log.high_watermark,
            leader_epoch=state.leader_epoch,
        )
        if offset == data.log_start_offset > 0:
            # The leader's log starts here: an empty log, for the reason that `_append` gives.
            partition.start_over_at(offset)
        else:
            partition.truncate(offset)
        state.moved_to(log.log_end_offset, log.last_epoch)
        self._plan.add(key, _wanted(partition, state))

    def _on_partition_error(self, key: Key, followed: Followed, code: ErrorCode) -> None:
        partition, state = followed
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # Ask the leader for its log start and log end offset, and derive the fetch offset from them.
            self._enter(key, followed, FollowerPhase.FINDING_OFFSET)

            def resume(delay_ms: float) -> None:
                self._delay(key, followed, delay_ms)
                self.maybe_fetch()

            self._out_of_range.resolve(
                self.context.endpoint_of(self.leader),
                partition,
                state,
                lambda: not self._closed and self.followed.get(key) is followed,
                resume,
                partial(self._fail, key, followed),
            )
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            # The leader has a newer epoch: wait until the metadata of that epoch arrive here.
            self._enter(key, followed, FollowerPhase.FAILED)
        elif code in LEADER_LAGS:
            self._delay(key, followed, LEADER_UNKNOWN_RETRY_MS)
        else:
            self.context.ports.log(
                "info", "fetcher.partition_error", partition=str(partition.name), error=code.name
            )
            self._delay(key, followed, self.context.settings.fetch_backoff_ms)

    # -- time ------------------------------------------------------------------------------------

    def _end_delays(self) -> None:
        """Fetch partitions again whose delay has passed; arm a wake-up for the next one that waits."""
        now_ms = self.context.ports.clock.now_ms()
        for key in list(self._delayed):
            followed = self.followed.get(key)
            if followed is None or followed.state.delayed_until_ms > now_ms:
                continue
            if followed.state.last_fetched_epoch >= 0:
                self._enter(key, followed, FollowerPhase.FETCHING)
                continue
            with suppress(KafkaError):  # its log directory has failed
                self.add(followed.partition)  # which may delay it again
            if self.followed.get(key) is followed:
                self._fail(key, followed, "its log directory failed")
        if self._delayed:
            self._schedule(min(self.followed[key].state.delayed_until_ms for key in self._delayed))

    def _delay_throttled(self) -> None:
        """Delay throttled replicas while the replication quota is used up (KIP-73)."""
        throttle = self.context.throttle
        wait_ms = 0.0 if throttle is None else throttle.wait_ms()
        if throttle is None or wait_ms <= 0:
            return
        for key in list(self._plan.wanted):
            followed = self.followed[key]
            if throttle.waits(followed.partition):
                self._delay(key, followed, wait_ms)

    def _schedule(self, when_ms: float) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
        self._wakeup = self.context.ports.wakeups.call_at(when_ms, self.maybe_fetch)

    def close(self) -> None:
        self._closed = True
        if self._wakeup is not None:
            self._wakeup.cancel()
        if self._endpoint is not None:
            self.context.channels.disconnect(self._endpoint, self.purpose)

    def __repr__(self) -> str:
        return f"Fetcher({self.purpose} from {self.leader}, {len(self.followed)} partitions)"


def _parts_of(response: FetchResponse) -> Iterator[tuple[Key, PartitionData]]:
    for topic in response.responses:
        topic_id = Uuid(topic.topic_id)
        for data in topic.partitions:
            yield (topic_id, data.partition_index), data


def _wanted(partition: Partition, state: FollowerState) -> WantedPartition:
    log = partition.log
    start = 0 if log is None else log.log_start_offset
    return WantedPartition(state.fetch_offset, state.last_fetched_epoch, state.leader_epoch, start)


def _keep_committed(partition: Partition, log: PartitionLog) -> bool:
    """Truncate a log without leader epochs to its high watermark: nothing else tells where it diverges from
    the leader's. False if a corrupt batch must be repaired first. Raises KAFKA_STORAGE_ERROR."""
    if log.last_epoch < 0 and log.log_end_offset > log.log_start_offset:
        try:
            partition.truncate(log.high_watermark)
        except KafkaError:
            if partition.log is None:
                raise
            return False
    return True


def _is_unflushed(partition: Partition) -> bool:
    log = partition.log
    return log is not None and log.flushed_end_offset < log.log_end_offset
