"""Which checkers to call after an event: those for which there may be something new."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from barnabas.metadata.image import MetadataImage
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode

Check = Callable[[SimCluster, SimNode], None]


class Judges:
    """The checkers of one run, by what makes them look."""

    def __init__(self, checkers: list[Checker]) -> None:
        judging = [c for c in checkers if type(c).check is not Checker.check]
        self._at_each: list[Check] = []
        self._at_image: list[Check] = []
        self._seldom: list[tuple[int, Check]] = []
        for checker in judging:
            if checker.EVERY > 1:
                self._seldom.append((checker.EVERY, checker.check))
            elif checker.LOOKS_AT_IMAGE:
                self._at_image.append(checker.check)
            else:
                self._at_each.append(checker.check)
        self._pace = gcd(*(every for every, _ in self._seldom)) or 1
        """After fewer events none of the seldom ones is due."""
        self._events = 0
        self._images: dict[int, tuple[MetadataImage, int]] = {}
        """Node → its image and that image's offset, when they were looked at last."""

    def look(self, cluster: SimCluster, node: SimNode) -> None:
        """An event ran on `node`, which is up. Raises :class:`barnabas.sim.history.Violation`."""
        for check in self._at_each:
            check(cluster, node)
        assert node.node is not None
        image = node.node.metadata.image
        seen = self._images.get(node.id)
        if seen is None or seen[0] is not image or seen[1] != image.offset:
            self._images[node.id] = (image, image.offset)
            for check in self._at_image:
                check(cluster, node)
        self._events += 1
        if self._events % self._pace == 0:
            for every, check in self._seldom:
                if self._events % every == 0:
                    check(cluster, node)
