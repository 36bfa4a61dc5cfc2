"""Java properties files: ``key=value`` lines with Java's comments, continuations and escapes.

`parse_properties` reads text, `format_properties` writes it so that Java reads the same. Source:
``java.util.Properties.load``.
"""

from __future__ import annotations

from collections.abc import Mapping

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACE = " \t\f"

FAULTS_KEY = "testing.faults.file"
"""The key of nodes that a test can make fail: no other node starts with it."""
FAULTS_VARIABLE = "BARNABAS_TESTING_FAULTS"
"""The environment variable by which `barnabas.testing` says that it starts a node with that key."""


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values in file order; a later line of the same key wins.

    Raises ``ValueError`` for a malformed ``\\uXXXX``.
    """
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        key, rest = _split_key(line)
        values[_unescape(key)] = _unescape(rest)
    return values


def format_properties(values: Mapping[str, str], comment: str = "") -> str:
    """A file that gives `values` when it is read, one line per key in the given order."""
    lines = [f"# {line}" for line in comment.splitlines()]
    for key, value in values.items():
        lines.append(f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}")
    return "\n".join(lines) + "\n"


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending: str | None = None
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(_SPACE)
        if pending is None and (not line or line[0] in "#!"):
            continue
        whole = line if pending is None else pending + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = whole[:-1]
        else:
            lines.append(whole)
            pending = None
    if pending:
        lines.append(pending)
    return lines


def _split_key(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _SPACE:
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_SPACE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_SPACE)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\" or at == len(text):
            if char != "\\":
                out.append(char)
            continue
        char = text[at]
        at += 1
        if char == "u":
            digits = text[at : at + 4]
            if len(digits) != 4:
                raise ValueError(f"\\u needs four hexadecimal digits, not {digits!r}")
            out.append(chr(int(digits, 16)))
            at += 4
        else:
            out.append(_ESCAPES.get(char, char))
    # A character beyond 16 bits is written as two escapes.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _escape(text: str, *, is_key: bool) -> str:
    out: list[str] = []
    for at, char in enumerate(text):
        if char in "\\\t\n\r\f":
            out.append({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[char])
        elif (char == " " and (is_key or at == 0)) or (is_key and char in "=:#!"):
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            out.extend(f"\\u{unit:04x}" for unit in _utf16_units(char))
    return "".join(out)


def _utf16_units(char: str) -> list[int]:
    raw = char.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[i : i + 2], "big") for i in range(0, len(raw), 2)]
