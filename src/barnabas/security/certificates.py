"""The parts of an X.509 certificate that this program reads: its subject's name and when it ends.

The name is written as RFC 2253 has it, in the form of Java's ``X500Principal.getName()``: the most specific
part first, an attribute without a short name as its number and the hexadecimal bytes of its value. Kafka's
ACLs and mapping rules are written for that form. Raises ``ValueError`` where the bytes are no certificate.

It verifies nothing: the TLS library has done so before it hands a peer's certificate over.
"""

from __future__ import annotations

from calendar import timegm
from typing import NamedTuple

_SEQUENCE, _SET, _VERSION, _OID = 0x30, 0x31, 0xA0, 0x06
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_TEXTS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1E: "utf-16-be",
    0x1C: "utf-32-be",
}
_SHORT = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED = ',+"\\<>;'


class Certificate(NamedTuple):
    """`subject` is the name in RFC 2253's form, `not_after_ms` the date of its end."""

    subject: str
    not_after_ms: int


class _Item(NamedTuple):
    tag: int
    raw: bytes
    """With tag and length."""
    value: bytes


def read_certificate(der: bytes) -> Certificate:
    """Raises ``ValueError``."""
    outer = _items(der)
    inner = _items(outer[0].value) if outer and outer[0].tag == _SEQUENCE else []
    fields = _items(inner[0].value) if inner else []
    if fields and fields[0].tag == _VERSION:
        fields = fields[1:]
    if len(fields) < 6:
        raise ValueError("a certificate ends early")
    validity = _items(fields[3].value)
    if len(validity) < 2:
        raise ValueError("a certificate without a validity")
    return Certificate(_name(fields[4].value), _time_ms(validity[1]))


def _items(data: bytes) -> list[_Item]:
    found = []
    at = 0
    while at < len(data):
        if at + 2 > len(data):
            raise ValueError("a DER element ends early")
        tag, length, start = data[at], data[at + 1], at + 2
        if length & 0x80:
            count = length & 0x7F
            length = int.from_bytes(data[start : start + count], "big")
            start += count
        end = start + length
        if end > len(data):
            raise ValueError("a DER element ends beyond what holds it")
        found.append(_Item(tag, data[at:end], data[start:end]))
        at = end
    return found


def _name(data: bytes) -> str:
    parts = []
    for relative in _items(data):
        if relative.tag != _SET:
            raise ValueError("a name's part is no set")
        parts.append("+".join(_attribute(item) for item in _items(relative.value)))
    return ",".join(reversed(parts))


def _attribute(item: _Item) -> str:
    pair = _items(item.value)
    if len(pair) != 2 or pair[0].tag != _OID:
        raise ValueError("a name's attribute is no pair")
    number, value = _oid(pair[0].value), pair[1]
    short, encoding = _SHORT.get(number), _TEXTS.get(value.tag)
    if short is None or encoding is None:
        return f"{short or number}=#{value.raw.hex()}"
    return f"{short}={_escape(value.value.decode(encoding))}"


def _oid(data: bytes) -> str:
    if not data:
        raise ValueError("an empty object identifier")
    numbers: list[int] = []
    number = 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("an object identifier ends early")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escape(text: str) -> str:
    escaped = "".join("\\" + char if char in _ESCAPED else char for char in text)
    if escaped[:1] in ("#", " "):
        escaped = "\\" + escaped
    if len(escaped) > 1 and escaped.endswith(" ") and not escaped.endswith("\\ "):
        escaped = escaped[:-1] + "\\ "
    return escaped


def _time_ms(item: _Item) -> int:
    text = item.value.decode("ascii", "replace")
    if item.tag == _UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    elif item.tag != _GENERALIZED_TIME:
        raise ValueError("a validity is no time")
    digits = text[:14]
    if not (digits.isascii() and digits.isdigit() and len(digits) == 14):
        raise ValueError(f"{text!r} is no time")
    parts = (int(digits[:4]), *(int(digits[i : i + 2]) for i in range(4, 14, 2)))
    return timegm((*parts, 0, 0, 0)) * 1000
