"""Decides about thousands of partitions or topics, each on its own.

A decider describes its pieces once (`in_pieces`). A few are decided at once and written in one
batch. Many are decided a slice at a time (`DecisionBounds`), each on the cluster's state at that
time. The runtime takes as many steps in one turn of the loop as fit into some milliseconds, and
serves other requests in between. The answer follows when the last one is committed. If this
controller ceases to be active meanwhile, the written records stay valid, the client gets
NOT_CONTROLLER, and its retry finds them done. If a request names a partition twice, the second
change is decided on the state after the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from barnabas.controller.decision import Decision, Record
from barnabas.limits import DecisionBounds
from barnabas.wire.schema import Message

R = TypeVar("R", bound=Message)
Steps = Iterator[Message | None]
"""Decides the next part with each step. It yields the part's record, or None if the part needs none."""


def in_slices(
    bounds: DecisionBounds, names: Sequence[Hashable], steps: Steps, respond: Callable[[], R]
) -> Decision[R]:
    """One step for each of `names`. `respond` makes the response from what the steps noted. Raises
    what `steps` raise."""
    some_twice = len(set(names)) < len(names)

    def pieces() -> Iterator[Decision[None]]:
        while taken := list(islice(steps, 1 if some_twice else bounds.slice_max)):
            yield Decision(None, [record for record in taken if record is not None])

    at_once = len(names) <= bounds.inline_max and not some_twice
    return in_pieces(pieces(), respond, at_once=at_once)


def in_pieces(
    pieces: Iterator[Decision[None]], respond: Callable[[], R], *, at_once: bool
) -> Decision[R]:
    """The records of all `pieces` in one batch if they are decided `at_once`; else a batch for each, as soon
    as it is decided. `respond` makes the response when all are decided."""
    if at_once:
        records = [record for piece in pieces for record in piece.records]
        return Decision(respond(), records)
    return Decision(respond(), work=pieces, then=lambda cluster: Decision(respond()))


def in_steps(
    bounds: DecisionBounds,
    size: int,
    steps: Iterable[list[int]],
    decide: Callable[[list[int]], list[Record]],
) -> tuple[list[Record], Iterator[Decision[None]] | None]:
    """The records for the keys of all `steps` if there are few (`size`). Otherwise the records of
    the first step, and the work for the other steps."""
    if size <= bounds.inline_max:
        return decide([key for step in steps for key in step]), None
    left = iter(steps)
    return decide(next(left, [])), (Decision(None, decide(keys)) for keys in left)
