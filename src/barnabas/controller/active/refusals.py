"""The last refused or delayed decisions with their reasons.

They write no record, so they are kept here. Each controller keeps its own refusals, also after it
resigned; they end with the process. ``DescribeCluster`` on a controller's listener returns them
(``barnabas cluster events``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from barnabas.wire.errors import code_of
from barnabas.wire.schema import Message

REFUSALS_MAX = 1000
PARTS_MAX = 1000


class RefusalNote(NamedTuple):
    """`number` counts from 0 since this process began; `at_ms`: the date, milliseconds since 1970."""

    number: int
    at_ms: int
    subject: str
    code: str
    reason: str


class Refusals:
    """The last refusals, at most a fixed number, the newest last."""

    def __init__(self, wall_ms: Callable[[], int], most: int = REFUSALS_MAX) -> None:
        self._wall_ms = wall_ms
        self._notes: deque[RefusalNote] = deque(maxlen=most)
        self._count = 0

    def add(self, subject: str, code: str, reason: str) -> None:
        self._notes.append(RefusalNote(self._count, self._wall_ms(), subject, code, reason))
        self._count += 1

    def note_all(self, api: str, response: Message) -> None:
        """Note every part of a response that has an error, with its name. This takes one turn, so
        at most `PARTS_MAX` parts are looked at."""
        self._note_part(api, response, PARTS_MAX)

    def _note_part(self, api: str, response: Message, left: int, within: str = "") -> int:
        """Note the errors of a part and of those in it, `left` parts at most. Returns how many are left.
        `within` is the subject of the part around this one."""
        code, lists = getattr(response, "error_code", 0), _lists_of(type(response))
        if not code and not lists:
            return left
        subject = _subject(response, within)
        if code:
            said = getattr(response, "error_message", None) or ""
            self.add(f"{api} {subject}".rstrip(), code_of(code).name, said)
        for name in lists:
            for part in getattr(response, name) or ():
                if left <= 0:
                    return 0
                left = self._note_part(api, part, left - 1, subject)
        return left

    def since(self, at_ms: int = 0) -> list[RefusalNote]:
        """The refusals of `at_ms` or later."""
        return [note for note in self._notes if note.at_ms >= at_ms]

    def after(self, number: int) -> list[RefusalNote]:
        """The refusals after number `number`. If no refusal has that number yet, it comes from an
        earlier process, and all refusals are returned."""
        if number >= self._count:
            number = -1
        return [note for note in self._notes if note.number > number]

    def __len__(self) -> int:
        return len(self._notes)


_lists: dict[type, tuple[str, ...]] = {}


def _lists_of(kind: type[Message]) -> tuple[str, ...]:
    """The fields of a class that have parts of their own."""
    found = _lists.get(kind)
    if found is None:
        fields = (f.name for f in kind.FIELDS if f.struct is not None and f.array)
        found = _lists[kind] = tuple(fields)
    return found


def _subject(part: Message, within: str) -> str:
    """The subject of a part of a response: a name, or a partition of what is named around it."""
    for name in ("name", "topic", "resource_name", "feature"):
        value = getattr(part, name, None)
        if value is not None:
            return str(value)
    for name in ("partition_index", "partition_id"):
        value = getattr(part, name, None)
        if value is not None:
            return f"{within}-{value}" if within else str(value)
    return ""
