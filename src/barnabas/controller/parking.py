"""Answers in steps: what follows when a parked request is answered."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.wire.request import Parked
from barnabas.wire.schema import Message


def then(
    first: Message | Parked | None, follow: Callable[[Message | None], Message | Parked | None]
) -> Message | Parked:
    """The answer of `follow` to the answer of `first`, each at once or later."""
    parked = Parked()

    def followed(answer: Message | None) -> None:
        second = follow(answer)
        if isinstance(second, Parked):
            second.attach(last)
        else:
            last(second)

    def last(answer: Message | None) -> None:
        parked.complete(answer)

    if isinstance(first, Parked):
        first.attach(followed)
    else:
        followed(first)
    return parked
