"""A look around before a second quorum is begun for a cluster that has one already.

Asks whoever answers at the bootstrap servers for the metadata log under this cluster's id. Whoever does not
answer now is not seen: the guard prevents mistakes, not malice.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.client.channels import Channels
from barnabas.host.journal import Journal
from barnabas.host.loop import new_loop
from barnabas.host.ports import HostPorts
from barnabas.raft.messages import FetchRequest, FetchResponse
from barnabas.raft.voters import ReplicaKey
from barnabas.raft.wire_form import request_to_wire, response_from_wire
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.schema import Message

PATIENCE_MS = 1_000.0
ANYBODY = ReplicaKey(-1)


def leader_of_cluster(cluster_id: str, servers: Sequence[Endpoint]) -> tuple[int, Endpoint] | None:
    """(id of the leader, who said so) where one of `servers` belongs to `cluster_id` and knows a
    leader; None where none does or nobody answers."""
    loop = new_loop()
    channels = Channels(HostPorts(loop, Journal(level="error")), "barnabas-format")
    asked = FetchRequest(0, ANYBODY, 0, 0, max_wait_ms=0, max_bytes=0)
    found: list[tuple[int, Endpoint]] = []
    left = list(servers)

    def ask_next() -> None:
        if found or not left:
            loop.stop()
            return
        server = left.pop(0)

        def done(answer: object) -> None:
            if isinstance(answer, Message):
                response = response_from_wire(asked, answer, 0)
                assert isinstance(response, FetchResponse)
                foreign = response.error is ErrorCode.INCONSISTENT_CLUSTER_ID
                if not foreign and response.leader_id >= 0:
                    found.append((response.leader_id, server))
            ask_next()

        request = request_to_wire(asked, cluster_id, -1)
        channels.send(server, request, done, timeout_ms=PATIENCE_MS)

    loop.call_soon(ask_next)
    loop.run_forever()
    channels.close()
    loop.close()
    return found[0] if found else None
