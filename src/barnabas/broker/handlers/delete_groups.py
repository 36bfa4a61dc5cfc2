"""DeleteGroups.

Behaviour: deletes groups without members, with their offsets (KIP-229). Every group answers for
itself; groups of one coordinator partition are deleted together, and the answer comes when all are.

Version notes: from 3 on each group's error has a message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.broker.coordinator.group_coordinator import GroupRole
from barnabas.broker.roles import ShareGroupRole
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.delete_groups_request import DeleteGroupsRequest
from barnabas.wire.messages.delete_groups_response import (
    DeletableGroupResult,
    DeleteGroupsResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

API = Api(
    ApiKey.DELETE_GROUPS,
    DeleteGroupsRequest,
    mirrored_error(DeleteGroupsRequest, DeleteGroupsResponse),
    "group",
    "delete",
)


def handle(
    request: DeleteGroupsRequest, ctx: RequestContext, role: ShareGroupRole
) -> DeleteGroupsResponse | Parked:
    by_partition: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        by_partition.setdefault(role.groups.partition_for(group_id), []).append(group_id)
    if not by_partition:
        return DeleteGroupsResponse()
    parked, results = Parked(), list[DeletableGroupResult]()
    missing = len(by_partition)

    def add(some: Sequence[DeletableGroupResult]) -> None:
        nonlocal missing
        missing -= 1
        results.extend(some)
        if not missing:
            parked.complete(DeleteGroupsResponse(results=results))

    for partition, group_ids in by_partition.items():
        _delete_with_states(role, partition, group_ids, add)
    return parked


def _delete_with_states(
    role: ShareGroupRole,
    partition: int,
    group_ids: list[str],
    add: Callable[[Sequence[DeletableGroupResult]], None],
) -> None:
    """Delete groups of one partition. Share coordinators delete a share group's states first; the
    group stays if a state could not be deleted."""
    shard = role.groups.shards.get(partition)
    shares = [] if shard is None else [g for g in group_ids if shard.machine.table.share(g)]
    if not shares:
        _delete(role, partition, group_ids, add)
        return
    kept: list[DeletableGroupResult] = []
    left = len(shares)

    def settled(group_id: str, error: KafkaError | None) -> None:
        nonlocal left
        left -= 1
        if error is not None:
            kept.append(DeletableGroupResult(group_id=group_id, error_code=error.code))
        if not left:
            failed = {result.group_id for result in kept}
            others = [group_id for group_id in group_ids if group_id not in failed]
            _delete(role, partition, others, lambda results: add([*kept, *results]))

    for group_id in shares:
        role.shares.open().end_states(group_id, partial(settled, group_id))


def _delete(
    role: GroupRole,
    partition: int,
    group_ids: list[str],
    add: Callable[[Sequence[DeletableGroupResult]], None],
) -> None:
    def delete(machine: GroupMachine, at: Instant) -> GroupOutcome:
        return machine.delete_groups(group_ids)

    def done(result: Message | KafkaError | None) -> None:
        if isinstance(result, KafkaError):
            add(_refused(group_ids, result.code, result.message))
        elif isinstance(result, DeleteGroupsResponse):
            add(result.results)

    role.groups.write_in(partition, delete, done)


def _refused(group_ids: Sequence[str], code: int, message: str) -> list[DeletableGroupResult]:
    return [
        DeletableGroupResult(group_id=group_id, error_code=code, error_message=message or None)
        for group_id in group_ids
    ]
