"""One partition's replicas, a controller, and everything that may happen between them in any order.

The controller's ISR may be ahead of what the leader knows: answers are lost, metadata come late, leaders
are replaced while they still believe that they lead. Whatever happens, a record below a high watermark
that a leader ever showed is on every member of the controller's ISR, so every elected leader has it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from barnabas.replication.follower import FollowerState
from barnabas.replication.leader import IsrProposal
from tests.effort import examples
from tests.unit.replication.script_world import ScriptWorld

BROKERS = (1, 2, 3)
brokers = st.sampled_from(BROKERS)


class News(NamedTuple):
    """A change of the ISR that its leader has not heard of yet."""

    leader: int
    leader_epoch: int
    proposal: IsrProposal | None
    partition_epoch: int
    isr: tuple[int, ...]


class IsrMachine(RuleBasedStateMachine):
    """`world` has the replicas; the controller's word is `isr`, `epoch`, `partition_epoch` in it."""

    def __init__(self) -> None:
        super().__init__()
        self.world = ScriptWorld()
        self.committed: list[tuple[int, str]] = []
        self.marks: dict[tuple[int, int], int] = {}
        self.news: list[News] = []
        self.written = 0

    @initialize(min_isr=st.sampled_from(["1", "2"]))
    def start(self, min_isr: str) -> None:
        self.world._replicas("1", "2", "3", "min", min_isr, "lag", "100")
        self.world.records_per_fetch = 2
        self.world._lead("1", "epoch", "0", "isr", "1", "2", "3")

    # -- data ------------------------------------------------------------------------------------

    @rule(broker=brokers, count=st.integers(1, 3))
    def write(self, broker: int, count: int) -> None:
        """Also to a leader that is none any more and does not know it."""
        if broker in self.world.leaders:
            for _ in range(count):
                self.written += 1
                self.world._write(str(broker), f"v{self.written}")
            self.note()

    @rule(follower=brokers, leader=brokers, lost=st.booleans())
    def fetch(self, follower: int, leader: int, lost: bool = False) -> None:
        if follower in self.world.followers and leader in self.world.leaders:
            self.world._round(follower, leader, lost=lost)
            self.note()

    @rule(slow=brokers, ms=st.sampled_from([0, 150]))
    def everybody_but(self, slow: int, ms: int) -> None:
        """The leader writes; all fetch what there is, but one."""
        self.write(self.world.leader, 1)
        self.world._advance(str(ms))
        for _ in range(3):
            for follower in BROKERS:
                if follower != slow:
                    self.fetch(follower, self.world.leader)

    @rule(slow=brokers, told=st.booleans())
    def leave(self, slow: int, told: bool) -> None:
        """One falls behind until the controller drops it."""
        self.everybody_but(slow, 150)
        self.shrink(0)
        if self.world.leader in self.world.proposals:
            self.accept()
            if told and self.news:
                self.tell(len(self.news) - 1, False)

    @rule(ms=st.sampled_from([1, 60, 150]))
    def time(self, ms: int) -> None:
        self.world._advance(str(ms))

    # -- the ISR ---------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([0, 150]))
    def shrink(self, ms: int) -> None:
        leader = self.world.leader
        self.world._advance(str(ms))
        state = self.world.leaders.get(leader)
        if state is not None:
            proposal = state.propose_shrink(
                self.world.logs[leader].end, self.world.now_ms, self.world.lag_ms
            )
            if proposal is not None:
                self.world.proposals[leader] = proposal

    @precondition(lambda self: self.world.leader in self.world.proposals)
    @rule()
    def accept(self) -> None:
        """The controller makes the change. Its answer is on the way."""
        world = self.world
        leader = world.leader
        proposal = world.proposals.get(leader)
        if (
            proposal is None
            or leader != world.leader
            or proposal.leader_epoch != world.epoch
            or proposal.partition_epoch != world.partition_epoch
            or any(broker in world.fenced for broker in proposal.isr)
        ):
            return
        world.isr = proposal.isr
        world.partition_epoch += 1
        del world.proposals[leader]
        self.news.append(News(leader, world.epoch, proposal, world.partition_epoch, world.isr))

    @precondition(lambda self: self.news)
    @rule(which=st.integers(0, 3), by_metadata=st.booleans())
    def tell(self, which: int, by_metadata: bool) -> None:
        """The answer arrives, or the metadata do; late, or out of order."""
        news = self.news.pop(which % len(self.news))
        state = self.world.leaders.get(news.leader)
        if state is None or state.epoch != news.leader_epoch:
            return
        if by_metadata or news.proposal is None:
            state.on_metadata(news.partition_epoch, BROKERS, news.isr, 0)
        else:
            state.on_committed(news.proposal, news.leader_epoch, news.partition_epoch, news.isr, 0)
        self.world._advance_high_watermark(news.leader)
        self.note()

    @precondition(lambda self: self.world.proposals)
    @rule(which=st.integers(0, 2), really=st.booleans())
    def refuse(self, which: int, really: bool) -> None:
        """A definite no: the change was not made and will not be."""
        leader = sorted(self.world.proposals)[which % len(self.world.proposals)]
        state = self.world.leaders.get(leader)
        if really and state is not None:
            state.on_refused(self.world.proposals.pop(leader))
            self.world._advance_high_watermark(leader)
            self.note()

    @rule(broker=brokers)
    def fence(self, broker: int) -> None:
        """The controller fences a broker: it leaves the ISR unless it is the last."""
        world = self.world
        world.fenced.add(broker)
        if broker in world.isr and len(world.isr) > 1 and broker != world.leader:
            world.isr = tuple(b for b in world.isr if b != broker)
            world.partition_epoch += 1
            self.news.append(
                News(world.leader, world.epoch, None, world.partition_epoch, world.isr)
            )

    @rule(broker=brokers)
    def unfence(self, broker: int) -> None:
        self.world.fenced.discard(broker)

    # -- leadership ------------------------------------------------------------------------------

    @rule(choice=st.integers(0, 2), old_knows=st.booleans())
    def elect(self, choice: int, old_knows: bool) -> None:
        """Any member of the controller's ISR; the old leader may not hear of it for long."""
        world = self.world
        new = world.isr[choice % len(world.isr)]
        world.cut_off.discard(new)
        if not old_knows and world.leader != new and world.leader in world.leaders:
            world.cut_off.add(world.leader)
        world.leader = new
        world.epoch += 1
        world.partition_epoch += 1
        world._apply()
        self.note()

    @precondition(lambda self: self.world.cut_off)
    @rule()
    def heal(self) -> None:
        """Everybody learns the present state; the leader its ISR."""
        world = self.world
        cut, world.cut_off = world.cut_off, set()
        for broker in sorted(cut):
            if broker != world.leader:
                world.leaders.pop(broker, None)
                log = world.logs[broker]
                world.followers[broker] = FollowerState(world.epoch, log.end, log.last_epoch)
        state = world.leaders[world.leader]
        state.on_metadata(world.partition_epoch, BROKERS, world.isr, 0)
        world._advance_high_watermark(world.leader)
        self.note()

    # -- promises --------------------------------------------------------------------------------

    def note(self) -> None:
        """Remember what each leader shows as committed."""
        for broker, state in self.world.leaders.items():
            log = self.world.logs[broker]
            mark = log.high_watermark
            key = (broker, state.epoch)
            assert mark >= self.marks.get(key, 0), "a high watermark went back"
            self.marks[key] = mark
            for offset in range(mark):
                if offset < len(self.committed):
                    assert self.committed[offset] == log.records[offset], (
                        f"{broker} shows another record at {offset}"
                    )
                else:
                    self.committed.append(log.records[offset])

    @invariant()
    def every_member_of_the_isr_has_what_was_committed(self) -> None:
        for leader in self.world.leaders.values():
            leader.validate()
        for broker in self.world.isr:
            records = self.world.logs[broker].records
            assert records[: len(self.committed)] == self.committed, (
                f"{broker} is in the ISR and lacks committed records"
            )


TestIsr: Any = IsrMachine.TestCase
TestIsr.settings = settings(max_examples=examples(400), stateful_step_count=60)
