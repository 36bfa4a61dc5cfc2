"""Text scripts for the writer of dead letters: a share partition's letters, and the topic that takes them.

``+`` is a write that begins, by the offsets whose dead letters it has, ``-`` what else happens. The group's
topic is ``dlq.g``, and its broker is number 1.
"""

from __future__ import annotations

from typing import Any

from barnabas.broker.share.open_letters import DeadLetter
from barnabas.client.network.connection import ChannelError
from barnabas.wire.errors import ErrorCode
from tests.script_files import parts_of
from tests.unit.broker.fakes import advance
from tests.unit.broker.test_share_dead_letters import KEY, World, decoded

LOST = "share.dead_letter_lost"


class LettersScript:
    """The writer and its cluster."""

    def __init__(self) -> None:
        self.world = World()
        self.sent = self.creating = self.lost = 0
        self.done: list[DeadLetter] = []
        self.lines: list[str] = []

    def run(self, line: str) -> list[str]:
        """One command; what it caused."""
        name, words, given = parts_of(line)
        self.lines = []
        getattr(self, f"do_{name}")(*words, **given)
        self._tell()
        return self.lines

    # Commands

    def do_cluster(self, *, copies: str = "no", topic: str = "exists") -> None:
        """``cluster copies=yes topic=missing``: another one, from the beginning."""
        self.world = World(copies=copies == "yes", exists=topic != "missing")

    def do_letter(self, span: str) -> None:
        """``letter 0-3``: records that become dead letters."""
        first, _, last = span.partition("-")
        self.world.begin(int(first), int(last or first))

    def do_answer(self, code: str = "NONE", bad: str = "") -> None:
        """``answer INVALID_RECORD bad=0,2``: by the number in the batch."""
        self.sent -= 1
        numbers = [int(number) for number in bad.split(",") if number]
        self.world.answer(ErrorCode[code], numbers)

    def do_lose(self) -> None:
        """The connection ends before the answer."""
        self.sent -= 1
        self.world.sent.pop(0)[2](ChannelError("closed", "gone"))
        advance(self.world.ports, 50)

    def do_created(self) -> None:
        """The controller has created the topic."""
        self.world.create()
        for on_done in self.world.created:
            on_done(None)
        self.world.created.clear()

    def do_leader(self, broker: str) -> None:
        topic = self.world.image.topics_by_name["dlq.g"]
        topic.leader[KEY.partition % 2] = int(broker)

    def do_wait(self, ms: str) -> None:
        advance(self.world.ports, float(ms))

    def do_resign(self) -> None:
        """The share partition has another leader from now on."""
        self.world.led.has_ended = True

    def do_replicated(self, offset: str) -> None:
        """The high watermark of the records that are copied; their log ends at 6."""
        self.world.log.high_watermark = int(offset)

    # What happened

    def _tell(self) -> None:
        world = self.world
        if len(world.created) > self.creating:
            self.lines.append("- the controller is asked for the topic")
        self.creating = len(world.created)
        for broker, request, _ in world.sent[max(self.sent, 0) :]:
            data: Any = request.topic_data[0].partition_data[0].records
            texts = []
            for record in decoded(data):
                offset = dict(record.headers)["__dlq.errors.offset"] or b""
                key, value = record.key or b"", record.value or b""
                copy = f" {key.decode()}={value.decode()}" if key else ""
                texts.append(offset.decode() + copy)
            self.lines.append(f"+ to broker {broker}: {', '.join(texts)}")
        self.sent = len(world.sent)
        for letter in world.done[len(self.done) :]:
            self.lines.append(f"- {letter.first}-{letter.last} is done")
        self.done = list(world.done)
        lost = [line for line in world.ports.log_lines if LOST in line]
        self.lines += [f"- lost: {line.partition(' first=')[2]}" for line in lost[self.lost :]]
        self.lost = len(lost)
