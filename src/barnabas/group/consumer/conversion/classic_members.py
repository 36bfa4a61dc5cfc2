"""Serves members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat,
LeaveGroup.

The coordinator computes their assignment, too: no such member leads, a generation is a member
epoch, and SyncGroup returns the member's present assignment.

Source: ``GroupMetadataManager.classicGroup*ToConsumerGroup`` of Apache Kafka 4.3; KIP-848, "Migrating".
"""

from __future__ import annotations

from dataclasses import replace

from barnabas.group.classic_group import CONSUMER_PROTOCOL_TYPE
from barnabas.group.consumer.change import GroupChange
from barnabas.group.consumer.consumer_group import ConsumerGroup, waits_for_release
from barnabas.group.consumer.conversion.downgrade import downgrade, embedded_version
from barnabas.group.consumer.conversion.embedded import (
    EmbeddedError,
    owned_in,
    read_subscription,
    write_assignment,
)
from barnabas.group.consumer.heartbeat import check_instance, check_room, replace_static
from barnabas.group.consumer.leaving import fence
from barnabas.group.consumer.member import (
    ClassicMetadata,
    ConsumerMember,
    MemberState,
)
from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.join import KNOWN_MEMBER_ID_VERSION, Joining
from barnabas.group.outcome import GroupOutcome
from barnabas.group.rebalance import join_refused, sync_refused
from barnabas.operation import Instant
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.wire.messages.heartbeat_request import HeartbeatRequest
from barnabas.wire.messages.heartbeat_response import HeartbeatResponse
from barnabas.wire.messages.join_group_response import JoinGroupResponse
from barnabas.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from barnabas.wire.messages.sync_group_request import SyncGroupRequest
from barnabas.wire.messages.sync_group_response import SyncGroupResponse
from barnabas.wire.request import Parked


def join(table: GroupTable, group: ConsumerGroup, joining: Joining) -> GroupOutcome:
    """Let the member join or rejoin; the answer follows when that is committed. Raises
    ``KafkaError`` if it may not."""
    request, at = joining.request, joining.at
    member_id = request.member_id or table.random_uuid()
    check_room(table, group, member_id)
    _check_protocols(group, joining)
    needs_id = not request.member_id and joining.instance_id is None
    if needs_id and joining.caller.api_version >= KNOWN_MEMBER_ID_VERSION:
        table.answer(joining.parked, join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return GroupOutcome()
    subscription = _subscription(joining)
    change = GroupChange(table, group, at, [])
    before = group.static_member(joining.instance_id)
    old = _member(change, joining, member_id, before)
    new = _described(old, joining, subscription)
    is_new = member_id not in group.members and member_id not in change.replaced
    topics_changed = change.describe(old, new, is_new=is_new)
    changed = change.resolve_regexes(old, new, joining.caller) or topics_changed
    change.refresh(old, new, changed)
    owned = owned_in(subscription, table.cluster)
    if before is not None and _may_downgrade(table, group, before):
        if not changed:
            target = group.assignment_epoch, change.present_target(new)
            new = change.reconcile(new, target, owned, changed=False)
        outcome = downgrade(table, group, (), at, new, change.records, rebalance=changed)
        return _answer_when_written(table, joining, new, outcome, is_consumer=False)
    new = change.reconcile(new, change.retarget(new), owned, changed=changed)
    return _answer_when_written(
        table, joining, new, GroupOutcome(records=change.records), is_consumer=True
    )


def sync(
    table: GroupTable, group: ConsumerGroup, request: SyncGroupRequest, parked: Parked, at: Instant
) -> GroupOutcome:
    """Answer with the member's assignment. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS."""
    member = _known(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    assert member.classic is not None
    chosen = member.classic.protocols[0][0] if member.classic.protocols else None
    wrong_type = request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE)
    if wrong_type or request.protocol_name not in (None, chosen):
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"member {member.member_id} uses {chosen}"
        )
    lags = group.assignment_epoch > member.epoch
    if lags and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_rejoin(table, group, member, at)
        raise KafkaError(
            ErrorCode.REBALANCE_IN_PROGRESS, f"member {member.member_id} has to rejoin"
        )
    response = SyncGroupResponse(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=chosen,
        assignment=write_assignment(member.assigned, embedded_version(member), table.cluster),
    )

    def settled(error: ErrorCode, at: Instant) -> GroupOutcome:
        if error is not ErrorCode.NONE:
            return GroupOutcome(replies=[(parked, sync_refused(error))])
        table.timers.cancel((GroupTimer.CLASSIC_SYNC, group.group_id, member.member_id))
        _keep_alive(table, group.group_id, member, at)
        return GroupOutcome(replies=[(parked, response)])

    return GroupOutcome(on_settled=settled)


