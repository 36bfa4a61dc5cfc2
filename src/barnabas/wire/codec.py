"""Encodes and decodes messages, by a reader and a writer that are compiled per (class, version) on first use.

The reader checks every claimed length, refuses null where the schema does, and skips unknown tagged fields
(KIP-482). All malformed input raises one typed error. A second reader decodes strings that are not UTF-8
(:mod:`barnabas.wire.text`).

Frames, headers and correlation ids are not handled here (:mod:`barnabas.wire.frames`,
:mod:`barnabas.wire.server`). Measured, hand-written readers of frequent messages are no faster than the
compiled ones, except for messages most of whose bytes never change (`prepare`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from struct import Struct
from struct import error as StructError
from typing import Any, TypeVar

from barnabas.limits import (
    ARRAY_ELEMENTS_MAX,
    REPLICAS_ELEMENTS_MAX,
    REQUEST_ELEMENTS_MAX,
    TAGGED_FIELDS_MAX,
)
from barnabas.types import Buffer
from barnabas.wire.array_layouts import SMALL_ARRAY, array_layout, small_layouts
from barnabas.wire.schema import Field, Message
from barnabas.wire.text import KEPT_AS_BYTES, java_text, kept_text

M = TypeVar("M", bound=Message)
Reader = Callable[[memoryview, int], tuple[Any, int]]
Splices = list[tuple[int, Buffer]]
"""Buffers to insert into an encoded message, with their positions in it."""
Writer = Callable[[Any, bytearray, Splices], None]

SCALARS = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "float64": "d", "uuid": "16s",
}  # fmt: skip
OF_ALL_REPLICAS = {"FetchRequest", "AlterPartitionRequest", "AlterPartitionReassignmentsRequest"}
"""Requests that may name all replicas of a broker or cluster; `REPLICAS_ELEMENTS_MAX` bounds them."""
SPLICE_MIN = 1024
"""Records of at least this many bytes are sent from their own buffer, not copied into the frame."""


class MalformedError(ValueError):
    """The bytes are no valid message of this class and version. The connection that sent them is closed."""


class UnsupportedFieldError(ValueError):
    """A message cannot be written in this version: a field is set, say, that the version lacks."""


_readers: dict[tuple[type[Message], int], Reader] = {}
_writers: dict[tuple[type[Message], int], Writer] = {}


def decode(cls: type[M], version: int, data: Buffer) -> M:
    """The message that fills all of `data`. Raises :class:`MalformedError`."""
    message, position = decode_prefix(cls, version, memoryview(data), 0)
    if position != len(data):
        raise MalformedError(
            f"{cls.__name__} v{version}: {len(data) - position} bytes follow the message"
        )
    return message


def decode_prefix(cls: type[M], version: int, data: memoryview, position: int) -> tuple[M, int]:
    """The message at `position` of `data`, and the position after it. Raises :class:`MalformedError`."""
    try:
        try:
            reader = _readers.get((cls, version)) or reader_for(cls, version)
            return reader(data, position)
        except UnicodeDecodeError:
            return _tolerant_reader(cls, version)(data, position)
    except (StructError, IndexError, OverflowError) as error:
        raise MalformedError(f"{cls.__name__} v{version}: {error}") from error


def encode(message: Message, version: int) -> list[Buffer]:
    """Buffers to send in order; large records are not copied. Raises `UnsupportedFieldError`."""
    out = bytearray()
    splices: Splices = []
    write_into(message, version, out, splices)
    return join(out, splices)


def join(out: bytearray, splices: Splices) -> list[Buffer]:
    """The bytes of `out` with each splice inserted at its position, as buffers to send in order."""
    if not splices:
        return [out]
    view, start = memoryview(out), 0
    parts: list[Buffer] = []
    for position, part in splices:
        if position > start:
            parts.append(view[start:position])
        parts.append(part)
        start = position
    if start < len(out):
        parts.append(view[start:])
    return parts


def encode_bytes(message: Message, version: int) -> bytes:
    """The message as one byte string."""
    out = bytearray()
    splices: Splices = []
    write_into(message, version, out, splices)
    return b"".join(join(out, splices)) if splices else bytes(out)


def write_into(message: Message, version: int, out: bytearray, splices: Splices) -> None:
    """Append to `out`; records of at least `SPLICE_MIN` bytes go to `splices`. May raise as `encode`."""
    cls = type(message)
    try:
        writer = _writers.get((cls, version)) or writer_for(cls, version)
        writer(message, out, splices)
    except (StructError, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise UnsupportedFieldError(f"{cls.__name__} v{version}: {error}: {message!r}") from error


def is_flexible(cls: type[Message], version: int) -> bool:
    return version >= cls.FLEXIBLE


def reader_for(cls: type[Message], version: int) -> Reader:
    check_version(cls, version)
    reader = _ReaderSource(version, is_flexible(cls, version)).reader(cls)
    _readers[cls, version] = reader
    return reader


@cache
def _tolerant_reader(cls: type[Message], version: int) -> Reader:
    source = _ReaderSource(version, is_flexible(cls, version))
    source.tolerant = True
    return source.reader(cls)


def writer_for(cls: type[Message], version: int) -> Writer:
    check_version(cls, version)
    writer = _WriterSource(version, is_flexible(cls, version)).writer(cls)
    _writers[cls, version] = writer
    return writer


def prepare(cls: type[Message], version: int, reader: Reader, writer: Writer) -> None:
    """Use a hand-written reader and writer instead of compiled ones."""
    _readers[cls, version], _writers[cls, version] = reader, writer


def check_version(cls: type[Message], version: int) -> None:
    low, high = cls.VALID
    if not low <= version <= high:
        raise UnsupportedFieldError(f"{cls.__name__} has versions {low} to {high}, not {version}")


def read_uvarint(data: memoryview, position: int) -> tuple[int, int]:
    """(value, next position) of the unsigned varint of at most 5 bytes at `position`."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise MalformedError("a varint has more than 32 bits")
            return value, position
        shift += 7
        if shift > 28:
            raise MalformedError("a varint has more than 5 bytes")


