"""Invariant 4: equal offset means equal image, whatever snapshot and tail led there."""

from __future__ import annotations

from hashlib import blake2b

from barnabas.metadata.image import MetadataImage
from barnabas.metadata.snapshot import image_records
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation


class EqualOffsetEqualImage(Checker):
    EVERY = 500
    """Whole images are compared; each at most once per offset."""

    def __init__(self) -> None:
        self.digests: dict[int, tuple[bytes, int]] = {}
        self._seen: dict[int, int] = {}

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        assert node.node is not None
        image = node.node.metadata.image
        if image.offset < 0 or self._seen.get(node.id) == image.offset:
            return
        self._seen[node.id] = image.offset
        digest = self._digest(image)
        known = self.digests.setdefault(image.offset, (digest, node.id))
        if known[0] != digest:
            raise Violation(
                f"nodes {known[1]} and {node.id} have different images at offset {image.offset}"
            )

    @staticmethod
    def _digest(image: MetadataImage) -> bytes:
        lines = sorted(repr(record) for record in image_records(image))
        return blake2b("\n".join(lines).encode(), digest_size=16).digest()
