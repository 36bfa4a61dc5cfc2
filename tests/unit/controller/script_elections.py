"""A command of the controller's scripts that asks one election strategy about a partition made up for it.

``would offline replicas=1,2,3 isr=2,3 leader=1 live=2,3``: also ``elr``, ``last`` (the last known leader),
``leaving`` (who shuts down) and the words ``balanced``, ``unclean``, ``asked`` (ElectLeaders uncleanly).
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.controller.partitions import elections
from barnabas.controller.partitions.elections import Elected, Electorate
from tests.unit.controller.harness import World


def would(world: World, strategy: str, *words: str) -> str:
    """The leader, how it was found, and why."""
    pairs = dict(word.split("=") for word in words if "=" in word)

    def numbers(key: str) -> tuple[int, ...]:
        return tuple(int(part) for part in pairs.get(key, "").split(",") if part)

    live = numbers("live")
    electorate = Electorate(
        int(pairs.get("leader", "-1")), numbers("replicas"), numbers("isr"), numbers("elr"),
        numbers("last"), lambda broker: broker in live, "balanced" in words, "unclean" in words,
    )  # fmt: skip
    found = STRATEGIES[strategy](electorate, words, numbers("leaving"))
    how = " uncleanly" * (found.unclean and not found.lossless) + " yet" * found.recover
    who = "no leader" if found.leader < 0 else f"{found.leader} leads"
    return f"{who}{how}: {found.reason}"


STRATEGIES: dict[str, Callable[[Electorate, tuple[str, ...], tuple[int, ...]], Elected]] = {
    "no_op": lambda e, words, leaving: elections.no_op(e),
    "offline": lambda e, words, leaving: elections.offline(e),
    "keep": lambda e, words, leaving: elections.keep_or_offline(e),
    "preferred": lambda e, words, leaving: elections.preferred(e),
    "reassigned": lambda e, words, leaving: elections.reassigned(e),
    "shutdown": lambda e, words, leaving: elections.controlled_shutdown(e, leaving[0]),
    "designated": lambda e, words, leaving: elections.designated(e, unclean="asked" in words),
}
COMMANDS: dict[str, Callable[..., str | None]] = {"would": would}