def write_uvarint(value: int, out: bytearray) -> None:
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def skip_tags(data: memoryview, position: int, count: int) -> int:
    """The position after `count` tagged fields that the schema does not define."""
    if count > TAGGED_FIELDS_MAX:
        raise too_many_tags(count)
    for _ in range(count):
        _, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        if size > len(data) - position:
            raise MalformedError(f"a tagged field claims {size} bytes, {len(data) - position} left")
        position += size
    return position


def bad_length(what: str, size: int, left: int) -> MalformedError:
    return MalformedError(f"{what} claims length {size} with {left} bytes left")


def too_many(what: str) -> MalformedError:
    return MalformedError(f"with {what} there are more elements than a request may have")


def too_many_tags(count: int) -> MalformedError:
    return MalformedError(f"{count} tagged fields are more than {TAGGED_FIELDS_MAX}")


def null_found(what: str) -> MalformedError:
    return MalformedError(f"{what} must not be null")


def null_given(what: str) -> UnsupportedFieldError:
    return UnsupportedFieldError(f"{what} must not be null")


def not_in_version(what: str, version: int) -> UnsupportedFieldError:
    return UnsupportedFieldError(f"{what} is set, but version {version} does not have it")


def write_runs(parts: Sequence[Buffer], flexible: bool, out: bytearray, splices: Splices) -> None:
    """Append the length and bytes of record batches that are in several buffers."""
    size = sum(map(len, parts))
    if flexible:
        write_uvarint(size + 1, out)
    else:
        out += _INT32.pack(size)
    for part in parts:
        if len(part) >= SPLICE_MIN:
            splices.append((len(out), part))
        else:
            out += part


_INT32 = Struct(">i")


