"""Ends a controller that was started with the id of the leading controller, and says who leads.

No other voter names a leader to a process that has the leader's own id, so this process would wait
for a leader for ever. After `FIRST_CHECK_MS` without any leader since its start it asks the other
static voters who is active (DescribeCluster, KIP-919). A voter may name a leader that died. So it
takes two answers that are `CHECK_INTERVAL_MS` apart, and then the named endpoint itself has to say
that it leads, which only another process can. The check asks only static voters: in a dynamic
quorum another directory is another replica (KIP-853). Apache Kafka has no such check.
`controller_registrar` covers the other case: the id of a controller that follows.
"""

from __future__ import annotations

from functools import partial

from barnabas.controller.active.unclean_recovery import QuerySender
from barnabas.controller.duties import DutyController
from barnabas.ports import Wakeup
from barnabas.types import Endpoint
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_cluster_response import DescribeClusterResponse

FIRST_CHECK_MS = 10_000.0
CHECK_INTERVAL_MS = 5_000.0
REQUEST_TIMEOUT_MS = 2_000.0
CONTROLLERS = 2
"""Endpoint type of DescribeCluster."""


class LeadersIdCheck:
    """The check of one process, from its start until it hears of a leader."""

    def __init__(self, controller: DutyController, sender: QuerySender) -> None:
        self._controller = controller
        self._sender = sender
        self._others = [
            v.endpoint for v in controller.config.voters if v.node_id != controller.node_id
        ]
        self._named: dict[Endpoint, int] = {}
        """How often each voter has named this id as the leader's."""
        self._wakeup: Wakeup | None = None
        if self._others:
            self._arm(FIRST_CHECK_MS)

    def on_leader(self) -> None:
        """This process has heard of a leader, so the check ends."""
        self._others = []
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None

    def _arm(self, wait_ms: float) -> None:
        at = self._controller.now_ms() + wait_ms
        self._wakeup = self._controller.ports.wakeups.call_at(at, self._ask_others)

    def _ask_others(self) -> None:
        for voter in self._others:
            request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
            answered = partial(self._answered, voter)
            self._sender.send(
                voter, request, answered, timeout_ms=REQUEST_TIMEOUT_MS, purpose="who is active"
            )
        self._arm(CHECK_INTERVAL_MS)

    def _answered(self, voter: Endpoint, answer: object) -> None:
        me = self._controller.node_id
        if not self._others or not isinstance(answer, DescribeClusterResponse):
            return
        if answer.error_code or answer.controller_id != me:
            self._named.pop(voter, None)
            return
        self._named[voter] = self._named.get(voter, 0) + 1
        at = [Endpoint(c.host, c.port) for c in answer.brokers if c.broker_id == me]
        if self._named[voter] >= 2 and at:
            confirmed = partial(self._confirmed, at[0])
            request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
            self._sender.send(
                at[0], request, confirmed, timeout_ms=REQUEST_TIMEOUT_MS, purpose="who is active"
            )

    def _confirmed(self, holder: Endpoint, answer: object) -> None:
        """Ask the named endpoint whether it leads. This process's own endpoint would name no
        leader."""
        me = self._controller.node_id
        if not self._others or not isinstance(answer, DescribeClusterResponse):
            return
        if not answer.error_code and answer.controller_id == me:
            self._controller.ports.halt(
                f"another process has the controller id {me}: the controller at {holder} leads the quorum."
                " Give one of the two another node.id"
            )
