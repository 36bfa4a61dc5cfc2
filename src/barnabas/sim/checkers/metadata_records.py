"""Rules about what the metadata log may say, told of each committed record once, before it is replayed.

They see no event but the commit of a record of the kinds that they name, and cost nothing between.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.metadata.image.image import MetadataImage
from barnabas.wire.schema import Message


class RecordRule:
    """Looks at some kinds of record; raises :class:`barnabas.sim.history.Violation`."""

    KINDS: tuple[type[Message], ...] = ()

    def on_record(self, image: MetadataImage, offset: int, record: Message) -> None:
        """`record` was committed at `offset`; `image` is what all records before it make."""
        raise NotImplementedError


class RecordRules:
    """The rules by the kind of record that they look at."""

    def __init__(self, rules: Iterable[RecordRule]) -> None:
        self._by_kind: dict[type[Message], list[RecordRule]] = {}
        for rule in rules:
            for kind in rule.KINDS:
                self._by_kind.setdefault(kind, []).append(rule)

    def on_record(self, image: MetadataImage, offset: int, record: Message) -> None:
        for rule in self._by_kind.get(type(record), ()):
            rule.on_record(image, offset, record)
