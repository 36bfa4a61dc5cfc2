"""JoinGroup of the classic protocol, for new and known, dynamic and static members.

A request that has to wait is kept in the group (``ClassicGroupMember.parked_join``) until
`rebalance` answers it.

Source: ``GroupMetadataManager.classicGroupJoin*`` of Apache Kafka 4.3; KIP-345 (static members),
KIP-394 (clients get an id before they join), KIP-814 (a static leader that returns need not
assign).
"""

from __future__ import annotations

from barnabas.group.classic_group import ClassicGroup, ClassicGroupMember, GroupState, Protocols
from barnabas.group.group_table import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupTable, GroupTimer
from barnabas.group.outcome import Caller, GroupOutcome
from barnabas.group.rebalance import (
    join_refused,
    joined,
    maybe_complete_join,
    prepare_rebalance,
    rebalance_or_complete,
    sync_refused,
)
from barnabas.group.record_codec import empty_group_record, group_record
from barnabas.operation import Instant
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.join_group_request import JoinGroupRequest
from barnabas.wire.messages.join_group_response import JoinGroupResponse
from barnabas.wire.request import Parked

KNOWN_MEMBER_ID_VERSION = 4
"""From this version on a dynamic member is given its id before it may join (KIP-394)."""
SKIP_ASSIGNMENT_VERSION = 9


class Joining:
    """The state of one JoinGroup request."""

    __slots__ = ("at", "caller", "instance_id", "parked", "protocols", "request")

    def __init__(
        self, request: JoinGroupRequest, caller: Caller, parked: Parked, at: Instant
    ) -> None:
        self.request = request
        self.caller = caller
        self.parked = parked
        self.at = at
        self.instance_id = request.group_instance_id
        self.protocols: Protocols = tuple(
            (protocol.name, bytes(protocol.metadata)) for protocol in request.protocols
        )


