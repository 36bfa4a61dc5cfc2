"""Peers whose answers can never become right: they are of another cluster, or are no controllers.

A directory that was formatted with another cluster id, or ``controller.quorum.voters`` that name another
cluster's controllers, cannot be distinguished from a slow start by the protocol: every request is refused
and repeated. So the refusals are counted here by peer. Each is said once, and again every
`REPEAT_MS`, with this node's cluster id, theirs, and the directory that has this one's. That the peers are
another quorum of this cluster is said as rarely.

The node ends where it has belonged to no quorum in this life, and so many of its voters are of another
cluster that the others are no majority: nothing that it could wait for makes that right. One that had a
leader is not ended by what its peers became.

Source: none; Apache Kafka's ``KafkaRaftClient`` logs such an answer each time, and a broker ends by
``initial.broker.registration.timeout.ms``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from barnabas.ports import Ports
from barnabas.raft.core.machine import Machine
from barnabas.raft.core.messages import FetchRequest, Request
from barnabas.raft.transport import Transport
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_cluster_response import DescribeClusterResponse

CONTROLLERS = 2
"""The endpoint type of controllers, in DescribeCluster."""
REPEAT_MS = 60_000.0
OTHER_QUORUM = (
    "if another quorum has these controllers' addresses now, restart this node under it; if the controllers"
    " are those of before, they need the majority that has elected the later epoch"
)
NO_CONTROLLER = frozenset(
    {
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
    }
)
"""The answers to a fetch of the metadata log where no controller listens."""


@dataclass(slots=True)
class Stranger:
    """A peer that refuses this replica for good."""

    since_ms: float
    why: ErrorCode
    cluster_id: str = ""
    """Its own; empty where it did not say."""
    said_ms: float = float("-inf")


class Strangers:
    """Those that one replica has met. `halt` ends the node with a sentence."""

    def __init__(
        self,
        ports: Ports,
        directory: str,
        transport: Transport,
        machine: Machine,
        halt: Callable[[str], None],
    ) -> None:
        self._ports = ports
        self._settings = machine.settings
        self._directory = directory.rpartition("/")[0]
        """The directory that has ``meta.properties``."""
        self._transport = transport
        self._machine = machine
        self._halt = halt
        self._belongs = False
        """Whether this replica has had a leader in this life."""
        self._known: dict[Endpoint, Stranger] = {}
        self._other_quorum_said_ms = float("-inf")

    def on_leader(self, leader_id: int) -> None:
        self._belongs |= leader_id >= 0

    def on_answer(self, endpoint: Endpoint, request: Request, error: ErrorCode) -> None:
        """`endpoint` answered `request`."""
        if error is ErrorCode.NONE:
            if self._known:
                self._known.pop(endpoint, None)
            return
        is_final = error is ErrorCode.INCONSISTENT_CLUSTER_ID
        is_final |= type(request) is FetchRequest and error in NO_CONTROLLER
        if is_final:
            self._refused(endpoint, error)
        else:
            self._known.pop(endpoint, None)

    def on_other_quorum(self, reason: str) -> None:
        """An answer shows another quorum. Each further one does, too: one comes with every fetch."""
        now_ms = self._ports.clock.now_ms()
        if now_ms - self._other_quorum_said_ms >= REPEAT_MS:
            self._other_quorum_said_ms = now_ms
            self._ports.log("warning", "raft.other_quorum", reason=reason, what_now=OTHER_QUORUM)

    def _refused(self, endpoint: Endpoint, error: ErrorCode) -> None:
        now_ms = self._ports.clock.now_ms()
        stranger = self._known.get(endpoint)
        if stranger is None or stranger.why is not error:
            stranger = self._known[endpoint] = Stranger(now_ms, error)
        if error is not ErrorCode.INCONSISTENT_CLUSTER_ID:
            if now_ms - stranger.since_ms >= self._settings.fetch_timeout_ms:
                self._say(endpoint, stranger, f"{endpoint} is no controller of this cluster")
        elif stranger.since_ms == now_ms:
            self._ask_for_its_id(endpoint, stranger)
        else:
            self._say(endpoint, stranger, self._sentence(endpoint, stranger))
            self._end_if_hopeless(now_ms)

    def _ask_for_its_id(self, endpoint: Endpoint, stranger: Stranger) -> None:
        """The protocol's refusals do not tell it."""

        def on_done(answer: Any) -> None:
            if isinstance(answer, DescribeClusterResponse) and not answer.error_code:
                stranger.cluster_id = answer.cluster_id

        request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        timeout_ms = self._settings.request_timeout_ms
        self._transport.send(
            endpoint, request, on_done, timeout_ms=timeout_ms, purpose="cluster id"
        )

    def _say(self, endpoint: Endpoint, stranger: Stranger, sentence: str) -> None:
        now_ms = self._ports.clock.now_ms()
        if now_ms - stranger.said_ms < REPEAT_MS:
            return
        stranger.said_ms = now_ms
        self._ports.log(
            "error",
            "raft.peer_refuses",
            node=self._settings.node_id,
            peer=str(endpoint),
            error=stranger.why.name,
            reason=sentence,
        )

    def _sentence(self, endpoint: Endpoint, stranger: Stranger) -> str:
        theirs = f"cluster {stranger.cluster_id}" if stranger.cluster_id else "another cluster"
        mine = self._settings.cluster_id
        return f"{self._directory} is of cluster {mine}, and {endpoint} is of {theirs}"

    def _end_if_hopeless(self, now_ms: float) -> None:
        if self._belongs:
            return
        patience_ms = self._settings.fetch_timeout_ms
        lost = {
            endpoint: stranger
            for endpoint, stranger in self._known.items()
            if stranger.why is ErrorCode.INCONSISTENT_CLUSTER_ID
            and now_ms - stranger.since_ms >= patience_ms
        }
        peers, all_of_them = self._peers()
        others = sum(endpoint in lost for endpoint in peers)
        if others and all_of_them - others < all_of_them // 2 + 1:
            endpoint = next(at for at in peers if at in lost)
            key = "voters" if self._settings.static_voters else "bootstrap.servers"
            self._halt(
                f"{self._sentence(endpoint, lost[endpoint])}: this node can never join them. Correct"
                f" controller.quorum.{key}, or remove the directory's contents and format it with"
                f" the right --cluster-id"
            )

    def _peers(self) -> tuple[list[Endpoint], int]:
        """Whom this replica depends on, without itself, and how many they are with it."""
        voters = self._machine.voters.nodes
        if voters:
            return [endpoint for _, endpoint in self._machine.other_voters()], len(voters)
        servers = [
            at for at in self._settings.bootstrap_servers if at != self._machine.own_endpoint
        ]
        return servers, len(servers)
