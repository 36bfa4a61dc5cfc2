"""The base class of protocol messages, and the description of their fields by version.

One class serves all versions of a message. It has the fields of all of them, each on one annotated line that
says in which versions the field is on the wire, as in Kafka's own message definitions::

    class EndTxnRequest(Message):
        VALID = (0, 5)
        transactional_id: str = string(0, default="")

The metaclass turns these lines into `FIELDS` and ``__slots__``; the constructor, which takes every field by
keyword, is compiled when a class has been used a few times. Type checkers see a dataclass (PEP 681). The
classes in ``wire/messages``, ``metadata/records`` and the coordinators' ``records`` packages are generated
from Kafka's definitions (``tools/generate_messages.py``); :mod:`barnabas.wire.codec` compiles a reader and a
writer per (class, version) on first use.

Source: Kafka protocol guide; KIP-482 (tagged fields); PEP 681.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, dataclass_transform

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


class _Declared(NamedTuple):
    """All of a `Field` but its name, which is that of the class variable."""

    kind: str
    versions: Versions
    array: bool
    struct: type[Message] | None
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: Any
    ignorable: bool
    flexible: bool


def _declare(  # noqa: PLR0913 - attributes of a field
    kind: str,
    since: int,
    until: int = FOREVER,
    *,
    default: Any = None,
    default_factory: type[Message] | None = None,
    nullable: int | Versions = NEVER,
    tag: int | None = None,
    tagged: int | Versions = NEVER,
    ignorable: bool = False,
    flexible: bool = True,
    is_array: bool = False,
    of: type[Message] | None = None,
) -> _Declared:
    """One field: `since` and `until` are the first and the last version that has it.

    `nullable` and `tagged` are (first, last), or the first of the versions up to `until`. A field with a
    `tag` is tagged in all of its versions unless `tagged` says otherwise.
    """
    if isinstance(nullable, int):
        nullable = (nullable, until)
    if tag is not None and tagged is NEVER:
        tagged = since
    if isinstance(tagged, int):
        tagged = (tagged, until)
    if default_factory is not None:
        default = default_factory()
    return _Declared(
        kind,
        (since, until),
        is_array,
        of,
        nullable,
        tag,
        tagged,
        default,
        ignorable,
        flexible,
    )


def bool_(since: int, until: int = FOREVER, **options: Any) -> Any:
    return _declare("bool", since, until, **options)


def int8(since: int, until: int = FOREVER, **options: Any) -> Any:
    return _declare("int8", since, until, **options)


def int16(since: int, until: int = FOREVER, **options: Any) -> Any:
    return _declare("int16", since, until, **options)


def uint16(since: int, until: int = FOREVER, **options: Any) -> Any:
    return _declare("uint16", since, until, **options)


def int32(since: int, until: int = FOREVER, **options: Any) -> Any:
    return _declare("int32", since, until, **options)


def uint32(since: int, until: int = FOREVER, **options: Any) -> Any:
    return _declare("uint32", since, until, **options)


def int64(since: int, until: int = FOREVER, **options: Any) -> Any:
    return _declare("int64", since, until, **options)


def float64(since: int, until: int = FOREVER, **options: Any) -> Any:
    return _declare("float64", since, until, **options)


def string(since: int, until: int = FOREVER, **options: Any) -> Any:
    return _declare("string", since, until, **options)


def uuid(since: int, until: int = FOREVER, **options: Any) -> Any:
    return _declare("uuid", since, until, **options)


def bytes_(since: int, until: int = FOREVER, **options: Any) -> Any:
    return _declare("bytes", since, until, **options)


def records(since: int, until: int = FOREVER, **options: Any) -> Any:
    return _declare("records", since, until, **options)


def struct(of: type[Message], since: int, until: int = FOREVER, **options: Any) -> Any:
    return _declare("struct", since, until, of=of, **options)


def array(
    of: Callable[..., Any] | type[Message], since: int, until: int = FOREVER, **options: Any
) -> Any:
    """A field that has any number of elements: a message class, or a function above that declares one."""
    if isinstance(of, type):
        return _declare("struct", since, until, of=of, is_array=True, **options)
    return _declare(of.__name__.rstrip("_"), since, until, is_array=True, **options)


SPECIFIERS = (
    bool_, int8, int16, uint16, int32, uint32, int64, float64, string, uuid, bytes_, records, struct, array,
)  # fmt: skip
"""The functions that declare a field, by the kind of its value."""


class _MessageType(type):
    """Makes a class with slots of the fields that its body declares."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]
    ) -> _MessageType:
        declared = {key: value for key, value in namespace.items() if type(value) is _Declared}
        if declared:
            for key in declared:
                del namespace[key]
            namespace["__slots__"] = tuple(declared)
            namespace["FIELDS"] = tuple([Field(key, *value) for key, value in declared.items()])
        else:
            namespace.setdefault("__slots__", ())
        return super().__new__(mcls, name, bases, namespace)


COMPILED_AFTER = 8
"""Instances of a class that are made by the general constructor before the class gets one of its own."""


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(
    bool_, int8, int16, uint16, int32, uint32, int64, float64, string, uuid, bytes_, records, struct, array,
))  # fmt: skip
class Message(metaclass=_MessageType):
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

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        made = _made[cls] = _made.get(cls, 0) + 1
        if made > COMPILED_AFTER:
            del _made[cls]
            cls.__init__ = _constructor_of(cls)  # type: ignore[method-assign]
            cls.__init__(self, **values)
            return
        for field in cls.FIELDS:
            value = values.pop(field.name, field.default)
            if _has_own(field) and (value is None or value is field.default):
                assert field.struct is not None
                value = field.struct()
            setattr(self, field.name, value)
        if values:
            raise TypeError(f"{cls.__name__} has no field {', '.join(values)}")

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


_made: dict[type[Message], int] = {}
"""How many instances the general constructor has made of a class that has none of its own."""


def _has_own(field: Field) -> bool:
    """Whether each message gets a structure of its own as the field's default."""
    return field.kind == "struct" and not field.array and field.default is not None


def _constructor_of(cls: type[Message]) -> Callable[..., None]:
    """A constructor of a class: all fields by keyword, each with its default."""
    names: dict[str, Any] = {}
    lines = [f"def __init__(self, *, {', '.join(field.name for field in cls.FIELDS)}):"]
    for field in cls.FIELDS:
        value = field.name
        if _has_own(field):
            names[f"of_{field.name}"] = field.struct
            value = f"of_{field.name}() if {field.name} is None else {field.name}"
        lines.append(f"    self.{field.name} = {value}")
    if not cls.FIELDS:
        lines = ["def __init__(self): pass"]
    exec(compile("\n".join(lines), f"<constructor of {cls.__name__}>", "exec"), names)
    constructor: Callable[..., None] = names["__init__"]
    constructor.__kwdefaults__ = {
        field.name: None if _has_own(field) else field.default for field in cls.FIELDS
    }
    return constructor


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
