"""The log ends of replicas in brokers' answers, and the strategy that elects the furthest
(KIP-966)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.controller.partitions.elections import Elected, Electorate
from barnabas.metadata.image.topic import NO_LEADER


class Position(NamedTuple):
    """The position of a replica's log; the greater one is further ahead."""

    epoch: int
    offset: int


BEHIND = Position(-2, -2)
"""The position in place of an answer: the broker does not know the partition's leader epoch yet."""


class LogEndQuery:
    """The questions about one partition under recovery, and their answers."""

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
        """Takes the answers; None if they are for an election."""
        self.asked = asked
        self.epochs = epochs
        """The epochs of the brokers that were asked. A new process of a broker may have lost what its
        former process had."""
        self.waiting = dict.fromkeys(asked)
        self.answers: dict[int, Position] = {}
        self.untold = False
        """Whether a replica answered without the epoch of its log."""
        self.deadline_ms = deadline_ms

    def join(self, then: Callable[[LogEndQuery], None]) -> None:
        """Let `then` take the answers as well, after the present one."""
        former = self.then

        def both(ended: LogEndQuery) -> None:
            if former is not None:
                former(ended)
            then(ended)

        self.then = both

    def drop_uncomparable_epochs(self) -> None:
        """Prepare the answers, which are complete, for comparison. If one replica's epoch is unknown, no
        epoch is compared; a negative epoch, which a corrupt log has, stays."""
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
    """The strategy that elects the replica that is furthest ahead, among those that answered and are
    acceptable. `told_epochs` are the epochs of their logs."""
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
