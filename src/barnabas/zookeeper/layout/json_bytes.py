"""JSON as Jackson writes it, and a reader whose errors name the znode."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

NO_NUMBER = 1 << 64
"""More than any znode may have."""
_LOWER_ESCAPE = re.compile(r"\\u00([0-9a-f]{2})")


class MalformedZnode(ValueError):
    """A znode does not hold what its path says; `path` names it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"znode {path}: {why}")
        self.path = path
        self.why = why


def to_json(value: Mapping[str, Any]) -> bytes:
    """Compact JSON in UTF-8, in the mapping's order; control characters are escaped as Jackson does."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if "\\u00" in text:
        text = _LOWER_ESCAPE.sub(lambda match: f"\\u00{match[1].upper()}", text)
    return text.encode()


class JsonReader:
    """One JSON object of a znode."""

    def __init__(self, path: str, fields: Mapping[str, Any]) -> None:
        self.path = path
        self._fields = fields

    @classmethod
    def parse(cls, path: str, data: bytes) -> JsonReader:
        """Raises `MalformedZnode`, as the methods below do."""
        try:
            value = json.loads(data)
            if b"\\u" in data:  # half of a character, which no path and no answer can have
                json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise MalformedZnode(path, f"no JSON: {error}") from None
        if not isinstance(value, dict):
            raise MalformedZnode(path, "no JSON object")
        return cls(path, value)

    def wrong(self, key: str, wanted: str) -> MalformedZnode:
        return MalformedZnode(self.path, f"{key} is {wanted}")

    def has(self, key: str) -> bool:
        return self._fields.get(key) is not None

    def keys(self) -> Iterator[str]:
        return iter(self._fields)

    def integer(self, key: str, default: int | None = None, *, bits: int = 32) -> int:
        """A whole number that fits `bits`, with its sign."""
        value = self._fields.get(key, default)
        if not _is_integer(value, bits):
            raise self.wrong(key, "not a whole number" if key in self._fields else "missing")
        return int(value)

    def number_text(self, key: str) -> int:
        """A whole number that is written as text."""
        try:
            value = int(self.text(key))
        except ValueError:
            value = NO_NUMBER
        if not _is_integer(value, 64):
            raise self.wrong(key, "not a whole number in quotes")
        return value

    def text(self, key: str) -> str:
        value = self._fields.get(key)
        if not isinstance(value, str):
            raise self.wrong(key, "not a text" if key in self._fields else "missing")
        return value

    def optional_text(self, key: str) -> str | None:
        return self.text(key) if self.has(key) else None

    def integers(self, key: str) -> tuple[int, ...]:
        values = self._list(key)
        if not all(_is_integer(one, 32) for one in values):
            raise self.wrong(key, "not a list of whole numbers")
        return tuple(values)

    def texts(self, key: str) -> tuple[str, ...]:
        values = self._list(key)
        if not all(isinstance(one, str) for one in values):
            raise self.wrong(key, "not a list of texts")
        return tuple(values)

    def object(self, key: str) -> JsonReader:
        value = self._fields.get(key)
        if not isinstance(value, dict):
            raise self.wrong(key, "not an object" if key in self._fields else "missing")
        return JsonReader(self.path, value)

    def optional_object(self, key: str) -> JsonReader:
        """An empty object if `key` is missing."""
        return self.object(key) if self.has(key) else JsonReader(self.path, {})

    def objects(self, key: str) -> list[JsonReader]:
        values = self._list(key)
        if not all(isinstance(one, dict) for one in values):
            raise self.wrong(key, "not a list of objects")
        return [JsonReader(self.path, one) for one in values]

    def _list(self, key: str) -> list[Any]:
        value = self._fields.get(key)
        if not isinstance(value, list):
            raise self.wrong(key, "not a list" if key in self._fields else "missing")
        return value

    def check_version(self, lowest: int, highest: int) -> int:
        version = self.integer("version")
        if not lowest <= version <= highest:
            raise self.wrong("version", f"{version}, and {lowest} to {highest} is known")
        return version


def decimal_text(path: str, data: bytes) -> int:
    """The number that a znode has as decimal text. Raises `MalformedZnode`."""
    try:
        value = int(data.decode())
    except ValueError:
        value = NO_NUMBER
    if not _is_integer(value, 32):
        raise MalformedZnode(path, "no number")
    return value


def _is_integer(value: object, bits: int) -> bool:
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return -(1 << bits - 1) <= value < 1 << bits - 1


def utf8_text(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except ValueError:
        raise MalformedZnode(path, "no UTF-8 text") from None
