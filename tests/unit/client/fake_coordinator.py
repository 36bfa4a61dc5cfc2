"""A coordinator of one classic group with the least that members can see of one."""

from __future__ import annotations

from typing import Any

from barnabas.wire.api_table import ApiKey
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat_request import HeartbeatRequest
from barnabas.wire.messages.heartbeat_response import HeartbeatResponse
from barnabas.wire.messages.join_group_request import JoinGroupRequest
from barnabas.wire.messages.join_group_response import (
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from barnabas.wire.messages.leave_group_request import LeaveGroupRequest
from barnabas.wire.messages.leave_group_response import LeaveGroupResponse
from barnabas.wire.messages.sync_group_request import SyncGroupRequest
from barnabas.wire.messages.sync_group_response import SyncGroupResponse
from barnabas.wire.request import Api, Parked, RequestContext


class FakeCoordinator:
    """Members join when all known ones have asked again; the leader's sync answers all."""

    def __init__(self) -> None:
        self.generation = 0
        self.members: dict[str, bytes] = {}
        self.joining: dict[str, Parked] = {}
        self.syncing: dict[str, Parked] = {}
        self.assignments: dict[str, bytes] = {}
        self.ids = 0
        self.rebalancing = False
        self.moved = 0
        """Answer so many heartbeats with NOT_COORDINATOR."""
        self.refusal = ErrorCode.NONE
        """What every member that joins gets."""

    def serve(self, table: ApiTable) -> None:
        for key, request, response, handle in (
            (ApiKey.JOIN_GROUP, JoinGroupRequest, JoinGroupResponse, self.join),
            (ApiKey.SYNC_GROUP, SyncGroupRequest, SyncGroupResponse, self.sync),
            (ApiKey.HEARTBEAT, HeartbeatRequest, HeartbeatResponse, self.heartbeat),
            (ApiKey.LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse, self.leave),
        ):
            table.add_handler(Api(key, request, top_level_error(response)), handle, None)

    def forget(self, member: str) -> None:
        """As when its session ended."""
        del self.members[member]
        self.rebalance()

    def rebalance(self) -> None:
        self.rebalancing = True
        self.assignments.clear()
        for parked in self.syncing.values():
            parked.complete(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        self.syncing.clear()
        self.maybe_complete()

    def join(self, request: JoinGroupRequest, ctx: RequestContext, role: Any) -> Any:
        if self.refusal:
            return JoinGroupResponse(error_code=self.refusal)
        if not request.member_id:
            self.ids += 1
            return JoinGroupResponse(
                error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=f"member-{self.ids}"
            )
        if request.member_id not in self.members and not request.member_id.startswith("member-"):
            return JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        self.members[request.member_id] = bytes(request.protocols[0].metadata)
        parked = self.joining[request.member_id] = Parked()
        self.rebalance()
        return parked

    def maybe_complete(self) -> None:
        if not self.members or set(self.joining) != set(self.members):
            return
        self.generation += 1
        self.rebalancing = False
        leader = min(self.members)
        told = [
            JoinGroupResponseMember(member_id=m, metadata=d)
            for m, d in sorted(self.members.items())
        ]
        waiting, self.joining = self.joining, {}
        for member, parked in waiting.items():
            parked.complete(
                JoinGroupResponse(
                    generation_id=self.generation,
                    protocol_name="range",
                    leader=leader,
                    member_id=member,
                    members=told if member == leader else [],
                )
            )

    def sync(self, request: SyncGroupRequest, ctx: RequestContext, role: Any) -> Any:
        if request.generation_id != self.generation or self.rebalancing:
            return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        for given in request.assignments:
            self.assignments[given.member_id] = bytes(given.assignment)
        parked = self.syncing[request.member_id] = Parked()
        if self.assignments:
            for member, waiting in self.syncing.items():
                waiting.complete(SyncGroupResponse(assignment=self.assignments.get(member, b"")))
            self.syncing.clear()
        return parked

    def heartbeat(self, request: HeartbeatRequest, ctx: RequestContext, role: Any) -> Any:
        if self.moved:
            self.moved -= 1
            return HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
        if request.member_id not in self.members:
            return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        code = ErrorCode.REBALANCE_IN_PROGRESS if self.rebalancing else ErrorCode.NONE
        return HeartbeatResponse(error_code=code)

    def leave(self, request: LeaveGroupRequest, ctx: RequestContext, role: Any) -> Any:
        for member in request.members:
            self.members.pop(member.member_id, None)
            self.joining.pop(member.member_id, None)
        self.rebalance()
        return LeaveGroupResponse()
