"""Members of streams groups in a seed: they send a topology, take and give up tasks, leave and fall silent.

A member has the tasks of the last answer that named them. It gives tasks up, then takes new ones, and says so
with its next heartbeat. No other client knows their source topics.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from barnabas.client.client import COORDINATOR_MOVED, GROUP, raise_for
from barnabas.client.network.channels import ChannelError
from barnabas.group.streams.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    NOTHING,
    TaskId,
    TaskRoles,
)
from barnabas.group.streams.replay import tasks_of
from barnabas.sim.workload.streams.ledger import Heard, StreamsLedger
from barnabas.sim.workload.streams.plan import StreamsMemberPlan
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import streams_group_heartbeat_request as asked
from barnabas.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest

if TYPE_CHECKING:
    from barnabas.sim.workload.workload import Workload

RETRY_MS = 100.0
REQUEST_TIMEOUT_MS = 1_000.0
REBALANCE_TIMEOUT_MS = 60_000
FORGOTTEN = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
)
WAITS = (ErrorCode.UNRELEASED_INSTANCE_ID,)


class StreamsMemberClient:
    """One member's place in a streams group; its members follow each other."""

    def __init__(self, workload: Workload, plan: StreamsMemberPlan, ledger: StreamsLedger) -> None:
        assert workload.plan.streams is not None
        self.workload, self.plan, self.ledger = workload, plan, ledger
        self.world = workload.cluster.world
        self.topology = workload.plan.streams.topologies[plan.group]
        self.rng = self.world.rng(plan.name)
        self.client = workload.client(plan.name)
        self.epoch = JOIN_EPOCH
        self.owned = NOTHING
        self.member_id = self._new_id()
        self._said: TaskRoles | None = None
        """The tasks that the coordinator learned last; None where it may not know."""

    @property
    def owner(self) -> str:
        return self.plan.instance or self.member_id

    def start(self) -> None:
        self.client.tasks.start(self._work())

    def _new_id(self) -> str:
        return f"{self.plan.name}-{self.client.member_ids.randbytes(8).hex()}"

    async def _work(self) -> None:
        while True:
            wait_ms = await self._beat()
            await self.client.tasks.sleep(wait_ms)
            if self.workload.stopped or self.epoch == JOIN_EPOCH:
                continue
            chance = self.rng.random()
            if chance < self.plan.leaves + self.plan.vanishes:
                await self._replace(leaves=chance < self.plan.leaves)

    # Heartbeats

    async def _beat(self) -> float:
        """One heartbeat, and what follows from it. Returns how long the next one waits."""
        request, asked_ms = self._request(), self.world.now_ms
        group = self.plan.group
        if request.member_epoch == JOIN_EPOCH:
            self.ledger.on_joins(group, self.owner)
        elif request.active_tasks is not None:
            self.ledger.on_says(group, self.owner, self.owned.active)
        try:
            answer = await self._ask(request)
            raise_for(answer.error_code, answer.error_message)
        except ChannelError:
            self.client.forget_coordinator(GROUP, group)
            self._said = None
            return RETRY_MS
        except KafkaError as error:
            return self._recover(error)
        self.workload.history.operations += 1
        self.world.totals["streams heartbeats"] += 1
        self.epoch, self._said = answer.member_epoch, self.owned
        active = None if answer.active_tasks is None else tasks_of(answer.active_tasks)
        node = self.client.coordinator_node(group, GROUP)
        heard = Heard(-1 if node is None else node, asked_ms)
        self.ledger.on_answer(group, self.owner, self.epoch, active, heard, self.world.now_ms)
        if active is not None and await self._reconcile(_roles(answer)):
            return 0.0
        return float(answer.heartbeat_interval_ms)

    async def _reconcile(self, target: TaskRoles) -> bool:
        """Give up what it has no longer, then take what is new. Returns whether something changed."""
        if target == self.owned:
            return False
        self.world.totals["streams assignments"] += 1
        self.world.totals["streams standby tasks"] += len(target.standby)
        if not self.owned.active <= target.active:
            self.world.totals["streams tasks given up"] += 1
            await self.client.tasks.sleep(self.rng.uniform(0, self.plan.reconciles_ms))
        self.owned = target
        return True

    def _request(self) -> StreamsGroupHeartbeatRequest:
        """Everything where it joins; the tasks where they changed or the last answer was lost."""
        plan = self.plan
        request = StreamsGroupHeartbeatRequest(
            group_id=plan.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=plan.instance,
            endpoint_information_epoch=-1,
        )
        if self.epoch == JOIN_EPOCH:
            request.topology = self.topology
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.process_id = plan.process
            request.client_tags = []
            if plan.has_endpoint:
                request.user_endpoint = asked.Endpoint(host=plan.process, port=9_000)
            self.owned = NOTHING
        if self._said != self.owned or self.rng.random() < plan.repeats:
            request.active_tasks = _ids(self.owned.active)
            request.standby_tasks = _ids(self.owned.standby)
            request.warmup_tasks = _ids(self.owned.warmup)
        if self.epoch != JOIN_EPOCH and self.rng.random() < plan.reports:
            held = sorted({*self.owned.active, *self.owned.standby})
            request.task_offsets = [
                asked.TaskOffset(
                    subtopology_id=task.subtopology,
                    partition=task.partition,
                    offset=self.rng.randrange(1_000),
                )
                for task in held
            ]
        return request

    async def _ask(self, request: StreamsGroupHeartbeatRequest) -> Any:
        endpoint = await self.client.coordinator(GROUP, request.group_id)
        return await self.client.send(
            endpoint, request, timeout_ms=REQUEST_TIMEOUT_MS, purpose="streams"
        )

    def _recover(self, error: KafkaError) -> float:
        """Raises what is no answer for a member that did nothing wrong."""
        if error.code in FORGOTTEN:
            self.world.totals["streams members fenced"] += 1
            self._forget()
        elif error.code in COORDINATOR_MOVED or error.retriable or error.code in WAITS:
            if error.code in COORDINATOR_MOVED:
                self.client.forget_coordinator(GROUP, self.plan.group)
            self._said = None
        else:
            raise error
        return RETRY_MS

    def _forget(self) -> None:
        self.ledger.on_gone(self.plan.group, self.owner)
        self.epoch, self.owned, self._said = JOIN_EPOCH, NOTHING, None

    # The end

    async def _replace(self, *, leaves: bool) -> None:
        """Another member takes the place; this one leaves, or falls silent. A static one returns."""
        farewell = StreamsGroupHeartbeatRequest(
            group_id=self.plan.group,
            member_id=self.member_id,
            instance_id=self.plan.instance,
            member_epoch=LEAVE_EPOCH if self.plan.instance is None else LEAVE_STATIC_EPOCH,
        )
        self.world.totals["streams members left" if leaves else "streams members vanished"] += 1
        self._forget()
        if leaves:
            try:
                await self._ask(farewell)
            except (ChannelError, KafkaError):
                self.client.forget_coordinator(GROUP, self.plan.group)  # its session ends by itself
        self.member_id = self._new_id()
        await self.client.tasks.sleep(self.rng.uniform(0, 500))


def _roles(answer: Any) -> TaskRoles:
    return TaskRoles(
        tasks_of(answer.active_tasks), tasks_of(answer.standby_tasks), tasks_of(answer.warmup_tasks)
    )


def _ids(tasks: Collection[TaskId]) -> list[asked.TaskIds]:
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.subtopology, []).append(task.partition)
    return [asked.TaskIds(subtopology_id=part_id, partitions=own) for part_id, own in found.items()]
