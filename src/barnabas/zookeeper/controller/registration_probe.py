"""Whether the process that listens at a broker's endpoint is the one that is registered.

A broker that was restarted listens before it has registered, and the znode of its former process stays until
that session ends. The controller sends a LeaderAndIsr without partitions and with the registration's broker
epoch: only the registered process answers it without an error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.kafka39.leader_and_isr_request import LeaderAndIsrRequest
from barnabas.wire.messages.kafka39.leader_and_isr_response import LeaderAndIsrResponse
from barnabas.zookeeper.election.controller_election import ProbeNetwork

PURPOSE = "registration probe"
TIMEOUT_MS = 2_000.0


def probe_registration(
    network: ProbeNetwork,
    at: Endpoint,
    controller: tuple[int, int],
    broker_epoch: int,
    then: Callable[[bool], None],
) -> None:
    """`controller` is its id and epoch; `then` receives whether the registered process answered."""
    controller_id, controller_epoch = controller
    request = LeaderAndIsrRequest(
        controller_id=controller_id,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        type=0,
        topic_states=[],
        live_leaders=[],
    )
    network.send(at, request, partial(_on_answer, then), timeout_ms=TIMEOUT_MS, purpose=PURPOSE)


def _on_answer(then: Callable[[bool], None], answer: object) -> None:
    then(isinstance(answer, LeaderAndIsrResponse) and answer.error_code == ErrorCode.NONE)
