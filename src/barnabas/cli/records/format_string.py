"""kcat's format strings: ``'%t [%p] at %o: %k = %s\\n'``, with the bytes that kcat prints.

Tokens: ``%t`` topic, ``%p`` partition, ``%o`` offset, ``%T`` timestamp in ms, ``%k`` and ``%s`` key and
value, ``%K`` and ``%S`` their lengths (-1 where they are null), ``%R`` the value's length as four bytes (big
endian), ``%h`` headers (``name=value,name=value``, a null value as ``NULL``), ``%%`` a per cent sign.
Escapes: ``\\n``, ``\\r``, ``\\t``, ``\\xNN`` hexadecimal, ``\\0NN`` octal, ``\\NN`` decimal; another
character behind a backslash is itself. Nothing is added: a line ends where the string says so.

kcat 1.7 ends with an error at an escape for the byte 0; here it is that byte. Source: kcat's manual page, and
kcat 1.7.1 beside us (``tests/interop``).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import NamedTuple

from barnabas.client.records import ConsumerRecord

TOKENS = "tpoTksKSRh"
_ESCAPE = re.compile(
    rb"\\(?:x(?P<hex>[0-9A-Fa-f]+)|0[xX](?P<hex0>[0-9A-Fa-f]+)"
    rb"|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*)|(?P<char>.))",
    re.DOTALL,
)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_LENGTH = struct.Struct(">i").pack


class FormatString(NamedTuple):
    """Literal bytes, and tokens as one-letter texts, in order."""

    parts: tuple[bytes | str, ...]

    @property
    def tokens(self) -> frozenset[str]:
        return frozenset(part for part in self.parts if isinstance(part, str))


def parse_format(text: str) -> FormatString:
    """Raises ``ValueError`` for a token that there is not."""
    parts: list[bytes | str] = []
    literal, rest = b"", text.encode("utf-8", "surrogateescape")
    while rest:
        plain, sign, rest = rest.partition(b"%")
        literal += unescape(plain)
        if not sign:
            break
        token, rest = rest[:1].decode("ascii", "replace"), rest[1:]
        if token == "%":
            literal += b"%"
        elif token and token in TOKENS:
            if literal:
                parts.append(literal)
            parts.append(token)
            literal = b""
        else:
            known = ", ".join(f"%{name}" for name in TOKENS)
            raise ValueError(f"a format has no %{token}: it has {known} and %%")
    if literal:
        parts.append(literal)
    return FormatString(tuple(parts))


def unescape(text: bytes) -> bytes:
    """`text` with the bytes that its escapes mean; a backslash at the end is itself."""
    return _ESCAPE.sub(_byte_of, text)


def _byte_of(found: re.Match[bytes]) -> bytes:
    char = found["char"]
    if char is not None:
        return _NAMED.get(char, char)
    if found["octal"] is not None:
        number = int(found["octal"], 8)
    elif found["decimal"] is not None:
        number = int(found["decimal"])
    else:
        number = int(found["hex"] or found["hex0"], 16)
    return bytes([number & 0xFF])


def compiled(format_string: FormatString, null: bytes = b"") -> Callable[[ConsumerRecord], bytes]:
    """A function from a record to its bytes; `null` replaces null keys and values."""
    parts = format_string.parts
    if len(parts) == 2 and parts[0] == "s" and isinstance(parts[1], bytes):
        end = parts[1]
        return lambda record: (null if record[5] is None else record[5]) + end
    getters = [_getter(part, null) for part in parts]
    return lambda record: b"".join([get(record) for get in getters])


def _getter(part: bytes | str, null: bytes) -> Callable[[ConsumerRecord], bytes]:
    if isinstance(part, bytes):
        return lambda record: part
    return {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % record.timestamp_ms,
        "k": lambda record: null if record.key is None else record.key,
        "s": lambda record: null if record.value is None else record.value,
        "K": lambda record: b"%d" % _length(record.key),
        "S": lambda record: b"%d" % _length(record.value),
        "R": lambda record: _LENGTH(_length(record.value)),
        "h": _headers,
    }[part]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if content is None else content)
        for name, content in record.headers
    )
