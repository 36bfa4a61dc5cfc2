"""This server's proposals on their way into the log, and, where it leads, those of the others.

Invariants: what was proposed here stays until it is applied here; under each new leader, and over each new
link, all of that is sent again in its order. The leader gives each entry its zxid, higher than all before:
the quorum's epoch in the upper 32 bits, a count in the lower."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.ports import Ports
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.state_machine import NotLeaderError
from barnabas.types import Endpoint
from barnabas.zookeeper.server.leader_link import LeaderLink
from barnabas.zookeeper.server.log_entries import TAKES_ZXID, Kind, Proposal, encode_entry

PENDING_BYTES_MAX = 32 * 1024 * 1024
"""The bytes that wait for this server's clients; with more, nothing is read from those that wait for an
answer."""
_COUNT_BITS = 32


class Proposals:
    """`servers` says where each server takes the proposals of the others."""

    def __init__(self, ports: Ports, servers: Mapping[int, Endpoint]) -> None:
        self._ports = ports
        self._servers = servers
        self._raft_node: RaftNode | None = None
        self._pending: dict[tuple[int, int], bytes] = {}
        """The proposals by connection and number."""
        self._pending_bytes = 0
        self._zxid = 0
        self.leader_id = -1
        self.leaderless_since_ms: float | None = ports.clock.now_ms()
        self.link = LeaderLink(ports, self._send_again)

    def __len__(self) -> int:
        return len(self._pending)

    def attach(self, replica: RaftNode) -> None:
        self._raft_node = replica

    @property
    def leads(self) -> bool:
        return self._raft_node is not None and self._raft_node.is_active

    @property
    def is_congested(self) -> bool:
        return self._pending_bytes > PENDING_BYTES_MAX

    def propose(self, proposal: Proposal) -> None:
        """Propose for a connection of this server."""
        data = proposal.encode()
        self._pending[proposal.origin.connection, proposal.number] = data
        self._pending_bytes += len(data)
        if self.leads:
            self.append(data)
        elif self.link.is_open:
            self.link.propose(data)

    def on_applied(self, connection: int, number: int) -> None:
        data = self._pending.pop((connection, number), None)
        if data is not None:
            self._pending_bytes -= len(data)

    def forget_all(self) -> None:
        """No connection of this server waits any more."""
        self._pending.clear()
        self._pending_bytes = 0

    def append(self, proposal: bytes) -> bool:
        """On the leader. False where this server does not lead, and nothing was appended."""
        if not self.leads or self._raft_node is None:
            return False
        kind = Kind(int.from_bytes(proposal[:4], "big"))
        takes_zxid = kind in TAKES_ZXID
        if takes_zxid and self._zxid & ((1 << _COUNT_BITS) - 1) == (1 << _COUNT_BITS) - 1:
            self._raft_node.resign("the zxids of this epoch are used up")
            return False
        zxid = self._zxid + 1 if takes_zxid else 0
        try:
            self._raft_node.append([encode_entry(zxid, self._ports.clock.wall_ms(), proposal)])
        except NotLeaderError:
            return False
        self._zxid += takes_zxid
        return True

    def on_leader(self, leader_id: int, epoch: int, own_id: int) -> None:
        """Who leads; everything before was applied where it is this server."""
        self.leader_id = leader_id
        if leader_id == own_id:
            self._zxid = epoch << _COUNT_BITS
            self.link.aim(None)
            self._send_again()
        else:
            self.link.aim(self._servers.get(leader_id))
        if leader_id >= 0:
            self.leaderless_since_ms = None
        elif self.leaderless_since_ms is None:
            self.leaderless_since_ms = self._ports.clock.now_ms()

    def _send_again(self) -> None:
        for data in list(self._pending.values()):
            if self.leads:
                self.append(data)
            else:
                self.link.propose(data)

    def close(self) -> None:
        self.link.aim(None)
        self.forget_all()