def heartbeat(
    table: GroupTable, group: ConsumerGroup, request: HeartbeatRequest, at: Instant
) -> GroupOutcome:
    """Extend the member's session; the answer says whether it has to rejoin. Raises
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION."""
    member = _known(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    _keep_alive(table, group.group_id, member, at)
    released = member.state is MemberState.UNRELEASED_PARTITIONS and not waits_for_release(
        group, member
    )
    revokes = member.state is MemberState.UNREVOKED_PARTITIONS
    if member.epoch < group.assignment_epoch or revokes or released:
        _expect_rejoin(table, group, member, at)
        return GroupOutcome(reply=HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    return GroupOutcome(reply=HeartbeatResponse())


def leave(
    table: GroupTable, group: ConsumerGroup, request: LeaveGroupRequest, at: Instant
) -> GroupOutcome:
    """Remove members from the group; each gets its own answer."""
    answers: list[MemberResponse] = []
    leaving: dict[str, ConsumerMember] = {}
    for identity in request.members:
        answer = MemberResponse(
            member_id=identity.member_id, group_instance_id=identity.group_instance_id
        )
        answers.append(answer)
        try:
            member = _leaving(group, identity)
        except KafkaError as error:
            answer.error_code = error.code
        else:
            leaving[member.member_id] = member
    return fence(table, group, list(leaving.values()), at, LeaveGroupResponse(members=answers))


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    member = group.static_member(instance_id)
    member_id = identity.member_id or ("" if member is None else member.member_id)
    return check_instance(member, member_id, instance_id)


def _check_protocols(group: ConsumerGroup, joining: Joining) -> None:
    names = [name for name, _ in joining.protocols]
    classic = [
        {name for name, _ in member.classic.protocols}
        for _, member in group.members.items()
        if member.classic is not None
    ]
    shared = any(all(name in known for known in classic) for name in names)
    if joining.request.protocol_type != CONSUMER_PROTOCOL_TYPE or not shared:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"group {group.group_id} has no protocol of {names} in common",
        )


def _subscription(joining: Joining) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(joining.protocols[0][1])
    except EmbeddedError as fault:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"the embedded consumer protocol is malformed: {fault}",
        ) from fault


def _member(
    change: GroupChange, joining: Joining, member_id: str, before: ConsumerMember | None
) -> ConsumerMember:
    """The member that joins: a known one, one that replaces a static member, or a new one."""
    group, instance_id = change.group, joining.instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if joining.request.member_id:
        return check_instance(before, member_id, instance_id)
    if before is None:
        return ConsumerMember(member_id)
    return replace_static(change, before, member_id)


def _described(
    old: ConsumerMember, joining: Joining, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    request = joining.request
    return replace(
        old,
        instance_id=joining.instance_id or old.instance_id,
        rack_id=subscription.rack_id or old.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        client_id=joining.caller.client_id,
        client_host=joining.caller.client_host,
        classic=ClassicMetadata(request.session_timeout_ms, joining.protocols),
    )


def _may_downgrade(table: GroupTable, group: ConsumerGroup, before: ConsumerMember) -> bool:
    """Whether the static member that is replaced is the last one of the consumer protocol."""
    others = (member for _, member in group.members.items() if member is not before)
    return (
        not before.uses_classic_protocol
        and all(member.uses_classic_protocol for member in others)
        and table.settings.may_downgrade
        and len(group.members) <= table.settings.size_max
    )


def _answer_when_written(
    table: GroupTable,
    joining: Joining,
    member: ConsumerMember,
    outcome: GroupOutcome,
    *,
    is_consumer: bool,
) -> GroupOutcome:
    request, group_id = joining.request, joining.request.group_id
    response = JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=joining.protocols[0][0],
        member_id=member.member_id,
    )

    first = outcome.on_settled

    def settled(error: ErrorCode, at: Instant) -> GroupOutcome:
        if first is not None:
            first(error, at)
        if error is not ErrorCode.NONE:
            return GroupOutcome(replies=[(joining.parked, join_refused(error, request.member_id))])
        table.timers.cancel((GroupTimer.CLASSIC_JOIN, group_id, member.member_id))
        if is_consumer:
            _keep_alive(table, group_id, member, at)
            key = (GroupTimer.CLASSIC_SYNC, group_id, member.member_id)
            table.timers.schedule(key, at.now_ms + request.rebalance_timeout_ms)
        return GroupOutcome(replies=[(joining.parked, response)])

    outcome.settle_by(settled)
    return outcome


def _known(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = check_instance(group.static_member(instance_id), member_id, instance_id)
    if member.classic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} does not use the classic protocol"
        )
    return member


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"member {member.member_id} is in generation {member.epoch}, not {generation}",
        )


def _keep_alive(table: GroupTable, group_id: str, member: ConsumerMember, at: Instant) -> None:
    assert member.classic is not None
    key = (GroupTimer.SESSION, group_id, member.member_id)
    table.timers.schedule(key, at.now_ms + member.classic.session_timeout_ms)


def _expect_rejoin(
    table: GroupTable, group: ConsumerGroup, member: ConsumerMember, at: Instant
) -> None:
    key = (GroupTimer.CLASSIC_JOIN, group.group_id, member.member_id)
    if table.timers.pending(key) is None:
        table.timers.schedule(key, at.now_ms + member.rebalance_timeout_ms)
