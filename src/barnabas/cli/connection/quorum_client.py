"""How a command asks the quorum: through any broker, or at the controllers themselves.

`--bootstrap` asks a broker, which forwards to the active controller. `--bootstrap-controller` asks the
controllers' own listener, also where no broker runs: any of them says who leads and where (KIP-919),
and the leader describes the quorum.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from barnabas.cli.connection.connect import CONTROLLERS, USAGE, cluster
from barnabas.cli.failure import Failure
from barnabas.client.client import raise_for
from barnabas.client.network.connection import ChannelError
from barnabas.host.client import Connected
from barnabas.types import METADATA_TOPIC, Endpoint
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from barnabas.wire.schema import Message

TIMEOUT_MS = 10_000.0
REQUEST_TIMEOUT_MS = 3_000.0

Controllers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-controller",
        "-C",
        metavar="HOST:PORT,...",
        help="Controllers to ask instead of brokers.",
    ),
]


class QuorumClient:
    """Asks one quorum. `cluster_id` is known once it has answered."""

    def __init__(self, connected: Connected, controllers: list[Endpoint]) -> None:
        self.connected = connected
        self._controllers = controllers
        self.cluster_id = ""

    def describe(self, *, metrics: bool = False) -> Any:
        """The leader's `DescribeQuorumResponse`; waits for a leader where there is none. Raises
        `KafkaError`, `ChannelError`."""

        def request() -> DescribeQuorumRequest:
            topic = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData()])
            return DescribeQuorumRequest(topics=[topic], include_metrics=metrics)

        client = self.connected.client
        if not self._controllers:
            response = self.connected.call(client.ask_any(request, _check))
            self.cluster_id = client.cluster.cluster_id or ""
            return response

        async def attempt() -> Any:
            leader = await self._find_leader()
            response = await client.send(leader, request(), timeout_ms=REQUEST_TIMEOUT_MS)
            _check(response)
            return response

        return self.connected.call(client.retry(attempt, timeout_ms=TIMEOUT_MS))

    def would_describe(self) -> str:
        """One sentence: what `describe` would ask, and which server. Sends no request."""
        asked = ", ".join(map(str, self._controllers or self.connected.client.cluster.candidates()))
        if self._controllers:
            way = f"whichever controller of {asked} answers says who leads, and the leader is asked"
        else:
            way = f"whichever broker of {asked} answers forwards it to the leader"
        return f"DescribeQuorum of {METADATA_TOPIC}: {way}; nothing is changed by asking"

    def ask_leader(self, described: Any, request: Message, timeout_ms: float) -> Any:
        """Send a change to the controller listener of the leader that `described` names. Raises `Failure`
        where it refuses, `ChannelError`."""
        leader = described.topics[0].partitions[0].leader_id
        listeners = {node.node_id: node.listeners for node in described.nodes}.get(leader)
        if not listeners:
            raise Failure(f"where the leader {leader} listens is not known")
        at, client = listeners[0], self.connected.client
        response = self.connected.call(
            client.send(Endpoint(at.host, at.port), request, timeout_ms=timeout_ms)
        )
        if response.error_code:
            name = code_of(response.error_code).name
            raise Failure(f"{name}: {response.error_message or 'the leader refuses'}")
        return response

    async def _find_leader(self) -> Endpoint:
        """The address of the active controller, as any controller says that answers."""
        failure: Exception | None = None
        for endpoint in self._controllers:
            asked = DescribeClusterRequest(endpoint_type=CONTROLLERS)
            try:
                answer = await self.connected.client.send(
                    endpoint, asked, timeout_ms=REQUEST_TIMEOUT_MS
                )
                raise_for(answer.error_code, answer.error_message)
            except KafkaError as error:
                failure = error
                if error.code is ErrorCode.MISMATCHED_ENDPOINT_TYPE:
                    text = f"{endpoint} is a broker's listener: give it to --bootstrap"
                    failure = KafkaError(error.code, text)
                continue
            except ChannelError as error:
                failure = error
                continue
            self.cluster_id = answer.cluster_id
            for node in answer.brokers:
                if node.broker_id == answer.controller_id:
                    return Endpoint(node.host, node.port)
            failure = KafkaError(ErrorCode.NOT_CONTROLLER, _why_not_found(answer.controller_id))
        assert failure is not None
        raise failure


def _why_not_found(leader: int) -> str:
    if leader < 0:
        return "the quorum has no leader at present"
    return f"node {leader} leads the quorum and has not yet said where it listens"


@contextmanager
def quorum_client(
    bootstrap: str | None, controllers: str | None, data: Path | None, *, dry_run: bool = False
) -> Iterator[QuorumClient]:
    """Turns what is raised into one sentence and an exit status. A `dry_run` sends no request."""
    if controllers and bootstrap:
        raise Failure("choose --bootstrap or --bootstrap-controller", USAGE)
    with cluster(controllers or bootstrap, data, refresh=not (controllers or dry_run)) as connected:
        yield QuorumClient(connected, connected.client.cluster.candidates() if controllers else [])


def _check(response: Any) -> None:
    raise_for(response.error_code, response.error_message)
    for topic in response.topics:
        for partition in topic.partitions:
            raise_for(partition.error_code, partition.error_message)
