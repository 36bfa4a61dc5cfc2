"""Dead letters are written whatever their topic answers, each record once, and none before its time.

The topic refuses some records for what they are, loses its leader, answers with errors that pass, and may
come to exist late. A letter is done when each of its records was written or refused for good. Only letters of
a share partition that changed its leader may be written twice. When all goes well again every letter is done.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.broker.share.open_letters import REJECTED, DeadLetter
from barnabas.client.network.connection import ChannelError
from barnabas.wire.errors import ErrorCode
from tests.effort import examples
from tests.unit.broker.fakes import advance
from tests.unit.broker.test_share_dead_letters import KEY, World

SPAN = 20
"""Letter n has records from offset n * SPAN on."""
PAUSE_MS_MAX = 5_001
ERRORS = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
)


class Letters(RuleBasedStateMachine):
    """One share partition's letters, and the partition that takes them."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(exists=False)
        self.exists = False
        self.letters: list[DeadLetter] = []
        self.poison: set[int] = set()
        """Records that the topic never takes."""
        self.written: list[int] = []
        self.given_up: set[DeadLetter] = set()
        """Letters whose topic refused them."""
        self.twice: set[int] = set()
        """Records that may be written twice."""

    @rule(records=st.integers(1, SPAN), poison=st.sets(st.integers(0, SPAN - 1), max_size=2))
    def begin(self, records: int, poison: set[int]) -> None:
        first = SPAN * len(self.letters)
        self.letters.append(DeadLetter(first, first + records - 1, 2, REJECTED))
        self.poison |= {first + at for at in poison if at < records}
        self._send(self.letters[-1])

    def _send(self, letter: DeadLetter) -> None:
        world = self.world
        world.letters.send(world.led, letter, partial(world.done.append, letter))
        advance(world.ports, 50)

    @rule(names_them=st.booleans())
    def topic_answers(self, names_them: bool) -> None:
        """It takes the oldest write, unless that has a record that it never takes."""
        if not self.world.sent:
            return
        asked = self.world.asked()
        bad = [at for at, offset in enumerate(asked) if offset in self.poison]
        if not bad:
            self.written += asked
            self.world.answer()
        elif names_them:
            self.world.answer(ErrorCode.INVALID_RECORD, bad)
        else:
            self.world.answer(ErrorCode.MESSAGE_TOO_LARGE)

    @rule(code=st.sampled_from(ERRORS))
    def topic_fails(self, code: ErrorCode) -> None:
        if self.world.sent:
            self.world.answer(code)

    @rule()
    def topic_refuses_them(self) -> None:
        if self.world.sent:
            letters = {self.letters[offset // SPAN] for offset in self.world.asked()}
            if len(letters) == 1:  # else each is tried alone
                self.given_up |= letters
            self.world.answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    @rule()
    def connection_is_lost(self) -> None:
        if self.world.sent:
            self.world.sent.pop(0)[2](ChannelError("closed", "gone"))

    @rule()
    def topic_comes_to_exist(self) -> None:
        """Who waits for it hears so."""
        if not self.exists:
            self.exists = True
            self.world.create()
        waiting, self.world.created[:] = self.world.created[:], []
        for on_created in waiting:
            on_created(None)

    @rule(leader=st.sampled_from([1, 1, 2, -1]))
    def topic_changes_its_leader(self, leader: int) -> None:
        topic = self.world.image.topics_by_name.get("dlq.g")
        if topic is not None:
            topic.leader[KEY.partition % 2] = leader

    @rule(ms=st.sampled_from([10, 200, PAUSE_MS_MAX]))
    def time_passes(self, ms: int) -> None:
        advance(self.world.ports, ms)

    @rule()
    def share_partition_changes_its_leader(self) -> None:
        """The next one begins with the letters that are not done."""
        world = self.world
        world.led.has_ended = True
        world.led = SimpleNamespace(key=KEY, has_ended=False, partition=world.led.partition)
        for letter in self.letters:
            if letter not in world.done:
                self.twice |= set(range(letter.first, letter.last + 1))
                self._send(letter)

    @invariant()
    def one_write_is_under_way(self) -> None:
        assert len(self.world.sent) <= 1

    @invariant()
    def a_letter_is_done_once_when_its_records_are(self) -> None:
        done, written = self.world.done, set(self.written)
        assert len(done) == len(set(done))
        for letter in done:
            missing = set(range(letter.first, letter.last + 1)) - written - self.poison
            assert not missing or letter in self.given_up, (letter, missing)

    @invariant()
    def records_are_written_once(self) -> None:
        assert not self.poison & set(self.written)
        often = {offset for offset in self.written if self.written.count(offset) > 1}
        assert often <= self.twice

    def teardown(self) -> None:
        """All goes well again: every letter is done, with all of its records that the topic takes."""
        self.topic_comes_to_exist()
        self.topic_changes_its_leader(1)
        for _ in range(40 * len(self.letters)):
            if len(self.world.done) == len(self.letters):
                break
            self.time_passes(0 if self.world.sent else PAUSE_MS_MAX)
            self.topic_answers(names_them=False)
            self.topic_comes_to_exist()
        assert set(self.world.done) == set(self.letters)
        self.a_letter_is_done_once_when_its_records_are()
        self.records_are_written_once()


Letters.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=25, deadline=None
)
TestLetters = Letters.TestCase
