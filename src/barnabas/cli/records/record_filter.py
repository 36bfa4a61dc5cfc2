"""Conditions on a record's key, headers and value: the filters of ``barnabas consume`` and of the console."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, Protocol

from barnabas.record.decode import Headers

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class Filtered(Protocol):
    """What a filter looks at."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


class RecordFilter(NamedTuple):
    """Conditions on a record; an empty one lets all pass. `path` is ``a.b[0]`` or ``a.b[0]=value``."""

    key: str = ""
    header: str = ""
    path: str = ""

    def passes(self, record: Filtered) -> bool:
        if self.key and self.key not in text_of(record.key):
            return False
        if self.header:
            name, equals, value = self.header.partition("=")
            found = [text_of(content) for key, content in record.headers if key == name]
            if not found or (equals and value not in found):
                return False
        return not self.path or _has(record.value, self.path)


def text_of(data: bytes | None) -> str:
    return "" if data is None else bytes(data).decode("utf-8", "backslashreplace")


def _has(data: bytes | None, path: str) -> bool:
    where, equals, wanted = path.partition("=")
    try:
        value: Any = json.loads(bytes(data or b""))
        for name, index in _STEP.findall(where.removeprefix("$").lstrip(".")):
            value = value[name] if name else value[int(index)]
        if not equals:
            return True
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return False
    return text == wanted
