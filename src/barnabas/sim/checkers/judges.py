"""Which checkers to call after an event: those for which there may be something new."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from barnabas.metadata.image import MetadataImage
from barnabas.raft.election_state import ElectionState
from barnabas.raft.states import State
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode

Check = Callable[[SimCluster, SimNode], None]


class Seen:
    """What a node showed when it was looked at last. Values are held, so that none can be mistaken for
    another that came later."""

    __slots__ = ("image", "image_offset", "saved", "saves", "state")

    def __init__(self) -> None:
        self.state: State | None = None
        self.saved: ElectionState | None = None
        self.saves = False
        self.image: MetadataImage | None = None
        self.image_offset = -1


class Judges:
    """The checkers of one run, by what makes them look."""

    def __init__(self, cluster: SimCluster, checkers: list[Checker]) -> None:
        self._cluster = cluster
        judging = [c for c in checkers if type(c).check is not Checker.check]
        self._at_each: list[Check] = []
        self._at_image: list[Check] = []
        self._at_election: list[Check] = []
        self._seldom: list[tuple[int, Check]] = []
        for checker in judging:
            if checker.EVERY > 1:
                self._seldom.append((checker.EVERY, checker.check))
            elif checker.LOOKS_AT_IMAGE:
                self._at_image.append(checker.check)
            elif checker.LOOKS_AT_ELECTIONS:
                self._at_election.append(checker.check)
            else:
                self._at_each.append(checker.check)
        self._pace = gcd(*(every for every, _ in self._seldom)) or 1
        """After fewer events none of the seldom ones is due."""
        self._events = 0
        self._seen: dict[int, Seen] = {}
        """By node."""

    def look(self, node: object) -> None:
        """An event ran on `node`. Raises :class:`barnabas.sim.history.Violation`."""
        if not isinstance(node, SimNode):
            return
        inside, process = node.node, node.process
        if inside is None or process is None or not process.alive:
            return
        cluster, seen = self._cluster, self._seen.get(node.id)
        if seen is None:
            seen = self._seen[node.id] = Seen()
        machine = inside.quorum.machine
        if machine.state is not seen.state or machine.saved is not seen.saved or seen.saves:
            seen.state, seen.saved = machine.state, machine.saved
            seen.saves = inside.quorum.is_saving
            for check in self._at_election:
                check(cluster, node)
        for check in self._at_each:
            check(cluster, node)
        image = inside.metadata.image
        if image is not seen.image or image.offset != seen.image_offset:
            seen.image, seen.image_offset = image, image.offset
            for check in self._at_image:
                check(cluster, node)
        self._events += 1
        if self._events % self._pace == 0:
            for every, check in self._seldom:
                if self._events % every == 0:
                    check(cluster, node)
