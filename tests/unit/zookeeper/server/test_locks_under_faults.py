"""A lock on our servers under faults: writes under it come in the order of their fences, and no znode stays.

A contender waits in line with an ephemeral, sequential znode. It writes in a transaction that checks
this znode, so that a write is done while the lock is held or not at all. The fence is the zxid that made it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.sim.world.process import SimProcess
from barnabas.zookeeper.operations import OPEN_ACL
from barnabas.zookeeper.server.jute import JuteReader, JuteWriter
from barnabas.zookeeper.server.requests import Op, write_acl
from tests.unit.zookeeper.server.simulated_servers import PACE_MS, SimClient, Story

LINE, REPORT = "/line", "/report"
EPHEMERAL_SEQUENTIAL = 3
NODE_EXISTS, NO_NODE = -110, -101


class Contender(SimClient):
    """Takes the lock, writes under it and lets it go, again and again."""

    def __init__(self, process: SimProcess, number: int) -> None:
        self.written: list[tuple[int, int]] = []
        """The zxid of each write, and the fence under which it was done."""
        self._attempt = 0
        super().__init__(process, number)

    def work(self) -> None:
        """The answer of the last request may have been lost: the line tells."""
        self._create(LINE, 0, lambda: self._create(REPORT, 0, self._look))

    def _create(self, path: str, flags: int, then: Callable[[], None]) -> None:
        writer = write_acl(JuteWriter().text(path).buffer(b""), OPEN_ACL).number(flags)

        def made(error: int, zxid: int, body: bytes) -> None:
            assert error in (0, NODE_EXISTS), (path, error)
            then()

        self._ask(Op.CREATE, writer, made)

    def _look(self) -> None:
        self._ask(Op.GET_CHILDREN, JuteWriter().text(LINE).bool(False), self._on_line)

    def _on_line(self, error: int, zxid: int, body: bytes) -> None:
        assert error == 0
        reader = JuteReader(body)
        places = sorted(reader.vector(reader.text), key=lambda name: name[-10:])
        mine = [name for name in places if name.startswith(f"c{self.number}-{self.session:x}-")]
        assert len(mine) <= 1, "one request made two places"
        if not mine:
            if not self.is_done:
                self._stand_in_line()
        elif self.is_done:
            self._leave(mine[0])
        elif places[0] == mine[0]:
            self._write(mine[0])
        else:
            self._later(self._look)

    def _stand_in_line(self) -> None:
        self._attempt += 1
        path = f"{LINE}/c{self.number}-{self.session:x}-{self._attempt}-"
        self._create(path, EPHEMERAL_SEQUENTIAL, self._look)

    def _write(self, place: str) -> None:
        """The fence is read first, as a client would that hands it to another system."""

        def read(error: int, zxid: int, body: bytes) -> None:
            if error == NO_NODE:
                self._look()
                return
            fence = JuteReader(body).long()
            check = JuteWriter().number(Op.CHECK).bool(False).number(-1)
            check.text(f"{LINE}/{place}").number(-1)
            check.number(Op.SET_DATA).bool(False).number(-1)
            check.text(REPORT).buffer(fence.to_bytes(8, "big")).number(-1)
            check.number(-1).bool(True).number(-1)
            self._ask(Op.MULTI, check, lambda *answer: self._on_written(place, fence, *answer))

        self._ask(Op.EXISTS, JuteWriter().text(f"{LINE}/{place}").bool(False), read)

    def _on_written(self, place: str, fence: int, error: int, zxid: int, body: bytes) -> None:
        if error == 0 and JuteReader(body).number() != -1:
            self.written.append((zxid, fence))
        self._leave(place)

    def _leave(self, place: str) -> None:
        def gone(error: int, zxid: int, body: bytes) -> None:
            assert error in (0, NO_NODE)
            self._later(self._look)

        self._ask(Op.DELETE, JuteWriter().text(f"{LINE}/{place}").number(-1), gone)

    def _ask(self, op: Op, body: JuteWriter, on_answer: Callable[[int, int, bytes], None]) -> None:
        if self.link is not None:
            self.link.ask(op, body.bytes(), on_answer)

    def _later(self, then: Callable[[], None]) -> None:
        link = self.link

        def again() -> None:
            if link is not None and self.link is link and link.is_idle:
                then()

        self.process.wakeups.call_at(self.process.clock.now_ms() + PACE_MS / 4, again)


LONG = [pytest.mark.long, pytest.mark.interop]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=LONG) for n in range(1, 8))])
def test_writes_under_a_lock_come_in_the_order_of_their_fences(seed: int) -> None:
    story = Story(seed, Contender)
    contenders = [client for client in story.clients if isinstance(client, Contender)]
    story.play()
    before = [len(contender.written) for contender in contenders]
    story.run(15_000)
    after = [len(contender.written) for contender in contenders]
    assert all(mine > earlier for mine, earlier in zip(after, before, strict=True)), (
        "one waits for ever"
    )
    for contender in contenders:
        contender.is_done = True
    assert story.world.run(story.world.now_ms + 30_000, lambda: nothing_left(story))
    writes = sorted(write for contender in contenders for write in contender.written)
    fences = [fence for _, fence in writes]
    assert len(fences) > 20
    assert fences == sorted(set(fences))
    story.world.let_go()


def nothing_left(story: Story) -> bool:
    lines = [server.state.tree.find(LINE) for server in story.servers.values()]
    return all(line is not None and not line.children for line in lines)
