"""Reducing a failing seed: fewer faults, fewer clients, less time, the same failure.

Every fault and every client of a seed draws from a generator of its own, so leaving one out changes
nothing that the others draw. What is left is found by delta debugging (Zeller and Hildebrandt's ddmin): in
the end no single fault and no single client can be left out without the failure going away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from barnabas.sim.run import Plan, Result, play_seed
from barnabas.sim.runner.report import command

T = TypeVar("T")
FURTHER_FAULTS = 2_000
"""A run with fewer faults may last longer and would meet new ones: so many numbers more are skipped."""
HEALS = "everything heals"


@dataclass(frozen=True)
class Shrunk:
    """The rest of a failing seed."""

    seed: int
    plan: Plan
    result: Result
    """The result of the reduced run."""
    before: Result
    played: int
    """Runs that it took."""

    def text(self) -> str:
        before, struck = self.before, self.result.struck
        clients = [client for client in before.clients if client not in self.plan.skip_clients]
        share = f"{len(struck)} of {len(before.struck)} faults"
        share += f" and {len(clients)} of {len(before.clients)} clients are enough"
        lines = [f"{share} ({self.played} runs played)"]
        lines += [f"  fault {s.number:3} at {s.at_ms:10.1f} ms: {s.kind}" for s in struck]
        lines.append(f"  clients: {', '.join(clients) or 'none'}")
        lines.append(self.result.failure.strip().splitlines()[-1])
        lines.append(f"again: {command(self.seed, self.plan)}")
        return "\n".join(lines)


AS_DRAWN = Plan()


def shrink(
    seed: int, plan: Plan = AS_DRAWN, play: Callable[[int, Plan], Result] = play_seed
) -> Shrunk | None:
    """Reduce `seed`; None where it passes."""
    before = play(seed, plan)
    if before.passed:
        return None
    return _Shrinking(seed, plan, before, play).run()


class _Shrinking:
    """One seed being reduced."""

    def __init__(
        self, seed: int, plan: Plan, before: Result, play: Callable[[int, Plan], Result]
    ) -> None:
        self.seed = seed
        self.plan = plan
        self.before = before
        self.best = before
        self.play = play
        self.played = 1
        self.last_number = max((s.number for s in before.struck), default=0) + FURTHER_FAULTS

    def run(self) -> Shrunk:
        self._bound_time(healed_ms(self.before))
        faults = [("fault", str(s.number)) for s in self.before.struck]
        clients = [("client", name) for name in self.before.clients]
        ddmin([*faults, *clients], lambda kept: self._fails(self._plan(kept)))
        self._bound_time(self.best.virtual_ms)
        return Shrunk(self.seed, self.plan, self.best, self.before, self.played)

    def _bound_time(self, faults_ms: float) -> None:
        """Heal at the latest when that has come to the failure before."""
        if self.plan.faults_ms is None or faults_ms < self.plan.faults_ms:
            self._fails(replace(self.plan, faults_ms=round(faults_ms, 1)))

    def _plan(self, kept: Sequence[tuple[str, str]]) -> Plan:
        numbers = {int(name) for kind, name in kept if kind == "fault"}
        names = {name for kind, name in kept if kind == "client"}
        return replace(
            self.plan,
            skip_faults=frozenset(range(1, self.last_number)) - numbers,
            skip_clients=frozenset(self.before.clients) - names,
        )

    def _fails(self, plan: Plan) -> bool:
        """Whether `plan` gives a failure that the same judge finds; then it is the best one so far."""
        self.played += 1
        result = self.play(self.seed, plan)
        if result.passed or result.judge != self.before.judge:
            return False
        self.best, self.plan = result, plan
        return True


def healed_ms(result: Result) -> float:
    """When the faults of a run ended: when everything healed, or when it failed."""
    for line in result.trace:
        if line.endswith(HEALS):
            return float(line.split(None, 1)[0])
    return result.virtual_ms


def ddmin(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """The smallest part of `items` found that still `fails`: leaving out any single one of it does not.
    All of `items` is taken to fail."""
    kept, parts = list(items), 2
    while kept:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if fails(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(kept):
                break
            parts = min(parts * 2, len(kept))
    return kept