class _Source:
    """Python source of a reader or writer for one version: its lines, and what its names refer to."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "uvarint": read_uvarint, "write_uvarint": write_uvarint, "skip_tags": skip_tags,
            "bad_length": bad_length, "null_found": null_found, "null_given": null_given,
            "not_in_version": not_in_version, "write_runs": write_runs, "too_many": too_many,
            "too_many_tags": too_many_tags,
            "java_text": java_text, "kept_text": kept_text,
        }  # fmt: skip

    def name(self, prefix: str, value: Any) -> str:
        key = f"{prefix}_{len(self.names)}"
        self.names[key] = value
        return key

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def execute(self, function: str) -> Any:
        scope = dict(self.names)
        exec(compile("\n".join(self.lines), f"<codec v{self.version}>", "exec"), scope)
        return scope[function]

    def fields(self, cls: type[Message]) -> tuple[list[Field], list[Field], list[Field]]:
        """(plain, tagged, absent) fields of `cls` in this version."""
        plain, tagged, absent = [], [], []
        for field in cls.FIELDS:
            if not field.versions[0] <= self.version <= field.versions[1]:
                absent.append(field)
            elif field.tag is not None and field.tagged[0] <= self.version <= field.tagged[1]:
                tagged.append(field)
            else:
                plain.append(field)
        return plain, sorted(tagged, key=lambda f: f.tag or 0), absent

    def nullable(self, field: Field) -> bool:
        return field.nullable[0] <= self.version <= field.nullable[1]

    def default_source(self, field: Field) -> str:
        if field.kind == "struct" and not field.array and field.default is not None:
            assert field.struct is not None
            return self.name("S", field.struct) + "()"
        if field.default is None or isinstance(field.default, (bool, int, str, float)):
            return repr(field.default)
        return self.name("D", field.default)


def null_struct(field: Field) -> int:
    """The byte that means a null structure: 0 in a tagged field, 255 (-1) elsewhere."""
    return 0 if field.tag is not None else 255


class _ReaderSource(_Source):
    """Generates the source of a reader.

    A structure at nesting level k is the local variable ``o<k>`` of the source. Elements of arrays are
    decoded inline, as a call per element would cost more than decoding a small one. The number of elements of
    an array is bounded, that of all arrays together in requests only: responses grow with the cluster.
    """

    bounded = False
    tolerant = False
    """Whether the reader decodes strings that are not UTF-8."""

    def reader(self, cls: type[Message]) -> Reader:
        self.add(0, "def read(buf, pos):")
        self.add(1, "size = len(buf)")
        self.bounded = cls.__name__.endswith("Request")
        if self.bounded:
            wide = cls.__name__ in OF_ALL_REPLICAS
            self.add(1, f"left = {REPLICAS_ELEMENTS_MAX if wide else REQUEST_ELEMENTS_MAX}")
        self.read_struct(cls, 1, 0)
        self.add(1, "return o0, pos")
        reader: Reader = self.execute("read")
        return reader

    def read_struct(self, cls: type[Message], depth: int, level: int) -> None:
        """Add source that decodes the bytes at ``pos`` into ``o{level}``."""
        plain, tagged, absent = self.fields(cls)
        o = f"o{level}"
        self.add(depth, f"{o} = {self.name('new', cls.__new__)}({self.name('cls', cls)})")
        late = [f for f in tagged if f.kind == "struct" and not f.array and f.default is not None]
        for field in absent + tagged:
            source = "None" if field in late else self.default_source(field)
            self.add(depth, f"{o}.{field.name} = {source}")
        run: list[Field] = []
        for field in plain:
            if field.kind in SCALARS and not field.array:
                run.append(field)
                continue
            self.read_run(run, depth, o, self.begins_with_byte(field))
            run = []
            self.read_field(field, depth, cls, level)
        self.read_run(run, depth, o, self.flexible)
        if self.flexible:
            self.read_tags(tagged, cls, depth, level)
        for field in late:  # a default structure is made only where the message has none
            self.add(depth, f"if {o}.{field.name} is None:")
            self.make_default(field, depth + 1, f"{o}.{field.name}")

    def make_default(self, field: Field, depth: int, target: str) -> None:
        """Add source that sets `target` to a structure of defaults; inline, to save a call, unless it is
        nested."""
        assert field.struct is not None
        if any(part.kind == "struct" for part in field.struct.FIELDS):
            self.add(depth, f"{target} = {self.default_source(field)}")
            return
        new = f"{self.name('new', field.struct.__new__)}({self.name('cls', field.struct)})"
        self.add(depth, f"{target} = made = {new}")
        for part in field.struct.FIELDS:
            self.add(depth, f"made.{part.name} = {self.default_source(part)}")

    def begins_with_byte(self, field: Field) -> bool:
        """Whether the field begins with a byte to read into ``n``: a compact length or the byte for null."""
        if field.array or (field.kind not in SCALARS and field.kind != "struct"):
            return self.flexible and field.flexible
        return field.kind == "struct" and self.nullable(field)

    def read_run(self, run: list[Field], depth: int, o: str, ahead: bool) -> None:
        """Add source that reads the fixed-size fields `run` at once; with `ahead`, also the next byte, into
        ``n``."""
        if not run:
            if ahead:
                self.add(depth, "n = buf[pos]; pos += 1")
            return
        layout = Struct(">" + "".join(SCALARS[f.kind] for f in run) + ("B" if ahead else ""))
        unpack = self.name("U", layout.unpack_from)
        targets = [f"{o}.{f.name}" for f in run] + (["n"] if ahead else [])
        comma = "," if len(targets) == 1 else ""
        self.add(depth, f"{', '.join(targets)}{comma} = {unpack}(buf, pos)")
        self.add(depth, f"pos += {layout.size}")

    def read_length(self, field: Field, depth: int, short: bool) -> None:
        """Add source that puts the next length into ``n``; -1 is null. ``n`` has the first byte of a compact
        length already."""
        if self.flexible and field.flexible:
            self.add(depth, "if n > 127: n, pos = uvarint(buf, pos - 1)")
            self.add(depth, "n -= 1")
        else:
            unpack = self.name("U", Struct(">h" if short else ">i").unpack_from)
            self.add(depth, f"n, = {unpack}(buf, pos); pos += {2 if short else 4}")

    def read_field(self, field: Field, depth: int, cls: type[Message], level: int) -> None:
        """Add source that reads one field. ``n`` has its first byte already where `begins_with_byte`."""
        target, what = f"o{level}.{field.name}", repr(f"{cls.__name__}.{field.name}")
        if field.array:
            self.read_length(field, depth, short=False)
            self.null_branch(field, depth, target, what)
            is_bad = f"n > size - pos or n > {ARRAY_ELEMENTS_MAX}"
            self.add(depth + 1, f"if {is_bad}: raise bad_length({what}, n, size - pos)")
            self.read_elements(field, depth + 1, target, what, level)
        elif field.kind == "struct":
            assert field.struct is not None
            if self.nullable(field):
                self.add(depth, f"if n == {null_struct(field)}: {target} = None")
                self.add(depth, "else:")
                depth += 1
            self.read_struct(field.struct, depth, level + 1)
            self.add(depth, f"{target} = o{level + 1}")
        elif field.kind in SCALARS:
            layout = Struct(">" + SCALARS[field.kind])
            unpack = self.name("U", layout.unpack_from)
            self.add(depth, f"{target}, = {unpack}(buf, pos); pos += {layout.size}")
        else:
            self.read_length(field, depth, short=field.kind == "string")
            self.null_branch(field, depth, target, what)
            self.read_sized(field, depth + 1, target, what)

    def null_branch(self, field: Field, depth: int, target: str, what: str) -> None:
        self.add(depth, "if n < 0:")
        self.add(depth + 1, f"if n != -1: raise bad_length({what}, n, size - pos)")
        if self.nullable(field):
            self.add(depth + 1, f"{target} = None")
        else:
            self.add(depth + 1, f"raise null_found({what})")
        self.add(depth, "else:")

    def read_sized(self, field: Field, depth: int, target: str, what: str) -> None:
        self.add(depth, "end = pos + n")
        self.add(depth, f"if end > size: raise bad_length({what}, n, size - pos)")
        text = "str(buf[pos:end], 'utf-8')"
        if self.tolerant:
            text = f"{'kept' if what[1:-1] in KEPT_AS_BYTES else 'java'}_text(buf[pos:end])"
        source = {
            "string": f"{text} if n else ''",
            "bytes": "bytes(buf[pos:end])",
            "records": "buf[pos:end]",
        }[field.kind]
        self.add(depth, f"{target} = {source}")
        self.add(depth, "pos = end")

    def read_elements(self, field: Field, depth: int, target: str, what: str, level: int) -> None:
        items = f"items{level}"
        if self.bounded and (field.kind == "uuid" or field.kind not in SCALARS):
            self.add(depth, "left -= n")
            self.add(depth, f"if left < 0: raise too_many({what})")
        if field.kind == "struct":
            assert field.struct is not None
            self.add(depth, f"{items} = []")
            self.add(depth, "for _ in range(n):")
            self.read_struct(field.struct, depth + 1, level + 1)
            self.add(depth + 1, f"{items}.append(o{level + 1})")
            self.add(depth, f"{target} = {items}")
        elif field.kind in SCALARS and field.kind != "uuid":
            layout = Struct(">" + SCALARS[field.kind])
            small = self.name("F", small_layouts(SCALARS[field.kind], "unpack_from"))
            layout_of = self.name("L", partial(array_layout, SCALARS[field.kind]))
            self.add(depth, f"end = pos + n * {layout.size}")
            self.add(depth, f"if end > size: raise bad_length({what}, n, size - pos)")
            self.add(depth, f"if n < {SMALL_ARRAY}: {target} = list({small}[n](buf, pos))")
            self.add(depth, f"else: {target} = list({layout_of}(n).unpack_from(buf, pos))")
            self.add(depth, "pos = end")
        elif field.kind == "uuid":
            self.add(depth, "end = pos + n * 16")
            self.add(depth, f"if end > size: raise bad_length({what}, n, size - pos)")
            self.add(depth, f"{target} = [bytes(buf[p:p + 16]) for p in range(pos, end, 16)]")
            self.add(depth, "pos = end")
        else:
            element = field._replace(array=False, nullable=(0, -1))
            self.add(depth, f"{items} = []")
            self.add(depth, "for _ in range(n):")
            self.read_run([], depth + 1, "", self.begins_with_byte(element))
            self.read_length(element, depth + 1, short=field.kind == "string")
            self.add(depth + 1, f"if n < 0: raise null_found({what})")
            self.read_sized(element, depth + 1, "item", what)
            self.add(depth + 1, f"{items}.append(item)")
            self.add(depth, f"{target} = {items}")

    def read_tags(self, tagged: list[Field], cls: type[Message], depth: int, level: int) -> None:
        """Add source that reads the tagged fields; ``n`` has the first byte of their number."""
        self.add(depth, "if n:")
        self.add(depth + 1, "if n > 127: n, pos = uvarint(buf, pos - 1)")
        if not tagged:
            self.add(depth + 1, "pos = skip_tags(buf, pos, n)")
            return
        stop = f"stop{level}"
        self.add(depth + 1, f"if n > {TAGGED_FIELDS_MAX}: raise too_many_tags(n)")
        self.add(depth + 1, "for _ in range(n):")
        self.add(depth + 2, "tag = buf[pos]; pos += 1")
        self.add(depth + 2, "if tag > 127: tag, pos = uvarint(buf, pos - 1)")
        self.add(depth + 2, "n = buf[pos]; pos += 1")
        self.add(depth + 2, "if n > 127: n, pos = uvarint(buf, pos - 1)")
        self.add(depth + 2, f"{stop} = pos + n")
        what = repr(f"{cls.__name__}: a tagged field")
        self.add(depth + 2, f"if {stop} > size: raise bad_length({what}, n, size - pos)")
        for index, field in enumerate(tagged):
            self.add(depth + 2, f"{'if' if index == 0 else 'elif'} tag == {field.tag}:")
            self.read_run([], depth + 3, "", self.begins_with_byte(field))
            self.read_field(field, depth + 3, cls, level)
            self.add(depth + 3, f"if pos != {stop}: raise bad_length({what}, {stop}, pos)")
        self.add(depth + 2, f"else: pos = {stop}")


class _WriterSource(_Source):
    """Generates the source of a writer; structures are named and nested as in :class:`_ReaderSource`."""

    def __init__(
        self, version: int, flexible: bool, made: dict[type[Message], Writer] | None = None
    ) -> None:
        super().__init__(version, flexible)
        self.made: dict[type[Message], Writer] = {} if made is None else made
        """Writers of the structures in one message, each compiled once."""

    def writer(self, cls: type[Message]) -> Writer:
        if cls in self.made:
            return self.made[cls]
        sub = _WriterSource(self.version, self.flexible, self.made)
        sub.add(0, "def write(o0, out, splices):")
        sub.write_body(cls, 1, 0, "out")
        if len(sub.lines) == 1:
            sub.add(1, "pass")
        writer: Writer = sub.execute("write")
        self.made[cls] = writer
        return writer

    def write_body(self, cls: type[Message], depth: int, level: int, out: str) -> None:
        """Add source that appends ``o{level}`` to `out`."""
        plain, tagged, absent = self.fields(cls)
        o = f"o{level}"
        for field in absent:
            if not field.ignorable:
                what = repr(f"{cls.__name__}.{field.name}")
                test = self.differs(field, f"{o}.{field.name}")
                self.add(depth, f"if {test}: raise not_in_version({what}, {self.version})")
        run: list[Field] = []
        for field in plain:
            if field.kind in SCALARS and not field.array:
                run.append(field)
                continue
            self.write_run(run, depth, o, out)
            run = []
            self.write_field(field, depth, cls, level, out)
        # The count of tagged fields is one byte; it is written together with the fields before it.
        self.write_run(run, depth, o, out, untagged=self.flexible)
        if tagged:
            self.write_tags(tagged, cls, depth, level, out)

    def differs(self, field: Field, value: str) -> str:
        """The source of a test that the field's `value` is not its default."""
        if field.array:
            return (
                f"{value} is not None" if field.default is None else f"{value} is None or {value}"
            )
        if field.default is None:
            return f"{value} is not None"
        if field.kind == "struct":
            return self.struct_differs(field, value)
        if field.kind in ("bytes", "records"):
            return f"{value} is None or len({value})"
        return f"{value} != {self.default_source(field)}"

    def struct_differs(self, field: Field, value: str) -> str:
        """The comparison that `differs` makes, for a structure: field by field if all are scalars, which
        is faster."""
        assert field.struct is not None
        parts = field.struct.FIELDS
        if not all(part.kind in SCALARS and not part.array for part in parts):
            return f"{value} != {self.name('D', field.struct())}"
        tests = [f"{value}.{part.name} != {self.default_source(part)}" for part in parts]
        return f"{value} is None or {' or '.join(tests)}"

    def write_run(
        self, run: list[Field], depth: int, o: str, out: str, untagged: bool = False
    ) -> None:
        """Add source that writes the fixed-size fields `run` at once; with `untagged`, also a 0, the number
        of tagged fields."""
        if run:
            layout = ">" + "".join(SCALARS[f.kind] for f in run) + ("B" if untagged else "")
            values = [f"{o}.{f.name}" for f in run] + (["0"] if untagged else [])
            self.add(depth, f"{out} += {self.name('P', Struct(layout).pack)}({', '.join(values)})")
        elif untagged:
            self.add(depth, f"{out}.append(0)")

    def write_length(self, field: Field, depth: int, short: bool, out: str) -> None:
        if self.flexible and field.flexible:
            self.add(depth, f"if n < 127: {out}.append(n + 1)")
            self.add(depth, f"else: write_uvarint(n + 1, {out})")
        else:
            pack = self.name("P", Struct(">h" if short else ">i").pack)
            self.add(depth, f"{out} += {pack}(n)")

    def write_null(self, field: Field, short: bool) -> bytes:
        if self.flexible and field.flexible:
            return b"\x00"
        return b"\xff\xff" if short else b"\xff\xff\xff\xff"

    def write_field(
        self, field: Field, depth: int, cls: type[Message], level: int, out: str
    ) -> None:
        what, v = repr(f"{cls.__name__}.{field.name}"), f"v{level}"
        self.add(depth, f"{v} = o{level}.{field.name}")
        if field.kind in SCALARS and not field.array:
            pack = self.name("P", Struct(">" + SCALARS[field.kind]).pack)
            self.add(depth, f"{out} += {pack}({v})")
            return
        if field.kind == "struct" and not field.array:
            self.write_struct(field, depth, what, v, out)
            return
        short = field.kind == "string" and not field.array
        self.add(depth, f"if {v} is None:")
        if self.nullable(field):
            self.add(depth + 1, f"{out} += {self.write_null(field, short)!r}")
        else:
            self.add(depth + 1, f"raise null_given({what})")
        self.add(depth, "else:")
        if field.array:
            self.add(depth + 1, f"n = len({v})")
            self.write_length(field, depth + 1, False, out)
            self.write_elements(field, depth + 1, level, out)
        elif field.kind == "records" and out == "out":
            self.write_records(field, depth + 1, v)
        else:
            self.write_sized(field, depth + 1, v, out, what[1:-1] in KEPT_AS_BYTES)

    def write_records(self, field: Field, depth: int, v: str) -> None:
        self.add(depth, f"if isinstance({v}, list):")
        flexible = self.flexible and field.flexible
        self.add(depth + 1, f"write_runs({v}, {flexible}, out, splices)")
        self.add(depth, "else:")
        self.add(depth + 1, f"n = len({v})")
        self.write_length(field, depth + 1, False, "out")
        self.add(depth + 1, f"if n < {SPLICE_MIN}: out += {v}")
        self.add(depth + 1, f"else: splices.append((len(out), {v}))")

    def write_sized(self, field: Field, depth: int, v: str, out: str, kept: bool = False) -> None:
        if field.kind == "string":
            how = "'utf-8', 'surrogateescape'" if kept else ""
            self.add(depth, f"{v} = {v}.encode({how})")
        self.add(depth, f"n = len({v})")
        self.write_length(field, depth, field.kind == "string", out)
        self.add(depth, f"{out} += {v}")

    def write_struct(self, field: Field, depth: int, what: str, v: str, out: str) -> None:
        assert field.struct is not None
        write = self.name("W", self.writer(field.struct))
        splices = "splices" if out == "out" else "None"
        if self.nullable(field):
            self.add(depth, f"if {v} is None: {out}.append({null_struct(field)})")
            self.add(depth, f"else: {out}.append(1); {write}({v}, {out}, {splices})")
        else:
            self.add(depth, f"if {v} is None: raise null_given({what})")
            self.add(depth, f"{write}({v}, {out}, {splices})")

    def write_elements(self, field: Field, depth: int, level: int, out: str) -> None:
        v = f"v{level}"
        if field.kind == "struct":
            assert field.struct is not None
            self.add(depth, f"for o{level + 1} in {v}:")
            self.write_body(field.struct, depth + 1, level + 1, out)
        elif field.kind == "uuid":
            self.add(depth, f"{out} += {self.name('J', b''.join)}({v})")
        elif field.kind in SCALARS:
            small = self.name("A", small_layouts(SCALARS[field.kind], "pack"))
            layout_of = self.name("L", partial(array_layout, SCALARS[field.kind]))
            self.add(depth, f"if n < {SMALL_ARRAY}: {out} += {small}[n](*{v})")
            self.add(depth, f"else: {out} += {layout_of}(n).pack(*{v})")
        else:
            self.add(depth, f"for e in {v}:")
            self.write_sized(field._replace(array=False), depth + 1, "e", out)

    def write_tags(
        self, tagged: list[Field], cls: type[Message], depth: int, level: int, out: str
    ) -> None:
        # `write_body` wrote the count as 0; each field that is written adds 1. There are fewer than 128.
        at, part = f"at{level}", f"part{level}"
        self.add(depth, f"{at} = len({out}) - 1")
        for field in tagged:
            self.add(depth, f"if {self.differs(field, f'o{level}.{field.name}')}:")
            self.add(depth + 1, f"{out}[{at}] += 1")
            size = self.fixed_size(field)
            if size is not None:
                self.add(depth + 1, f"{out} += {_uvarint(field.tag or 0) + _uvarint(size)!r}")
                self.write_field(field, depth + 1, cls, level, out)
                continue
            self.add(depth + 1, f"{part} = bytearray()")
            self.write_field(field, depth + 1, cls, level, part)
            self.add(depth + 1, f"{out} += {_uvarint(field.tag or 0)!r}")
            self.add(depth + 1, f"n = len({part})")
            self.add(depth + 1, f"if n < 128: {out}.append(n)")
            self.add(depth + 1, f"else: write_uvarint(n, {out})")
            self.add(depth + 1, f"{out} += {part}")

    def fixed_size(self, field: Field) -> int | None:
        """Encoded size of the field in bytes; None where it depends on the value."""
        if field.array or (field.kind != "struct" and field.kind not in SCALARS):
            return None
        if field.kind in SCALARS:
            return Struct(">" + SCALARS[field.kind]).size
        assert field.struct is not None
        plain, tagged, _ = self.fields(field.struct)
        sizes = [self.fixed_size(part) for part in plain]
        if tagged or self.nullable(field) or None in sizes:
            return None
        return sum(size for size in sizes if size is not None) + 1  # the number of tagged fields, 0


def _uvarint(value: int) -> bytes:
    out = bytearray()
    write_uvarint(value, out)
    return bytes(out)
