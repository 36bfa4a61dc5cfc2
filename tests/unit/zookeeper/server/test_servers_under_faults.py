"""Three servers under load and faults: what was answered holds, and all agree."""

from __future__ import annotations

import pytest

from barnabas.sim.world.process import SimProcess
from barnabas.zookeeper.operations import OPEN_ACL
from barnabas.zookeeper.server.jute import JuteReader, JuteWriter
from barnabas.zookeeper.server.requests import Op, write_acl
from barnabas.zookeeper.server.znode_server import ZnodeServer
from tests.unit.zookeeper.server.simulated_servers import PACE_MS, SimClient, Story

NO_NODE = -101


class Writer(SimClient):
    """Makes ephemeral and lasting znodes one by one, and reads and counts after each."""

    def __init__(self, process: SimProcess, number: int) -> None:
        self.answered: dict[str, int] = {}
        """Lasting znodes, with the zxid of their creation."""
        self._made = 0
        self._seen_version = -1
        super().__init__(process, number)

    def work(self) -> None:
        if self.is_done or self.link is None:
            return
        self._made += 1
        path = f"/c{self.number}-{self._made}"
        flags = 1 if self._made % 3 == 0 else 0
        writer = write_acl(JuteWriter().text(path).buffer(b"x" * 50), OPEN_ACL).number(flags)
        self.link.ask(
            Op.CREATE, writer.bytes(), lambda *answer: self._created(path, flags, *answer)
        )

    def _created(self, path: str, flags: int, error: int, zxid: int, body: bytes) -> None:
        assert error == 0, (path, error)  # each path is asked for once
        if not flags:
            self.answered[path] = zxid
        assert self.link is not None
        read = JuteWriter().text(path).bool(True).bytes()
        self.link.ask(Op.EXISTS, read, lambda *answer: self._read(path, zxid, *answer))

    def _read(self, path: str, created: int, error: int, zxid: int, body: bytes) -> None:
        assert error == 0, f"{path} was made and is not there"
        assert JuteReader(body).long() == created
        assert self.link is not None
        counter = JuteWriter().text("/counter").buffer(b"").number(-1).bytes()
        self.link.ask(Op.SET_DATA, counter, self._counted)

    def _counted(self, error: int, zxid: int, body: bytes) -> None:
        if error == 0:
            reader = JuteReader(body)
            for _ in range(4):
                reader.long()
            version = reader.number()
            assert version > self._seen_version
            self._seen_version = version
        elif error == NO_NODE and self.link is not None:
            made = write_acl(JuteWriter().text("/counter").buffer(b""), OPEN_ACL).number(0)
            self.link.ask(Op.CREATE, made.bytes(), lambda *answer: None)
        self.process.wakeups.call_at(self.process.clock.now_ms() + PACE_MS, self._next)

    def _next(self) -> None:
        if self.link is not None and self.link.is_idle:
            self.work()


def contents(server: ZnodeServer) -> list[bytes]:
    return [bytes(value) for chunk in server.state.snapshot() for value in chunk]


LONG = [pytest.mark.long, pytest.mark.interop]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=LONG) for n in range(1, 8))])
def test_answered_changes_survive_and_servers_agree(seed: int) -> None:
    story = Story(seed, Writer)
    story.play()
    for client in story.clients:
        client.is_done = True
    assert story.world.run(story.world.now_ms + 30_000, story.settled)
    first, *others = (contents(server) for server in story.servers.values())
    assert all(other == first for other in others)
    tree = story.servers[1].state.tree
    for client in story.clients:
        assert isinstance(client, Writer)
        assert len(client.answered) > 10
        for path, zxid in client.answered.items():
            node = tree.find(path)
            assert node is not None and node.czxid == zxid, path
    owners = {node.owner for _, node in tree.nodes() if node.owner}
    assert owners <= set(story.servers[1].state.sessions)
    story.world.let_go()
