"""The components that have to make progress once everything has healed: coordinators, groups, the
deletion of records, and followers that learn where their logs begin. Each function describes one
component that is late; the empty string means that none is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.broker.coordinator.coordinator_shard import CoordinatorShard
from barnabas.broker.partitions.partition import Partition
from barnabas.client.network.channels import ChannelError
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.streams.member import TaskId
from barnabas.metadata.features import CONTROLLER_REGISTRATION_SINCE, DIRECTORIES_SINCE
from barnabas.metadata.image.image import MetadataImage
from barnabas.sim.checkers.coordinators import serving
from barnabas.sim.checkers.owned_again import unowned
from barnabas.sim.checkers.share_groups import led_machine
from barnabas.sim.checkers.streams_groups import unsettled_streams
from barnabas.sim.cluster import SimNode
from barnabas.sim.share_ledger import SHARED
from barnabas.transaction.states import AT_REST
from barnabas.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

if TYPE_CHECKING:
    from barnabas.sim.run import Run

CUT_MS = 5_000
"""How long one request to delete records may take."""


def _partitions(run: Run) -> Iterator[tuple[SimNode, Partition]]:
    for node in run.cluster.up():
        broker = node.broker
        if broker is not None:
            for partition in broker.replicas.by_id.values():
                yield node, partition


def late_registration(run: Run) -> str:
    """Check registrations, as far as the level knows of them: every controller is registered, every
    broker with the log directories that it has, and it is known in which of them each replica is."""
    image = run.faults.budget.image()
    if image is None:
        return "no node has the newest metadata"
    for node in run.cluster.up():
        assert node.node is not None
        broker, controller = node.node.broker, node.node.controller
        if controller is not None and image.metadata_version >= CONTROLLER_REGISTRATION_SINCE:
            registered = image.controllers.get(node.id)
            if registered is None or registered.incarnation != controller.registrar.incarnation:
                return f"controller {node.id} is known as {registered}"
        if broker is not None and image.metadata_version >= DIRECTORIES_SINCE:
            known = image.brokers.get(node.id)
            online = {d.directory_id for d in broker.logs.directories if d.is_online}
            if known is None or online != {*known.directories}:
                return f"broker {node.id} is known as {known}"
    if image.metadata_version < DIRECTORIES_SINCE:
        return ""
    return next((str(p.name) for node, p in _partitions(run) if _is_astray(image, node, p)), "")


def _is_astray(image: MetadataImage, node: SimNode, partition: Partition) -> bool:
    """Whether the metadata have the replica in another log directory than it is in."""
    assert node.broker is not None
    directory = node.broker.logs.directory_of(partition.name)
    topic = image.topics_by_id.get(partition.topic_id)
    if directory is None or topic is None or not topic.has(partition.index):
        return False
    state = topic.partition(partition.index)
    return node.id in state.replicas and state.directory_of(node.id) != directory.directory_id


def silent_coordinator(run: Run) -> str:
    for node, partition in _partitions(run):
        if partition.topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC) and partition.is_leader:
            assert node.broker is not None
            broker = node.broker
            shards: Mapping[int, CoordinatorShard[Any]] = (
                broker.groups.shards
                if partition.topic == OFFSETS_TOPIC
                else broker.transactions.coordinators.shards
            )
            shard = shards.get(partition.index)
            if shard is None or not shard.active:
                state = "not there" if shard is None else shard.state
                return f"of {partition.name} on node {node.id} it is {state}"
    return ""


def open_transaction(run: Run) -> str:
    """Whatever its producer does, a transaction ends when its time is over, and its markers are written."""
    for node in run.cluster.up():
        broker = node.broker
        if broker is not None:
            for shard in broker.transactions.coordinators.shards.values():
                for name, known in shard.machine.ids.items():
                    if known.state not in AT_REST:
                        return f"{name} is {known.state.label} on node {node.id}"
    return ""


def unowned_partition(run: Run) -> str:
    """Check the groups whose members stay, in what their coordinators hold."""
    return unowned(run.cluster, {client.plan.group for client in run.workload.consumers})


def owned_twice(run: Run) -> str:
    """Who had left, and was in a log that lacks the tombstone, has lost its partitions with its session."""
    for node in run.cluster.up():
        for shard in serving(node):
            for group_id, group in shard.machine.table.groups.committed_items():
                if isinstance(group, ConsumerGroup) and group.owners.has_contested:
                    return f"{group_id}: {group.owners!r}"
    return ""


def late_group(run: Run) -> str:
    """Members keep reading after all producers stopped: together they reach the end of every partition."""
    workload = run.workload
    ends = {
        TopicPartition(topic, p): end
        for topic, count in workload.topics.items()
        for p, end in run.ends(topic, count).items()
    }
    places: dict[str, dict[TopicPartition, int]] = {}
    for client in workload.consumers:
        known = places.setdefault(client.plan.group, {})
        for tp in client.consumer.assignment:
            known[tp] = max(known.get(tp, 0), client.consumer.position(tp) or 0)
    for group, known in sorted(places.items()):
        for tp, end in sorted(ends.items()):
            if known.get(tp, -1) < end:
                return f"{group} is at {known.get(tp)} of {end} in {tp}"
    return ""


def late_reader(run: Run) -> str:
    """Each reader with fetch sessions reaches the end of every partition as well."""
    workload = run.workload
    for topic, count in sorted(workload.topics.items()) if workload.readers else ():
        for p, end in run.ends(topic, count).items():
            for reader in workload.readers:
                position = reader.position.get(TopicPartition(topic, p), -1)
                if position < end:
                    return f"{reader.plan.name} is at {position} of {end} in {topic}-{p}"
    return ""


def late_guest(run: Run) -> str:
    """Each guest has a request let pass that it sent after it was allowed everything."""
    gatekeeper = run.workload.gatekeeper
    if gatekeeper is None:
        return ""
    for guest in run.workload.guests:
        if guest.passed_ms <= gatekeeper.open_ms:
            return f"{guest.name} was let pass last at {guest.passed_ms:.0f} ms"
    by_token = run.workload.token_guest
    if by_token is not None and not by_token.is_served_at_last():
        return f"the guest with tokens was let pass last at {by_token.passed_ms:.0f} ms"
    return ""


def shares_read(run: Run) -> int:
    """How far the share groups are, all together: the sum of where their share partitions begin."""
    shares = run.swarm.workload.shares
    if shares is None:
        return 0
    machines = [
        [led_machine(node, group, index) for node in run.cluster.up()]
        for group in shares.groups
        for index in range(shares.partitions)
    ]
    return sum(
        max((m.in_flight.start for m in led if m is not None), default=0) for led in machines
    )


def late_share_group(run: Run) -> str:
    """Each share group acknowledges all records of its topic: at their leaders none is left."""
    shares = run.swarm.workload.shares
    if shares is None or not run.workload.share_members:
        return ""
    ends = run.ends(SHARED, shares.partitions)
    for group in sorted({member.plan.group for member in run.workload.share_members}):
        for index in range(shares.partitions):
            starts = [
                machine.in_flight.start
                for node in run.cluster.up()
                if (machine := led_machine(node, group, index)) is not None
                and not machine.is_writing
            ]
            if index not in ends or max(starts, default=-1) < ends[index]:
                return f"{group} is at {starts} of {ends.get(index)} in {SHARED}-{index}"
    busy = [m.plan.name for m in run.workload.share_members if not m.consumer.is_settled]
    return f"{busy[0]} waits for answers" if busy else ""


def unsettled_streams_group(run: Run) -> str:
    """Each streams group has its internal topics, and each task is active at one member that is there, which
    knows it."""
    plan, clients = run.swarm.workload.streams, run.workload.streams_members
    if plan is None:
        return ""
    groups = {client.plan.group for client in clients}
    key = "group.streams.num.standby.replicas"
    standbys = int(run.swarm.topology.settings.get(key, "0"))
    why = unsettled_streams(run.cluster, plan, groups, standbys)
    if why:
        return why
    for group in sorted(groups):
        held = sorted(
            task for client in clients if client.plan.group == group for task in client.owned.active
        )
        wanted = sorted(
            TaskId(part, index)
            for part, count in plan.tasks[group].items()
            for index in range(count)
        )
        if held != wanted:
            return f"{group}: members have {held}"
    return ""


def late_on_remade(run: Run) -> str:
    """A reader of a topic that was recreated reaches its last record."""
    return next(filter(None, (remade.late() for remade in run.workload.remade)), "")


class Cuts:
    """The cuts: one partition of each topic is deleted but for its last record, as operators may; each
    request ends."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._left: dict[TopicPartition, str] = {}
        self._client = run.cluster.client("cutter")
        for topic, count in sorted(run.workload.topics.items()):
            if run.history.promise(topic).may_be_cut:
                ends = run.ends(topic, count)
                partition = run.world.seed % count
                if partition in ends:
                    tp = TopicPartition(topic, partition)
                    self._left[tp] = "not answered yet"
                    self._client.tasks.start(self._cut_twice(tp, ends[partition]))

    def hanging(self) -> str:
        return "".join(f"{tp}: {why}" for tp, why in sorted(self._left.items())[:1])

    async def _cut_twice(self, tp: TopicPartition, end: int) -> None:
        """At first where the log begins anyway: there is nothing to do but to know that of all replicas."""
        starts = [
            p.log.log_start_offset for _, p in _partitions(self._run) if p.name == tp and p.log
        ]
        await self._cut(tp, max(starts, default=0))
        await self._cut(tp, max(end - 1, 0))
        del self._left[tp]

    async def _cut(self, tp: TopicPartition, offset: int) -> None:
        one = DeleteRecordsPartition(partition_index=tp.partition, offset=offset)
        topics = [DeleteRecordsTopic(name=tp.topic, partitions=[one])]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=CUT_MS)
        while True:
            try:
                await self._client.cluster.refresh([tp.topic], timeout_ms=CUT_MS)
                leader = self._client.cluster.leader(tp)
                if leader is not None:
                    answer = await self._client.ask_node(leader, request)
                    code = answer.topics[0].partitions[0].error_code
                    if code in (0, 1):  # 1: retention was faster
                        return
                    self._left[tp] = f"error {code} for {offset}"
            except (ChannelError, KafkaError) as error:
                self._left[tp] = str(error)
            await self._client.tasks.sleep(200)


def late_start(run: Run) -> str:
    starts: dict[TopicPartition, tuple[SimNode, int]] = {}
    for node, partition in _partitions(run):
        if partition.is_leader and partition.log is not None:
            starts[partition.name] = node, partition.log.log_start_offset
    for node, partition in _partitions(run):
        known = starts.get(partition.name)
        if known is not None and partition.log is not None:
            leader, start = known
            if not partition.log.config.compact and partition.log.log_start_offset < start:
                return (
                    f"{partition.name} begins at {partition.log.log_start_offset} on node {node.id}, at"
                    f" {start} on its leader, node {leader.id}"
                )
    return ""
