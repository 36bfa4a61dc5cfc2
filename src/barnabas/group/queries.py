"""Lists, describes and counts groups. A group is seen once its existence is committed; its state is
the newest.

Source: ``GroupMetadataManager.listGroups`` and ``describeGroups``, ``GroupCoordinatorMetrics`` of Apache
Kafka 4.3; KIP-518, KIP-848, KIP-1043.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.group.classic_group import ClassicGroup, ClassicGroupMember, GroupState
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.group_table import SHARE_TYPE, GroupTable
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from barnabas.wire.messages.list_groups_response import ListedGroup

CLASSIC_TYPE, CONSUMER_TYPE = "classic", "consumer"
"""The types of groups, in the words of Kafka's ``Group.GroupType``. The types of the other kinds
are their protocol types."""
NOT_FOUND_VERSION = 6
"""The first version of DescribeGroups in which a missing group is an error, not a dead group."""
_S = GroupState
CLASSIC_STATES = (
    _S.PREPARING_REBALANCE,
    _S.COMPLETING_REBALANCE,
    _S.STABLE,
    _S.DEAD,
    _S.EMPTY,
)
SHARE_STATES = (_S.EMPTY, _S.STABLE, _S.DEAD)
STREAMS_STATES = (
    _S.EMPTY,
    _S.NOT_READY,
    _S.ASSIGNING,
    _S.RECONCILING,
    _S.STABLE,
    _S.DEAD,
)
CONSUMER_STATES = (_S.EMPTY, _S.ASSIGNING, _S.RECONCILING, _S.STABLE, _S.DEAD)


def list_groups(
    table: GroupTable, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[ListedGroup]:
    """The groups in one of `states` and of one of `types`, case ignored; empty means any."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.strip().lower() for kind in types}
    listed = []
    for group_id, group in table.groups.committed_items():
        if isinstance(group, ClassicGroup):
            kind, state = CLASSIC_TYPE, group.state
        else:
            is_consumer = isinstance(group, ConsumerGroup)
            kind = CONSUMER_TYPE if is_consumer else group.protocol_type
            state = group.committed_state()
        if wanted_types and kind not in wanted_types:
            continue
        names = {state.value.lower(), state.name.lower()}
        if wanted_states and not names & wanted_states:
            continue
        listed.append(
            ListedGroup(
                group_id=group_id,
                protocol_type=group.protocol_type or "",
                group_state=state.value,
                group_type=kind,
            )
        )
    return listed


def describe_group(table: GroupTable, group_id: str, api_version: int) -> DescribedGroup:
    """The description of one group with its members. Metadata and protocol are given only if it is
    stable."""
    try:
        group = table.committed_group(group_id)
        if not isinstance(group, ClassicGroup):
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group."
            )
    except KafkaError as error:
        if api_version < NOT_FOUND_VERSION:
            return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        return DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=error.message,
        )
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[_describe_member(group, member, stable) for member in group.members.values()],
    )


def _describe_member(
    group: ClassicGroup, member: ClassicGroupMember, stable: bool
) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name) if stable else b"",
        member_assignment=member.assignment,
    )


class GroupTally:
    """Counts groups by type and state, and offsets, over the partitions that were added."""

    __slots__ = ("classic", "consumer", "offsets", "share", "streams")

    def __init__(self) -> None:
        self.classic = dict.fromkeys(CLASSIC_STATES, 0)
        self.consumer = dict.fromkeys(CONSUMER_STATES, 0)
        self.share = dict.fromkeys(SHARE_STATES, 0)
        self.streams = dict.fromkeys(STREAMS_STATES, 0)
        self.offsets = 0

    def __repr__(self) -> str:
        return f"GroupTally({sum(self.classic.values())} classic, {sum(self.consumer.values())} consumer)"

    def add(self, table: GroupTable, offsets: int) -> None:
        """Count the committed groups of one partition, and the offsets committed there."""
        self.offsets += offsets
        for _, group in table.groups.committed_items():
            if isinstance(group, ClassicGroup):
                self.classic[group.state] += 1
            elif isinstance(group, ConsumerGroup):
                self.consumer[group.committed_state()] += 1
            elif group.protocol_type == SHARE_TYPE:
                self.share[group.committed_state()] += 1
            else:
                self.streams[group.committed_state()] += 1
