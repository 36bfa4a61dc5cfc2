"""A replicated key-value service in one file: what `barnabas.raft` is like without brokers.

Three of these processes replicate a dictionary; each answers lines of text on a port of its own:

    $ P=1=localhost:7101,2=localhost:7102,3=localhost:7103
    $ python examples/kv/service.py --id 1 --data /tmp/kv/1 --peers $P
    $ printf 'put city Prague\\nget city\\n' | nc localhost 7201
    ok 12
    value Prague

`put KEY VALUE` and `delete KEY` answer `ok VERSION` when a majority has the change on disk. A process that is
not the leader answers `leader HOST:PORT` to them. `get KEY` answers `value VALUE` or `none` from the copy of
the process that was asked. `who` answers the state of the process in the quorum, as JSON. The service's port
is the peer's port plus 100.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from barnabas.host.loop import new_loop
from barnabas.host.ports import HostPorts
from barnabas.host.structured_log import StructuredLog
from barnabas.ports import Connection, Ports
from barnabas.raft.embedded import EmbeddedReplica
from barnabas.raft.state_machine import CommittedBatch, NotLeaderError, SnapshotReader
from barnabas.types import Buffer, Endpoint

SERVICE_PORT_OFFSET = 100
LINE_BYTES_MAX = 64 * 1024
LINES_MAX = 10_000
"""Lines of one connection that may wait for the answer to an earlier line."""


class Dictionary:
    """The state machine: `on_commit` applies, `snapshot` and `on_snapshot` save and restore."""

    def __init__(self) -> None:
        self.content: dict[str, str] = {}
        self.waiting: deque[tuple[int, Line]] = deque()
        """(offset, the connection that waits for the commit of that offset)."""

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            for offset, value in enumerate(batch.values, batch.base_offset):
                self._apply(value)
                while self.waiting and self.waiting[0][0] <= offset:
                    self.waiting.popleft()[1].say(f"ok {offset}")

    def _apply(self, value: Buffer) -> None:
        key, content = json.loads(bytes(value))
        if content is None:
            self.content.pop(key, None)
        else:
            self.content[key] = content

    def on_snapshot(self, snapshot: SnapshotReader) -> None:
        self.content.clear()
        for values in snapshot.values():
            for value in values:
                self._apply(value)

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        items = list(self.content.items())
        return iter([[json.dumps(item).encode() for item in items]] if items else [])

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        waiting, self.waiting = self.waiting, deque()
        for _, line in waiting:
            line.say("unknown: the leader changed; look before you try again")


class Line:
    """One connection: lines in, answers out, in the same order. A line that follows a change waits until the
    change is answered."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._connection: Connection | None = None
        self._text = bytearray()
        self._space = memoryview(bytearray(4096))
        self._lines: deque[bytes] = deque()
        self._is_answered = True
        """Whether the last line that was given to the service has its answer."""
        self._is_answering = False

    def on_connected(self, connection: Connection) -> None:
        self._connection = connection

    def get_buffer(self) -> memoryview:
        return self._space

    def buffer_updated(self, size: int) -> None:
        self._text += self._space[:size]
        *lines, rest = self._text.split(b"\n")
        self._text = bytearray(rest)
        self._lines += map(bytes, lines)
        too_much = len(self._text) > LINE_BYTES_MAX or len(self._lines) > LINES_MAX
        if too_much and self._connection is not None:
            self._connection.abort()
        self._answer_next()

    def _answer_next(self) -> None:
        if self._is_answering:
            return
        self._is_answering = True
        while self._lines and self._is_answered and self._connection is not None:
            self._is_answered = False
            self._service.on_line(self._lines.popleft().decode("utf-8", "replace").strip(), self)
        self._is_answering = False

    def on_closed(self, error: OSError | None) -> None:
        self._connection = None

    def say(self, text: str) -> None:
        """Answer the last line that was given to the service."""
        if self._connection is not None:
            self._connection.send([f"{text}\n".encode()])
        self._is_answered = True
        self._answer_next()


class Service:
    """One process: a replica of the dictionary, and the port that answers clients."""

    def __init__(self, ports: Ports, node: int, data: str, peers: dict[int, Endpoint]) -> None:
        self._peers = peers
        self.dictionary = Dictionary()
        member = EmbeddedReplica.open(
            ports,
            data,
            cluster_id="kv-example",
            node_id=node,
            peers=peers,
            state_machine=self.dictionary,
            bytes_between_snapshots=1024 * 1024,
        )
        self.replica = member.replica
        ports.network.listen(_service_endpoint(peers[node]), lambda: Line(self))
        member.start()

    def on_line(self, text: str, line: Line) -> None:
        words = text.split(" ", 2)
        if words[0] == "get" and len(words) == 2:
            found = self.dictionary.content.get(words[1])
            line.say("none" if found is None else f"value {found}")
        elif words[0] == "put" and len(words) == 3:
            self._change(words[1], words[2], line)
        elif words[0] == "delete" and len(words) == 2:
            self._change(words[1], None, line)
        elif words[0] == "who" and len(words) == 1:
            line.say(json.dumps(self.replica.describe()))
        else:
            line.say("error: put KEY VALUE, get KEY, delete KEY or who")

    def _change(self, key: str, content: str | None, line: Line) -> None:
        try:
            offset = self.replica.append([json.dumps([key, content]).encode()])
        except NotLeaderError as error:
            leader = self._peers.get(error.leader_id)
            line.say(f"leader {_service_endpoint(leader)}" if leader else "error: no leader")
        else:
            self.dictionary.waiting.append((offset, line))


def _service_endpoint(peer: Endpoint) -> Endpoint:
    return Endpoint(peer.host, peer.port + SERVICE_PORT_OFFSET)


def _peers(text: str) -> dict[int, Endpoint]:
    found = {}
    for item in text.split(","):
        node, _, address = item.partition("=")
        host, _, port = address.rpartition(":")
        found[int(node)] = Endpoint(host, int(port))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="A replicated key-value service.")
    parser.add_argument("--id", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peers", type=_peers, required=True, metavar="1=HOST:PORT,...")
    arguments = parser.parse_args()
    loop = new_loop()
    ports = HostPorts(loop, StructuredLog(sys.stderr.fileno()))
    Service(ports, arguments.id, str(arguments.data.resolve()), arguments.peers)
    loop.run_forever()


if __name__ == "__main__":
    main()
