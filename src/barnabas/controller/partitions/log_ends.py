"""The ends of replicas' logs, as brokers answer them, and the strategy that elects the furthest (KIP-966)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.controller.partitions.elections import Elected, Electorate
from barnabas.metadata.image.topic import NO_LEADER


class Position(NamedTuple):
    """How far a replica is; greater is further ahead."""

    epoch: int
    offset: int


BEHIND = Position(-2, -2)
"""In place of an answer: the broker does not know the partition's leader epoch yet."""


class LogEndQuery:
    """One partition under recovery."""

    __slots__ = ("answers", "asked", "deadline_ms", "epochs", "key", "then", "untold", "waiting")

    def __init__(
        self,
        key: int,
        asked: tuple[int, ...],
        epochs: dict[int, int],
        deadline_ms: float,
        then: Callable[[LogEndQuery], None] | None = None,
    ) -> None:
        self.key = key
        self.then = then
        """The step that takes the answers; None elects."""
        self.asked = asked
        self.epochs = epochs
        """Broker epochs of those asked: what a former process had, the present one may have lost."""
        self.waiting = dict.fromkeys(asked)
        self.answers: dict[int, Position] = {}
        self.untold = False
        """A replica answered without the epoch of its log."""
        self.deadline_ms = deadline_ms

    def drop_uncomparable_epochs(self) -> None:
        """All answers are in. Where one replica's epoch is unknown, no epoch counts; but a negative one,
        of a corrupt log, stays."""
        if self.untold:
            self.answers = {
                broker: Position(min(at.epoch, 0), at.offset) for broker, at in self.answers.items()
            }


def most_advanced(
    answers: dict[int, Position],
    asked: tuple[int, ...],
    electorate: Electorate,
    *,
    told_epochs: bool = True,
) -> Elected:
    """The strategy: of those that answered and are acceptable, the one that is furthest ahead.
    `told_epochs`: those of their logs."""
    silent = [broker for broker in asked if broker not in answers]
    why = f"; {silent} did not answer" if silent else ""
    best = NO_LEADER
    for broker in electorate.replicas:
        if broker in answers and electorate.acceptable(broker):
            if best == NO_LEADER or answers[broker] > answers[best]:
                best = broker
    if best == NO_LEADER:
        return Elected(NO_LEADER, f"no live replica told how far it is{why}")
    at = answers[best]
    text = f"furthest ahead of {sorted(answers)} with offset {at.offset} in epoch {at.epoch}{why}"
    all_answered = all(replica in answers for replica in electorate.replicas)
    if all_answered and told_epochs and electorate.last_known == (best,):
        return Elected(best, f"{best} led last and is {text}", True, lossless=True)
    return Elected(best, f"unclean: {best} is {text}", True)
