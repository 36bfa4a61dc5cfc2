"""Invariant 4: equal offset means equal image, whatever snapshot and tail led there.

Brokers' images and controllers' are judged alike: decisions and snapshots come from the latter. Of a
controller's only the committed part is promised; so one that holds records of its own that may still be
undone is looked at again soon after. Nothing in the node is touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from barnabas.metadata.image.codec import encode_records
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.snapshot import image_records
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation


class EqualOffsetEqualImage(Checker):
    EVENTS_BETWEEN_CHECKS = 50
    CHECKS_BETWEEN_IMAGES = 10
    """Whole images are compared: an image in one of so many checks, and at most once per offset."""

    def __init__(self) -> None:
        self.digests: dict[int, tuple[bytes, str]] = {}
        """The first image that was seen at each offset, and whose it was."""
        self._seen: dict[str, int] = {}
        """Whose → the offset at which it was compared last."""
        self._checks = 0
        self._due: dict[str, int] = {}
        """Whose → in which check it may be compared again."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        self._checks += 1
        for whose, image in _images(node):
            if self._checks >= self._due.get(whose, 0) and self._compare(whose, image):
                self._due[whose] = self._checks + self.CHECKS_BETWEEN_IMAGES

    def finish(self, cluster: SimCluster) -> None:
        for node in cluster.nodes.values():
            if node.is_up:
                for whose, image in _images(node):
                    self._compare(whose, image)

    def _compare(self, whose: str, image: MetadataImage) -> bool:
        """Whether it was compared."""
        if image.offset < 0 or image.uncommitted or self._seen.get(whose) == image.offset:
            return False
        self._seen[whose] = image.offset
        found = digest(image)
        known = self.digests.setdefault(image.offset, (found, whose))
        if known[0] != found:
            raise Violation(
                f"{known[1]} and {whose} have different images at offset {image.offset}"
            )
        return True


def _images(node: SimNode) -> Iterator[tuple[str, MetadataImage]]:
    assert node.node is not None
    yield f"broker {node.id}", node.image
    if node.node.controller is not None:
        yield f"controller {node.id}", node.node.controller.image


def digest(image: MetadataImage) -> bytes:
    """The digest of all that it holds, in whatever order that came."""
    values = encode_records(image_records(image), image.metadata_version)
    values.sort()
    values += (repr(record).encode() for record in image.transaction or ())
    return blake2b(b"\n".join(values), digest_size=16).digest()
