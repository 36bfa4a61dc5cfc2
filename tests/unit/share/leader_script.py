"""Text scripts for a share partition at its leader: one command per line after ``> ``, its effects below it.

``=`` is an answer, ``+`` a write to the share coordinator that begins, ``-`` what else happens. The log has
batches of four records.
"""

from __future__ import annotations

from typing import Any

from barnabas.broker.share.open_letters import DeadLetter
from barnabas.broker.share.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    ShareLimits,
    SharePartition,
    Wanted,
)
from barnabas.broker.share.state_writes import StateWrite
from barnabas.share.delivery import DeliveryState, StateBatch, combine
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.script_files import parts_of

KINDS = {"gap": GAP, "accept": ACCEPT, "release": RELEASE, "reject": REJECT, "renew": RENEW}
LIMITS = ShareLimits(deliveries_max=3, in_flight_max=100, lock_ms=1_000, renews=True)
BATCH = 4
LOG_END = 40


class LeaderScript:
    """One share partition, and what its leader has written of it."""

    def __init__(self) -> None:
        self.limits = LIMITS
        self.now_ms = 0.0
        self.machine = SharePartition(0, 1, 0)
        self.log_start = 0
        self.writing: StateWrite | None = None
        self.kept: tuple[StateBatch, ...] = ()
        self.kept_start = 0
        self.letters: list[DeadLetter] = []
        self.lines: list[str] = []

    def run(self, line: str) -> list[str]:
        """One command; what it caused."""
        name, plain, given = parts_of(line)
        self.lines = []
        try:
            getattr(self, f"do_{name}")(*plain, **given)
        except KafkaError as error:
            self.lines.append(f"= {ErrorCode(error.code).name}: {error.message}")
        self._write()
        self.machine.validate()
        return self.lines

    # Commands

    def do_limits(self, **given: str) -> None:
        """``limits deliveries_max=2 dead_letters=1``"""
        changed: dict[str, Any] = {name: int(text) for name, text in given.items()}
        self.limits = self.limits._replace(**changed)

    def do_acquire(self, member: str, records: str = "100", strict: str = "") -> None:
        machine = self.machine
        if not machine.can_acquire(self.limits):
            self.lines.append("= it has to wait")
            return
        offset = max(machine.next_fetch_offset(), self.log_start)
        batches = [
            (first, first + BATCH - 1)
            for first in range(offset // BATCH * BATCH, LOG_END, BATCH)
            if first + BATCH > self.log_start
        ]
        wanted = Wanted(int(records), strict=bool(strict))
        got = machine.acquire(member, wanted, offset, batches[:2], self.limits, self.now_ms)
        text = " ".join(f"{part.first}-{part.last} x{part.deliveries}" for part in got)
        self.lines.append(f"= {text or 'nothing'}")

    def do_say(self, member: str, kind: str, *spans: str) -> None:
        """``say A accept 0-3``"""
        told = [Acknowledgement(*_span(text), KINDS[kind]) for text in spans]
        change = self.machine.acknowledge(member, told, self.limits, self.now_ms)
        if change is None:
            self.lines.append("= done")

    def do_leave(self, member: str) -> None:
        self.machine.release(member, self.limits)

    def do_wait(self, ms: str) -> None:
        self.now_ms += float(ms)
        if self.machine.deadline_ms() <= self.now_ms:
            ended = self.machine.on_deadline(self.limits, self.now_ms)
            self.lines += ["- locks end"] * ended

    def do_kept(self) -> None:
        """The share coordinator has written it."""
        write = self._end(None)
        self.kept_start = max(self.kept_start, write.start_offset)
        self.kept = combine(self.kept, write.batches, self.kept_start)

    def do_refused(self) -> None:
        self._end(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "lost"))

    def do_lettered(self) -> None:
        """The dead letters are written."""
        letters, self.letters = self.letters, []
        self.machine.on_dead_letters(letters)

    def do_cut(self, offset: str) -> None:
        """The log begins at `offset` now."""
        self.log_start = int(offset)
        self.machine.advance_log_start(self.log_start)

    def do_elect(self) -> None:
        """Another leader begins with what is kept; nothing that is under way comes to an end."""
        epoch = self.machine.leader_epoch + 1
        self.writing, self.letters = None, []
        self.machine = SharePartition(epoch, 1, self.kept_start, self.kept)
        self.machine.letters.resume(self.limits.deliveries_max)
        self._take_letters()

    def do_show(self) -> None:
        flight = self.machine.in_flight
        pieces = [
            f"{p.first}-{p.last} {p.state.name.lower()} x{p.deliveries}"
            f"{' by ' + p.member if p.member else ''}{', not kept' if p.pending else ''}"
            for p in flight.pieces
        ]
        self.lines += [f"= from {flight.start}", *(f"=   {text}" for text in pieces)]

    # What happened

    def _end(self, error: KafkaError | None) -> StateWrite:
        write, self.writing = self.writing, None
        assert write is not None, "nothing is being written"
        self.machine.on_written(write, error, self.limits, self.now_ms)
        self._take_letters()
        return write

    def _take_letters(self) -> None:
        for letter in self.machine.letters.take():
            self.letters.append(letter)
            self.lines.append(
                f"- dead letter of {letter.first}-{letter.last} x{letter.deliveries}: {letter.why}"
            )

    def _write(self) -> None:
        write = self.machine.take_write()
        if write is None:
            return
        self.writing = write
        batches = " ".join(
            f"{b.first}-{b.last} {DeliveryState(b.state).name.lower()} x{b.deliveries}"
            for b in write.batches
        )
        self.lines.append(f"+ start {write.start_offset}: {batches or 'nothing'}")


def _span(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)
