"""Sources of figures that commands show, too: those of the controller, the coordinators and the
quorum."""

from __future__ import annotations

from collections.abc import Iterator, Set

from barnabas.broker.broker import Broker
from barnabas.broker.metrics import count_steps as broker_steps
from barnabas.client.network.traffic import CarriedTraffic
from barnabas.controller.active.metrics import count_steps as controller_steps
from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.monitoring.exposition import Exposition, labels_text
from barnabas.raft.raft_node import RaftNode

RAFT = "kafka.server:type=raft-metrics,name="
RAFT_CHANNEL = "kafka.server:type=raft-channel-metrics,name="
STATE = "current-state"
UNTOLD = ("current-vote-directory-id",)
"""The quorum's figures that are no numbers."""


def controller_source(controller: QuorumController, page: Exposition) -> Iterator[None]:
    """The controller's figures. A controller that is not active counts its own image, as in
    Kafka."""
    counted: dict[str, int] = {}
    yield from controller_steps(controller, counted.update)
    for mbean, value in counted.items():
        page.add_named(mbean, value)


def broker_source(broker: Broker, known: Set[str], page: Exposition) -> Iterator[None]:
    """`known` are MBeans that another source has given already: listeners of a node with both roles."""
    counted: dict[str, int] = {}
    yield from broker_steps(broker, counted.update)
    for mbean, value in counted.items():
        if mbean not in known:
            page.add_named(mbean, value)


def quorum_source(
    quorum: RaftNode, carried: CarriedTraffic, now_ms: float, page: Exposition
) -> Iterator[None]:
    """`carried`: what the connections to other replicas have carried."""
    for name, count in (
        ("request-total", carried.requests),
        ("response-total", carried.responses),
        ("outgoing-byte-total", carried.bytes_out),
        ("incoming-byte-total", carried.bytes_in),
    ):
        page.add(f"{RAFT_CHANNEL}{name}", count)
    for name, value in quorum.metrics.describe(now_ms).items():
        if name == STATE:
            page.add(
                "kafka_server_raftmetrics_current_state{current_state}",
                1,
                labels_text({"current_state": str(value)}),
            )
        elif name not in UNTOLD and not isinstance(value, str):
            page.add(f"{RAFT}{name}", value)
    yield
