"""A lock on our servers under faults: a holder that was away for too long writes late, and is refused.

A contender waits in line with an ephemeral, sequential znode. The holder reads its fence, the zxid that made
its znode, thinks, and writes the fence to two znodes: to the guarded one in a transaction that checks the
holder's own znode, and to the open one without a check. Holders are paused while they think, for longer than
their session lasts. When they wake up they do not know that they have lost the lock, and write.

The fences in the guarded znode come in order whatever happens. Those in the open znode do not, which shows
that late writes were made and that the check refused them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from barnabas.sim.world.process import SimProcess
from barnabas.zookeeper.operations import OPEN_ACL
from barnabas.zookeeper.server.jute import JuteReader, JuteWriter
from barnabas.zookeeper.server.requests import Op, write_acl
from tests.unit.zookeeper.server.simulated_servers import PACE_MS, SimClient, Story

LINE, GUARDED, OPEN = "/line", "/guarded", "/open"
EPHEMERAL_SEQUENTIAL = 3
NODE_EXISTS, NO_NODE = -110, -101


class Holding(NamedTuple):
    """A lock as its holder knows it: the name of its znode, and the fence."""

    place: str
    fence: int


class Contender(SimClient):
    """Takes the lock, writes under it and lets it go, again and again."""

    session_timeout_ms = 4_000

    def __init__(self, process: SimProcess, number: int) -> None:
        self.guarded: list[tuple[int, int]] = []
        """The zxid and the fence of each write that the check let pass."""
        self.open: list[tuple[int, int]] = []
        """The zxid and the fence of each write without a check."""
        self.refused = 0
        """Writes whose check failed: the lock was lost."""
        self.holding: Holding | None = None
        """Set from the look at the fence until the answer to the write, also when the session is lost."""
        self._attempt = 0
        super().__init__(process, number)

    def work(self) -> None:
        """A holder that had to connect again writes first: it does not know whether it still has the lock."""
        if self.holding is not None:
            self._write(self.holding)
        else:
            self._create(LINE, 0, lambda: self._create(GUARDED, 0, self._begin))

    def _begin(self) -> None:
        self._create(OPEN, 0, self._look)

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
            self._hold(mine[0])
        else:
            self._later(self._look)

    def _stand_in_line(self) -> None:
        self._attempt += 1
        path = f"{LINE}/c{self.number}-{self.session:x}-{self._attempt}-"
        self._create(path, EPHEMERAL_SEQUENTIAL, self._look)

    def _hold(self, place: str) -> None:
        """Read the fence first, as a client does that hands it to another system, and think."""

        def read(error: int, zxid: int, body: bytes) -> None:
            if error == NO_NODE:
                self._look()
                return
            holding = self.holding = Holding(place, JuteReader(body).long())
            self._later(lambda: self._write(holding))

        self._ask(Op.EXISTS, JuteWriter().text(f"{LINE}/{place}").bool(False), read)

    def _write(self, holding: Holding) -> None:
        fence = holding.fence.to_bytes(8, "big")
        transaction = JuteWriter().number(Op.CHECK).bool(False).number(-1)
        transaction.text(f"{LINE}/{holding.place}").number(-1)
        transaction.number(Op.SET_DATA).bool(False).number(-1)
        transaction.text(GUARDED).buffer(fence).number(-1)
        transaction.number(-1).bool(True).number(-1)

        def on_guarded(error: int, zxid: int, body: bytes) -> None:
            if error == 0 and JuteReader(body).number() != -1:
                self.guarded.append((zxid, holding.fence))
            else:
                self.refused += 1
            self._ask(Op.SET_DATA, JuteWriter().text(OPEN).buffer(fence).number(-1), on_open)

        def on_open(error: int, zxid: int, body: bytes) -> None:
            assert error == 0
            self.open.append((zxid, holding.fence))
            self.holding = None
            self._leave(holding.place)

        self._ask(Op.MULTI, transaction, on_guarded)

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


def pause_a_holder(story: Story, contenders: list[Contender]) -> None:
    """Pause a contender that thinks about its write until its session is over and others had the lock."""
    world = story.world

    def stale() -> list[Contender]:
        return [one for one in contenders if one.holding is not None]

    assert world.run(world.now_ms + 10_000, lambda: bool(stale())), "no contender gets the lock"
    stale()[0].process.pause(story.rng.uniform(6_500, 7_500))
    story.run(7_500)


LONG = [pytest.mark.long, pytest.mark.interop]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=LONG) for n in range(1, 8))])
def test_a_holder_that_lost_its_lock_writes_late_and_is_refused(seed: int) -> None:
    story = Story(seed, Contender)
    contenders = [client for client in story.clients if isinstance(client, Contender)]
    pause_a_holder(story, contenders)
    story.play(4_000)
    pause_a_holder(story, contenders)
    before = [len(contender.guarded) for contender in contenders]
    assert story.world.run(
        story.world.now_ms + 15_000,
        lambda: all(len(one.guarded) > had for one, had in zip(contenders, before, strict=True)),
    ), "one waits for ever"
    for contender in contenders:
        contender.is_done = True
    assert story.world.run(story.world.now_ms + 30_000, lambda: nothing_left(story))
    assert sum(contender.refused for contender in contenders) >= 2, "no write came late"
    fences = [fence for _, fence in sorted(w for one in contenders for w in one.guarded)]
    assert len(fences) > 20
    assert fences == sorted(set(fences))
    unguarded = [fence for _, fence in sorted(w for one in contenders for w in one.open)]
    assert unguarded != sorted(unguarded), "without the check late writes would have been done"
    story.world.let_go()


def nothing_left(story: Story) -> bool:
    lines = [server.state.tree.find(LINE) for server in story.servers.values()]
    return all(line is not None and not line.children for line in lines)
