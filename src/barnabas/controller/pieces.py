"""A request about thousands of partitions or topics, of which each is decided on its own.

Few are decided at once and written in one batch. Many are decided `PIECE` at a time, each piece
on what the cluster is then and in a batch of its own, and others are served in between; the answer
follows when the last one is committed. Should this controller cease to be active on the way, what was
written holds, the asker is told NOT_CONTROLLER, and asking again finds it done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from barnabas.controller.decision import Decision
from barnabas.wire.schema import Message

PIECE = 200
"""Decided in one turn of the loop: a few milliseconds."""

R = TypeVar("R", bound=Message)
Steps = Iterator[Message | None]
"""Decides the next part with each step: its record, or None where it needs none."""


def in_pieces(size: int, steps: Steps, respond: Callable[[], R]) -> Decision[R]:
    """`size` steps; `respond` makes the response of what they noted. Raises what `steps` raise."""
    if size <= PIECE:
        records = [record for record in steps if record is not None]
        return Decision(respond(), records)

    def pieces() -> Iterator[Decision[None]]:
        while taken := list(islice(steps, PIECE)):
            yield Decision(None, [record for record in taken if record is not None])

    return Decision(respond(), work=pieces(), then=lambda cluster: Decision(respond()))
