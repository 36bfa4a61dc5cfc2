"""Records as JSON, one object on a line: Barnabas' own form, which has an inverse, and kcat's.

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1, "key": "k", "value": "v",
     "headers": [["h", "x"]]}

Bytes that are no UTF-8 are text with escapes (``\\xff``) under their name, for people, and exact under
``key_base64`` or ``value_base64``, for programs; a header has a third item then. `parse_json` gives back the
same bytes in every case.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any

from barnabas.cli.plain_text import json_line
from barnabas.client.records import ConsumerRecord, ProducerRecord
from barnabas.record.decode import Headers

_string: Callable[[str], str] = encode_basestring
_YAJL = re.compile(rb'[\x00-\x1f"\\]')
_YAJL_ESCAPES = {b'"': b'\\"', b"\\": b"\\\\", b"\b": b"\\b", b"\f": b"\\f", b"\n": b"\\n"}
_YAJL_ESCAPES |= {b"\r": b"\\r", b"\t": b"\\t"}


def plain(record: ConsumerRecord) -> dict[str, Any]:
    """A record as what JSON can say."""
    told: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    for name, data in (("key", record.key), ("value", record.value)):
        told[name], exact = (None, None) if data is None else _text(data)
        if exact is not None:
            told[f"{name}_base64"] = exact
    return told | {"headers": [_header(name, content) for name, content in record.headers]}


def to_json(record: ConsumerRecord) -> bytes:
    """A line: `plain` as JSON, five times as fast as ``json.dumps``. It has no control character that a
    terminal could obey."""
    text = (
        f'{{"topic": {_string(record.topic)}, "partition": {record.partition},'
        f' "offset": {record.offset}, "timestamp": {record.timestamp_ms},'
        f' "key": {_pair("key", record.key)}, "value": {_pair("value", record.value)},'
        f' "headers": {_headers_text(record.headers) if record.headers else "[]"}}}\n'
    )
    return json_line(text).encode()


def _pair(name: str, data: bytes | None) -> str:
    if data is None:
        return "null"
    text, exact = _text(data)
    return _string(text) if exact is None else f'{_string(text)}, "{name}_base64": "{exact}"'


def _headers_text(headers: Headers) -> str:
    return json.dumps([_header(name, content) for name, content in headers], ensure_ascii=False)


def _header(name: str, content: bytes | None) -> list[str | None]:
    if content is None:
        return [name, None]
    text, exact = _text(content)
    return [name, text] if exact is None else [name, text, exact]


def _text(data: bytes) -> tuple[str, str | None]:
    """The bytes as text, and in base64 where the text does not say all."""
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return data.decode("utf-8", "backslashreplace"), b64encode(data).decode()


def parse_json(topic: str, line: bytes, partition: int | None = None) -> ProducerRecord:
    """The record of a line of `to_json`, or of fewer fields, or of `kcat_json`; its own `partition` wins.
    A value that is no string is written as JSON. Raises ``ValueError``."""
    told = json.loads(line.decode("utf-8", "surrogateescape"))
    if not isinstance(told, dict):
        raise ValueError("it is no JSON object")
    if "payload" in told and "value" not in told:
        return _of_kcat(topic, told, partition)
    stamp = _number(told, "timestamp")
    own = _number(told, "partition")
    return ProducerRecord(
        topic,
        _bytes(told, "value"),
        _bytes(told, "key"),
        partition if own is None else own,
        None if stamp is None or stamp < 0 else stamp,
        _headers(told.get("headers") or ()),
    )


def _number(told: dict[str, Any], name: str) -> int | None:
    number = told.get(name)
    if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
        raise ValueError(f"{name} is a number, not {number!r}")
    return number


def _bytes(told: dict[str, Any], name: str) -> bytes | None:
    exact = told.get(f"{name}_base64")
    return _exact(exact) if exact is not None else _written(told.get(name))


def _exact(text: object) -> bytes:
    try:
        return b64decode(str(text), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is no base64: {error}") from error


def _written(value: object) -> bytes | None:
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).encode()


def _headers(told: object) -> Headers:
    """Of ``[[name, text], [name, text, base64]]``, or ``{name: text}``."""
    pairs = list(told.items()) if isinstance(told, dict) else told
    if not isinstance(pairs, (list, tuple)):
        raise ValueError("headers are a list of [name, value]")
    found: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or not 2 <= len(pair) <= 3:
            raise ValueError(f"a header is [name, value], not {pair!r}")
        name, content = pair[0], pair[1]
        if not isinstance(name, str):
            raise ValueError(f"a header's name is a text, not {name!r}")
        name.encode()  # half of a surrogate pair cannot be written
        found.append((name, _exact(pair[2]) if len(pair) == 3 else _written(content)))
    return tuple(found)


# -- kcat's ----------------------------------------------------------------------------------------


def kcat_json(
    record: ConsumerRecord, leader: int, stamp_type: str, written: bytes | None = None
) -> bytes:
    """The line of ``kcat -J``, byte for byte: bytes that are no UTF-8 are as they are. `written` is the
    value as JSON by its schema."""
    parts = [
        b'{"topic":%b,"partition":%d,"offset":%d,"tstype":"%b","ts":%d,"broker":%d'
        % (
            _quoted(record.topic.encode()),
            record.partition,
            record.offset,
            stamp_type.encode(),
            record.timestamp_ms,
            leader,
        )
    ]
    if record.headers:
        items = [part for h, v in record.headers for part in (_quoted(h.encode()), _quoted(v))]
        parts.append(b',"headers":[' + b",".join(items) + b"]")
    value = _quoted(record.value) if written is None else written
    parts.append(b',"key":' + _quoted(record.key) + b',"payload":' + value + b"}\n")
    return b"".join(parts)


def _quoted(data: bytes | None) -> bytes:
    if data is None:
        return b"null"
    return b'"' + _YAJL.sub(_escape, data) + b'"'


def _escape(found: re.Match[bytes]) -> bytes:
    char = found[0]
    return _YAJL_ESCAPES.get(char) or b"\\u%04X" % char[0]


def _of_kcat(topic: str, told: dict[str, Any], partition: int | None) -> ProducerRecord:
    """The inverse of `kcat_json`: bytes that are no UTF-8 are surrogates in `told`."""
    stamp, own = _number(told, "ts"), _number(told, "partition")
    names = told.get("headers") or []
    if not isinstance(names, list) or len(names) % 2:
        raise ValueError("headers of kcat are a list of names and values")
    headers = []
    for name, content in zip(names[::2], names[1::2], strict=True):
        if not isinstance(name, str):
            raise ValueError(f"a header's name is a text, not {name!r}")
        name.encode()
        headers.append((name, _kcat_bytes(content)))
    return ProducerRecord(
        topic,
        _kcat_bytes(told["payload"]),
        _kcat_bytes(told.get("key")),
        partition if own is None else own,
        None if stamp is None or stamp < 0 else stamp,
        tuple(headers),
    )


def _kcat_bytes(value: object) -> bytes | None:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else _written(value)


def with_value(told: dict[str, Any], text: str) -> dict[str, Any]:
    """The record with its value as JSON by its schema."""
    told.pop("value_base64", None)
    return told | {"value": json.loads(text)}


Line = Callable[[ConsumerRecord], bytes]
"""A record as the bytes that are printed."""
