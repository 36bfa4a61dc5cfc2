"""Guests of a secured seed: clients that may do what ACLs give them, and a gatekeeper that changes these
while things break, with quotas beside them.

A guest asks one node at a time, once, and notes what it was answered. :mod:`barnabas.sim.access_history`
judges: a node lets pass, or denies, only what the entries in its own image said during the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.client.client import Client, raise_for
from barnabas.client.consumers.fetch_requests import FetchedRun
from barnabas.client.network.channels import ChannelError
from barnabas.client.scram_users import set_password
from barnabas.record.batch import CorruptBatchError
from barnabas.record.builder import build_batch
from barnabas.security.authorization.acls import (
    AclResourceType,
    Operation,
    PatternType,
    Permission,
)
from barnabas.sim.secured import GUEST, GUEST_PRINCIPAL, PASSWORDS
from barnabas.sim.world.world import START_WALL_MS
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

if TYPE_CHECKING:
    from barnabas.sim.workload.workload import Workload

GUARDED = "guarded"
REQUEST_TIMEOUT_MS = 4_000.0
BY_NAME = 12
"""The last version of Produce and Fetch that names topics."""
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
SCRAM_ITERATIONS = 4096
QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")


@dataclass(frozen=True)
class GuestsPlan:
    """Who the guests are and how often what they may do changes."""

    pause_ms: float = 100.0
    """Between two requests of a guest, at most."""
    changes_ms: float = 300.0
    """Between two changes of entries or quotas, at most."""
    mechanism: str = "PLAIN"
    """The mechanism by which guests authenticate."""
    tokens: bool = False
    """Whether one of them authenticates by delegation tokens."""


class Guest:
    """One client that asks for one thing at a time."""

    def __init__(self, workload: Workload, plan: GuestsPlan, operation: Operation) -> None:
        self.workload = workload
        self.plan = plan
        self.operation = operation
        self.name = f"guest {operation.name.lower()}"
        self.client: Client = workload.cluster.client(
            self.name, user=GUEST, mechanism=plan.mechanism
        )
        self.rng = workload.cluster.world.rng(self.name)
        self.count = 0
        self.offset = 0
        self.denied: set[bytes] = set()
        """Values of records whose request was denied."""
        self.passed_ms = -1.0
        """When a request that passed was sent, the latest."""

    async def run(self) -> None:
        while True:
            await self.client.tasks.sleep(self.rng.uniform(1, self.plan.pause_ms))
            try:
                await self._ask_once()
            except (ChannelError, KafkaError):
                await self._look_around()

    async def _look_around(self) -> None:
        try:
            await self.client.cluster.refresh([GUARDED], timeout_ms=REQUEST_TIMEOUT_MS)
        except (ChannelError, KafkaError):
            pass

    def _node(self) -> int:
        """The leader, as far as the guest may know; now and then another node."""
        leader = self.client.cluster.leader(TopicPartition(GUARDED, 0))
        if leader is None or self.rng.random() < 0.1:
            return self.rng.choice(list(self.workload.cluster.topology.broker_ids))
        return leader

    async def _ask_once(self) -> None:
        node, value = self._node(), f"{self.name}/{self.count}".encode()
        self.count += 1
        began_ms = self.client.now_ms()
        writes = self.operation == Operation.WRITE
        request = _produce(value) if writes else self._fetch()
        answer = await self.client.ask_node(
            node, request, timeout_ms=REQUEST_TIMEOUT_MS, at_most=BY_NAME
        )
        code = _code_of(answer, writes=writes)
        if writes and code == DENIED:
            self.denied.add(value)
        self.workload.access.judge(
            node, self.operation, began_ms, self.client.now_ms(), denied=code == DENIED
        )
        self.workload.cluster.world.totals[
            "guests denied" if code == DENIED else "guests let pass"
        ] += 1
        if code == ErrorCode.NONE:
            self.passed_ms = began_ms
            self.offset = self.offset if writes else _end_of(answer, self.offset)
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.offset = 0
        raise_for(code)

    def _fetch(self) -> FetchRequest:
        place = FetchPartition(partition=0, fetch_offset=self.offset, partition_max_bytes=1 << 20)
        return FetchRequest(
            max_wait_ms=200, min_bytes=1, topics=[FetchTopic(topic=GUARDED, partitions=[place])]
        )


def _produce(value: bytes) -> ProduceRequest:
    batch = build_batch([(None, value)], timestamp_ms=START_WALL_MS)
    data = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(
        acks=-1,
        timeout_ms=3_000,
        topic_data=[TopicProduceData(name=GUARDED, partition_data=[data])],
    )


def _code_of(answer: Any, *, writes: bool) -> int:
    if writes:
        return int(answer.responses[0].partition_responses[0].error_code)
    if answer.error_code:
        return int(answer.error_code)
    if not answer.responses:
        return int(ErrorCode.NONE)
    return int(answer.responses[0].partitions[0].error_code)


def _end_of(answer: Any, offset: int) -> int:
    """The end of a fetched answer; `offset` where it has no records."""
    if not answer.responses:
        return offset
    reported = answer.responses[0].partitions[0]
    run = FetchedRun(TopicPartition(GUARDED, 0), offset, reported, read_committed=False)
    try:
        for record in run.records(offset):
            offset = record.offset + 1
    except CorruptBatchError:
        pass
    return offset


class Gatekeeper:
    """Changes entries and quotas of the guests, one after the other."""

    def __init__(self, workload: Workload, plan: GuestsPlan) -> None:
        self.workload = workload
        self.plan = plan
        self.client = workload.cluster.client("gatekeeper")
        self.rng = workload.cluster.world.rng("gatekeeper")
        self.open_ms = -1.0
        """Since when guests may do everything and have no quota, at the end."""

    async def begin(self) -> None:
        """Before guests come: their credential."""
        if self.plan.mechanism != "PLAIN":
            await self._insist(
                lambda: set_password(
                    self.client,
                    GUEST,
                    self.plan.mechanism,
                    PASSWORDS[GUEST],
                    self.rng.randbytes(16),
                    SCRAM_ITERATIONS,
                )
            )

    async def run(self) -> None:
        world = self.workload.cluster.world
        while not self.workload.stopped:
            await self.client.tasks.sleep(self.rng.uniform(1, self.plan.changes_ms))
            change = self.rng.choice([self._add, self._add, self._remove, self._limit])
            try:
                await change()
            except (ChannelError, KafkaError) as error:
                world.note(f"gatekeeper: {error}")
            else:
                world.totals["changes of access"] += 1
                self.workload.history.operations += 1
        await self._insist(self._remove_all)
        await self._insist(lambda: self._set_quotas(dict.fromkeys(QUOTAS)))
        await self._insist(self._allow_all)
        self.open_ms = self.client.now_ms()

    async def _insist(self, change: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await change()
                return
            except (ChannelError, KafkaError):
                await self.client.tasks.sleep(200)

    async def _add(self) -> None:
        """One entry; those that deny are fewer."""
        permission = self.rng.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY])
        name, pattern = self.rng.choice(
            [
                (GUARDED, PatternType.LITERAL),
                (GUARDED, PatternType.LITERAL),
                ("*", PatternType.LITERAL),
                (GUARDED[:3], PatternType.PREFIXED),
                ("other", PatternType.LITERAL),
            ]
        )
        await self._create(
            AclCreation(
                resource_type=AclResourceType.TOPIC,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=self.rng.choice(
                    [GUEST_PRINCIPAL, GUEST_PRINCIPAL, "User:*", "User:other"]
                ),
                host=self.rng.choice(["*", "*", "guest write"]),
                operation=self.rng.choice([Operation.READ, Operation.WRITE, Operation.ALL]),
                permission_type=permission,
            )
        )

    async def _allow_all(self) -> None:
        await self._create(
            AclCreation(
                resource_type=AclResourceType.TOPIC,
                resource_name=GUARDED,
                resource_pattern_type=PatternType.LITERAL,
                principal=GUEST_PRINCIPAL,
                host="*",
                operation=Operation.ALL,
                permission_type=Permission.ALLOW,
            )
        )

    async def _create(self, creation: AclCreation) -> None:
        await self.client.ask_any(
            lambda: CreateAclsRequest(creations=[creation]),
            _check_results,
            timeout_ms=REQUEST_TIMEOUT_MS,
        )

    async def _remove(self) -> None:
        """Those that allow, that deny, or that name an operation."""
        await self._delete(
            self.rng.choice([Permission.ANY, Permission.ALLOW, Permission.DENY, Permission.DENY]),
            self.rng.choice([Operation.ANY, Operation.READ, Operation.WRITE, Operation.ALL]),
        )

    async def _remove_all(self) -> None:
        await self._delete(Permission.ANY, Operation.ANY)

    async def _delete(self, permission: Permission, operation: Operation) -> None:
        wanted = DeleteAclsFilter(
            resource_type_filter=AclResourceType.TOPIC,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=None,
            operation=operation,
            permission_type=permission,
        )

        def check(response: Any) -> None:
            for result in response.filter_results:
                raise_for(result.error_code, result.error_message)

        await self.client.ask_any(
            lambda: DeleteAclsRequest(filters=[wanted]), check, timeout_ms=REQUEST_TIMEOUT_MS
        )

    async def _limit(self) -> None:
        value = self.rng.choice([None, 100.0, 2_000.0])
        await self._set_quotas({self.rng.choice(QUOTAS): value})

    async def _set_quotas(self, values: dict[str, float | None]) -> None:
        entry = EntryData(
            entity=[EntityData(entity_type="user", entity_name=GUEST)],
            ops=[
                OpData(key=key, value=value or 0.0, remove=value is None)
                for key, value in values.items()
            ],
        )

        def check(response: Any) -> None:
            for result in response.entries:
                raise_for(result.error_code, result.error_message)

        await self.client.ask_any(
            lambda: AlterClientQuotasRequest(entries=[entry]), check, timeout_ms=REQUEST_TIMEOUT_MS
        )


def _check_results(response: Any) -> None:
    for result in response.results:
        raise_for(result.error_code, result.error_message)
