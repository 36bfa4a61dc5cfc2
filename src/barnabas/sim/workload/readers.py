"""Readers without a group that fetch in fetch sessions (KIP-227), as consumers of Apache Kafka do.

They read all partitions, from leaders or at random from followers (KIP-392). The history checks their records
like those that groups read. The readers themselves check two things more: no response holds a record at or
above the response's own high watermark, and no reader receives OFFSET_OUT_OF_RANGE where nothing was deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.client.consumers.fetch_requests import FetchedRun
from barnabas.client.network.channels import ChannelError
from barnabas.client.offsets import EARLIEST, list_offsets
from barnabas.record.batch import CorruptBatchError
from barnabas.replication.sessions import INITIAL_EPOCH
from barnabas.sim.history import Reading, Violation
from barnabas.sim.workload.fetch_sessions import (
    EPOCHS_SINCE,
    IDS_SINCE,
    AskedPartition,
    ReaderSession,
)
from barnabas.types import ZERO_UUID, TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.messages.fetch_response import FetchResponse, PartitionData

if TYPE_CHECKING:
    from barnabas.sim.workload.workload import Workload

VERSIONS = (4, 7, 8, 11, 12, 12, 13, 15, 16, 17)
"""Versions of Fetch: before 7 there are no sessions, before 13 requests name topics, from 13 on topic ids."""
REQUEST_TIMEOUT_MS = 4_000.0
HURRY_MS, ALL_BYTES = 5.0, 1 << 20
"""Pause between fetches and bytes per partition once the workload has stopped. With these a reader comes to
the end in time, also where each segment holds only one or two records."""
MISTAKES = {
    "epoch": (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    "kind": (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
}
"""The mistakes that a client may make in a session → the errors that it may receive."""


@dataclass(frozen=True)
class ReaderPlan:
    """How one reader fetches."""

    name: str
    topics: tuple[str, ...]
    pause_ms: float = 50.0
    """The longest pause between two fetches from one broker."""
    follows: float = 0.0
    """Probability that it chooses any replica of a partition, not the leader, when it chooses."""
    leaves_out: float = 0.1
    """Probability that a fetch leaves out a partition, as a client does that has its records buffered."""
    slips: float = 0.02
    """Probability per fetch that it ends, forgets, restarts or misuses its session."""
    partition_bytes: Sequence[int] = (ALL_BYTES,)
    wait_ms: int = 200
    min_bytes: int = 1


class ReaderClient:
    """One reader at work, with a session at each broker."""

    def __init__(self, workload: Workload, plan: ReaderPlan) -> None:
        self.workload = workload
        self.plan = plan
        self.client = workload.client(plan.name)
        self.rng = workload.cluster.world.rng(plan.name)
        self.position: dict[TopicPartition, int] = {}
        self.readings: dict[TopicPartition, Reading] = {}
        self.prefers: dict[TopicPartition, int] = {}
        """Partition → the replica that is read instead of the leader."""
        self.reached_in: dict[TopicPartition, int] = {}
        """Partition → the leader epoch in which `position` was reached. -1 where the fetch named no epoch:
        the leader's epoch may be newer than any that this client knows."""

    def start(self) -> None:
        for topic in self.plan.topics:
            for partition in range(self.workload.topics[topic]):
                self.position[TopicPartition(topic, partition)] = 0
        for node in self.workload.cluster.topology.broker_ids:
            self.client.tasks.start(self._read_from(node))

    def _count(self, what: str) -> None:
        self.workload.cluster.world.totals[what] += 1

    async def _read_from(self, node: int) -> None:
        session = ReaderSession(self.rng.choice(VERSIONS))
        while True:
            pause_ms = HURRY_MS if self.workload.stopped else self.plan.pause_ms
            await self.client.tasks.sleep(self.rng.uniform(1, pause_ms))
            try:
                session = await self._round(node, session)
            except (ChannelError, KafkaError):
                session.begin_again()
                await self._refresh()

    async def _round(self, node: int, session: ReaderSession) -> ReaderSession:
        # After the stop the session must work by itself: a new session could hide that a broker withholds
        # records.
        if not self.workload.stopped:
            if self.rng.random() < self.plan.slips:
                session = await self._slip(node, session)
            if self.rng.random() < 0.1:
                self._turn_elsewhere()
        if self.rng.random() < 0.2:
            await self._refresh_where_leaderless()
        wanted = self._wanted(node, session.version)
        if not wanted and (not session.known or self.rng.random() < 0.8):
            return session
        by_id = session.version >= IDS_SINCE
        if by_id and any(want.topic_id == ZERO_UUID for want in wanted.values()):
            session.version = IDS_SINCE - 1
            session.begin_again()
        was_full = session.is_full
        response = await self._ask(node, session.request(wanted), session.version)
        if not session.on_response(f"{self.plan.name} at node {node}", response):
            self._count("fetch sessions lost")
            return session
        if not was_full:
            self._count("incremental fetches")
        refused = await self._on_response(node, session, response)
        if refused:
            await self._refresh()
        return session

    async def _ask(self, node: int, request: FetchRequest, version: int) -> FetchResponse:
        endpoint = self.client.cluster.brokers.get(node)
        if endpoint is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node} is not known")
        request.max_wait_ms = self.plan.wait_ms
        request.min_bytes = self.plan.min_bytes
        request.max_bytes = self.rng.choice([1 << 20, 1 << 20, 500])
        response: Any = await self.client.send(
            endpoint, request, timeout_ms=REQUEST_TIMEOUT_MS, purpose="sessions", version=version
        )
        assert isinstance(response, FetchResponse)
        return response

    # -- what is asked for -----------------------------------------------------------------------

    def _wanted(self, node: int, version: int) -> dict[TopicPartition, AskedPartition]:
        cluster, found = self.client.cluster, {}
        for tp, offset in self.position.items():
            if self.prefers.get(tp, cluster.leader(tp)) != node:
                continue
            if offset < 0:
                continue
            size = ALL_BYTES
            if not self.workload.stopped:
                size = self.rng.choice(self.plan.partition_bytes)
                if self.rng.random() < self.plan.leaves_out:
                    continue
            view = cluster.partition(tp)
            epoch = -1 if view is None or version < EPOCHS_SINCE else view.leader_epoch
            found[tp] = AskedPartition(cluster.topic_id(tp.topic), offset, epoch, size)
        return found

    def _turn_elsewhere(self) -> None:
        tp = self.rng.choice(sorted(self.position))
        view = self.client.cluster.partition(tp)
        if view is not None and view.replicas and self.rng.random() < self.plan.follows:
            self.prefers[tp] = self.rng.choice(list(view.replicas))
            self._count("readers turned to a replica")
        else:
            self.prefers.pop(tp, None)

    async def _refresh(self) -> None:
        try:
            await self.client.cluster.refresh(self.plan.topics, timeout_ms=REQUEST_TIMEOUT_MS)
        except ChannelError:
            pass
        await self.client.tasks.sleep(self.rng.uniform(20, 100))

    async def _refresh_where_leaderless(self) -> None:
        if any(self.client.cluster.leader(tp) is None for tp in self.position):
            await self._refresh()

    # -- what clients do wrong -------------------------------------------------------------------

    async def _slip(self, node: int, session: ReaderSession) -> ReaderSession:
        """End the session, forget it, begin it again, or send a wrong request in it, which must not harm it.

        Returns the session to continue with.
        """
        what = self.rng.choice(["ends", "forgets", "begins", "epoch", "epoch", "kind"])
        if what == "ends":
            await self._ask(node, session.end(), session.version)
        elif what == "begins":
            session.begin_again()
        elif what == "forgets":
            return ReaderSession(self.rng.choice(VERSIONS))
        elif session.epoch != INITIAL_EPOCH:
            epoch, version = session.epoch, session.version
            if what == "epoch":
                epoch = epoch + 1 if epoch == 1 else self.rng.choice([epoch - 1, epoch + 1])
            else:
                version = 12 if version >= IDS_SINCE else IDS_SINCE
            request = FetchRequest(session_id=session.id, session_epoch=epoch)
            response = await self._ask(node, request, version)
            if response.error_code not in MISTAKES[what]:
                raise Violation(
                    f"{self.plan.name} at node {node}: {session} erred in its {what}, and received"
                    f" {response.error_code}"
                )
            self._count("fetch sessions mistaken")
            if self.rng.random() < 0.5:
                session.begin_again()
        return session

    # -- what comes ------------------------------------------------------------------------------

    async def _on_response(
        self, node: int, session: ReaderSession, response: FetchResponse
    ) -> bool:
        """Take the records of a response. Returns whether the broker refused any partition."""
        refused = False
        for topic in response.responses:
            name = session.name_of(topic.topic, topic.topic_id)
            for partition in topic.partitions:
                tp = TopicPartition(name, partition.partition_index)
                asked = session.known[tp]
                if asked.offset != self.position[tp]:
                    continue  # another broker has delivered these records meanwhile
                run = FetchedRun(tp, asked.offset, partition, read_committed=False)
                if run.error is None:
                    self._take_run(tp, run, partition)
                    if self.position[tp] != asked.offset:
                        self.reached_in[tp] = asked.leader_epoch
                    continue
                refused = True
                leads = self.prefers.pop(tp, node) == node == self.client.cluster.leader(tp)
                if run.error.code == ErrorCode.OFFSET_OUT_OF_RANGE and leads:
                    self._check_range(tp, node, asked)
                    await self._reset(tp)
        return refused

    def _take_run(self, tp: TopicPartition, run: FetchedRun, answer: PartitionData) -> None:
        history, reading = self.workload.history, self.readings.get(tp)
        if reading is None:
            reading = self.readings[tp] = Reading(self.plan.name)
        try:
            for record in run.records(run.offset):
                if record.offset >= answer.high_watermark:
                    raise Violation(
                        f"{tp}: {self.plan.name} was given offset {record.offset}, and"
                        f" {answer.high_watermark} as the high watermark"
                    )
                history.on_read(*tp, record.offset, record.value or b"", reading)
                history.operations += 1
                self._count("records read by sessions")
                self.position[tp] = record.offset + 1
        except CorruptBatchError:
            return  # it is asked for again
        self.position[tp] = run.next_offset

    def _check_range(self, tp: TopicPartition, node: int, asked: AskedPartition) -> None:
        """The leader `node` answered OFFSET_OUT_OF_RANGE to `asked`. In the leader epoch in which the
        position was reached, or a later one, that is right only where clients deleted the records."""
        promise = self.workload.history.promise(tp.topic)
        if not (promise.keeps and promise.settles) or promise.compacts:
            return
        if not 0 <= self.reached_in.get(tp, 0) <= asked.leader_epoch:
            return
        if asked.offset >= self.workload.history.cut_before[tp]:
            raise Violation(
                f"{tp}: {self.plan.name} learned from node {node} that {asked} is out of range, and"
                " no client deleted so much"
            )

    async def _reset(self, tp: TopicPartition) -> None:
        """Continue at the earliest offset of the log; at 0 where the request for it fails."""
        self.position[tp] = -1
        self.reached_in.pop(tp, None)
        try:
            found = await list_offsets(self.client, {tp: EARLIEST}, timeout_ms=REQUEST_TIMEOUT_MS)
            self.position[tp] = found[tp].offset
        finally:
            self.readings.pop(tp, None)
            if self.position[tp] < 0:
                self.position[tp] = 0
