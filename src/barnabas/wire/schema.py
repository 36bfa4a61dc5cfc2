"""The base class of protocol messages, and the description of their fields by version.

One class serves all versions of a message. It has the fields of all of them, and each
:class:`Field` says in which versions it is on the wire, as in Kafka's own message
definitions. The classes in ``wire/messages``, ``metadata/records`` and the coordinators'
``records`` packages are generated from those definitions (``tools/generate_messages.py``);
:mod:`barnabas.wire.codec` compiles a reader and a writer per (class, version) on first use.

Source: Kafka protocol guide; KIP-482 (tagged fields).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

FOREVER = 32767
Versions = tuple[int, int]
"""Inclusive range (lowest, highest); empty where highest < lowest."""
NEVER: Versions = (0, -1)


class Field(NamedTuple):
    """One field of a message.

    `kind` is bool, int8, int16, uint16, int32, uint32, int64, float64, string, uuid, bytes,
    records or struct; with `array`, the field is an array of these. `struct` is the class of a structure.
    `nullable` are the versions in which null is allowed, `tagged` those in which the field is a tagged field
    with number `tag`. `ignorable`: a value other than `default` may be dropped where the version to write
    lacks the field. `flexible`: the length is compact in flexible versions.
    """

    name: str
    kind: str
    versions: Versions
    array: bool = False
    struct: type[Message] | None = None
    nullable: Versions = NEVER
    tag: int | None = None
    tagged: Versions = NEVER
    default: Any = None
    ignorable: bool = False
    flexible: bool = True


class Message:
    """Base of all protocol structures. Messages are equal if they have the same class and equal fields."""

    __slots__: tuple[str, ...] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    VALID: ClassVar[Versions] = NEVER
    """Versions that exist (top-level messages only)."""
    FLEXIBLE: ClassVar[int] = FOREVER
    """First version with compact lengths and tagged fields (top-level messages only)."""
    API_KEY: ClassVar[int] = -1
    ANSWER: ClassVar[type[Message] | None] = None
    """The class as which to decode the answer to this request, where it is not the API's response class."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        for name in self.__slots__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                if isinstance(mine, (list, tuple)) and isinstance(theirs, (list, tuple)):
                    if list(mine) == list(theirs):
                        continue
                return False
        return True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        text, values_of = _forms.get(type(self)) or _form_of(type(self))
        return text % values_of(self)


Form = tuple[str, Callable[[Message], tuple[object, ...]]]
_forms: dict[type[Message], Form] = {}


def _form_of(cls: type[Message]) -> Form:
    """The repr of the messages of a class: a format string, and a function that returns the values for it."""
    names = cls.__slots__
    text = f"{cls.__name__}({', '.join(f'{name}=%r' for name in names)})"
    if len(names) > 1:
        _forms[cls] = text, attrgetter(*names)
    else:
        _forms[cls] = text, lambda message: tuple([getattr(message, name) for name in names])
    return _forms[cls]