def join_group(table: GroupTable, joining: Joining, after: int = 0) -> GroupOutcome:
    """Let a client join the group, and answer it at once or later. A new group is written to the
    log; its generations follow `after`."""
    request, at = joining.request, joining.at
    is_new_group = request.group_id not in table.groups
    if is_new_group and request.member_id:
        return _refuse(table, joining, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
    group = table.classic_or_new(request.group_id, at)
    if is_new_group:
        group.generation = after
    if not _has_room(table, group, request.member_id):
        group.remove(request.member_id)
        outcome = _refuse(table, joining, ErrorCode.GROUP_MAX_SIZE_REACHED)
    elif not group.supports(request.protocol_type, (name for name, _ in joining.protocols)):
        outcome = _refuse(table, joining, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif not request.member_id:
        outcome = _join_unknown(table, group, joining)
    else:
        outcome = _join_known(table, group, joining)
    if is_new_group and not outcome.decides:
        return _write_new_group(group, joining)
    return outcome


def _write_new_group(group: ClassicGroup, joining: Joining) -> GroupOutcome:
    def settled(error: ErrorCode, at: Instant) -> GroupOutcome:
        outcome = GroupOutcome()
        if error is not ErrorCode.NONE:
            outcome.replies.append((joining.parked, join_refused(error)))
        return outcome

    return GroupOutcome(records=[empty_group_record(group)], replay=False, on_settled=settled)


def _refuse(
    table: GroupTable, joining: Joining, code: ErrorCode, member_id: str = ""
) -> GroupOutcome:
    table.answer(joining.parked, join_refused(code, member_id))
    return GroupOutcome()


def _has_room(table: GroupTable, group: ClassicGroup, member_id: str) -> bool:
    """Whether the group has room (``group.max.size``). A member may always rejoin."""
    member, limit = group.members.get(member_id), table.settings.size_max
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        waits = member is not None and member.parked_join is not None
        return waits or group.awaiting_join_count < limit
    return member is not None or len(group.members) < limit


def _join_unknown(table: GroupTable, group: ClassicGroup, joining: Joining) -> GroupOutcome:
    """Serve a client without a member id: a static member with an instance id, or a dynamic one."""
    instance_id = joining.instance_id
    prefix = joining.caller.client_id if instance_id is None else instance_id
    member_id = table.new_member_id(prefix)
    if instance_id is not None:
        old_id = group.static_members.get(instance_id)
        if old_id is not None:
            return _replace_static(table, group, joining, old_id, member_id)
        return _add(table, group, joining, member_id)
    if joining.caller.api_version < KNOWN_MEMBER_ID_VERSION:
        return _add(table, group, joining, member_id)
    group.pending_joins[member_id] = None
    key = (GroupTimer.SESSION, group.group_id, member_id)
    table.timers.schedule(key, joining.at.now_ms + joining.request.session_timeout_ms)
    return _refuse(table, joining, ErrorCode.MEMBER_ID_REQUIRED, member_id)


def _join_known(table: GroupTable, group: ClassicGroup, joining: Joining) -> GroupOutcome:
    """Serve a client with a member id: it has just got the id, or it is a member that rejoins."""
    member_id = joining.request.member_id
    if member_id in group.pending_joins:
        if joining.instance_id is not None:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"{member_id!r} was given to a dynamic member, not to instance {joining.instance_id}",
            )
        return _add(table, group, joining, member_id)
    try:
        group.check_member(member_id, joining.instance_id)
    except KafkaError as error:
        return _refuse(table, joining, error.code, member_id)
    member = group.members[member_id]
    same = member.protocols == joining.protocols
    is_leader = group.leader_id == member_id
    if group.state is GroupState.COMPLETING_REBALANCE and same:
        # It has not received the answer to its last JoinGroup: send it again.
        table.answer(joining.parked, joined(group, member_id, with_members=is_leader))
        return GroupOutcome()
    if group.state is GroupState.STABLE and same and not is_leader:
        table.answer(joining.parked, joined(group, member_id, with_members=False))
        return GroupOutcome()
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        return _refuse(table, joining, ErrorCode.UNKNOWN_MEMBER_ID, member_id)
    _update(table, member, joining)
    return rebalance_or_complete(table, group, joining.at)


def _add(table: GroupTable, group: ClassicGroup, joining: Joining, member_id: str) -> GroupOutcome:
    request, at = joining.request, joining.at
    member = ClassicGroupMember(
        member_id,
        joining.instance_id,
        client_id=joining.caller.client_id,
        client_host=joining.caller.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=joining.protocols,
    )
    member.is_new = True
    member.parked_join = joining.parked
    waits_for_more = (
        group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY
    )
    if waits_for_more:
        group.new_member_added = True
    group.add(member)
    # A member cannot send heartbeats before its first generation, and some clients never return.
    table.keep_alive(group, member, at, NEW_MEMBER_JOIN_TIMEOUT_MS)
    return rebalance_or_complete(table, group, at)


def _update(table: GroupTable, member: ClassicGroupMember, joining: Joining) -> None:
    request = joining.request
    # A JoinGroup that waits already is superseded: it must not wait for ever.
    table.answer_join(member, join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    member.protocols = joining.protocols
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    member.parked_join = joining.parked


def _replace_static(
    table: GroupTable, group: ClassicGroup, joining: Joining, old_id: str, new_id: str
) -> GroupOutcome:
    """Replace a static member that returned under a new id. A stable group keeps its generation,
    unless the member's protocols change the chosen one, or its subscription differs, which no other
    member would notice."""
    at, old_leader = joining.at, group.leader_id
    old = group.members[old_id]
    fenced = ErrorCode.FENCED_INSTANCE_ID
    table.answer_join(old, join_refused(fenced, old_id))
    table.answer_sync(old, sync_refused(fenced))
    member = group.replace_static(joining.instance_id or "", old_id, new_id)
    table.keep_alive(group, member, at)
    before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    _update(table, member, joining)
    if group.state is GroupState.STABLE:
        if group.select_protocol() != group.protocol_name or _changes_subscription(group):
            return rebalance_or_complete(table, group, at)
        return _write_replacement(table, group, joining, (old_id, new_id, old_leader), before)
    if group.state is GroupState.COMPLETING_REBALANCE:
        return prepare_rebalance(table, group, at)
    return maybe_complete_join(table, group, at)


def _changes_subscription(group: ClassicGroup) -> bool:
    """Whether the members together subscribe to other topics than at the start of this
    generation."""
    topics = group.compute_topics()
    return None not in (topics, group.topics) and topics != group.topics


def _write_replacement(
    table: GroupTable,
    group: ClassicGroup,
    joining: Joining,
    ids: tuple[str, str, str | None],
    before: tuple[Protocols, int, int],
) -> GroupOutcome:
    """Write the new id, then answer with the present generation. If the write fails, restore the
    old id, unless a rebalance has used the new one meanwhile."""
    old_id, new_id, old_leader = ids

    def settled(error: ErrorCode, at: Instant) -> GroupOutcome:
        member = group.members.get(new_id)
        if error is not ErrorCode.NONE:
            if member is not None and member.parked_join is joining.parked:
                member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms = before
                member.parked_join = None
                old = group.replace_static(joining.instance_id or "", new_id, old_id)
                table.keep_alive(group, old, at)
            response = joined(group, "", with_members=False, leader_id=old_leader)
            response.error_code = error
            table.answer(joining.parked, response)
        elif member is not None and group.state is GroupState.STABLE:
            # Else it waits for the rebalance that began meanwhile, as if it had rejoined.
            if member.parked_join is joining.parked:
                # Its session may have expired meanwhile, which does not matter while its request
                # waits.
                table.keep_alive(group, member, at)
            table.answer_join(member, _returned(group, joining.caller, new_id, old_leader))
        return GroupOutcome()

    assignments = {m.member_id: m.assignment for m in group.members.values()}
    return GroupOutcome(
        records=[group_record(group, assignments)], replay=False, on_settled=settled
    )


def _returned(
    group: ClassicGroup, caller: Caller, member_id: str, old_leader: str | None
) -> JoinGroupResponse:
    if caller.api_version >= SKIP_ASSIGNMENT_VERSION:
        is_leader = group.leader_id == member_id
        return joined(group, member_id, with_members=is_leader, skip_assignment=is_leader)
    # Older clients would compute a new assignment if the answer named them as leader.
    return joined(group, member_id, with_members=False, leader_id=old_leader)
