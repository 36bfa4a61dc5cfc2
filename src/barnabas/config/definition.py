"""A configuration key has a type, a default, a bound and a sentence; text becomes a value by its type.

Every error is a :class:`ConfigError`, one sentence that names the key, the value and what is
allowed. A :class:`ConfigDef` is a table of keys read from text (see `parse_table`):

    name | type | default | allowed | update mode | importance
        One sentence.

The default is ``required``, ``null``, ``""`` or the text itself. Allowed is ``any``, a range
(``1..``, ``0..1``), a range with a word beside it (``1..9 or -1``), ``nonempty``, ``a/b/c`` (one of
these; ``~a/b/c`` whatever the case), or for lists ``list``, ``nonempty list`` or ``list of a/b``.
Source: Kafka's ``ConfigDef``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import IntEnum
from math import isfinite, isnan
from typing import NamedTuple, TypeAlias, cast

from barnabas.config.nearest import hint
from barnabas.config.validators import Allowed, ListOf, parse_allowed

ConfigValue: TypeAlias = bool | int | float | str | list[str] | None


HIDDEN = "(secret)"
"""Shown in place of a secret."""
_USER = re.compile(r"(\w+://)[^/@\s,]*@")


def without_user(text: str) -> str:
    """`text` without the user and the password of each address in it, as of ``https://user:password@host``.
    Any value that is an address may have them, and nothing that is logged, described or reported has."""
    if "@" not in text or "://" not in text:
        return text
    return _USER.sub(rf"\1{HIDDEN}@", text)


class ConfigError(ValueError):
    """One sentence about one key. `key`, `value` and `allowed` are its parts."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        fault = allowed if value is None else f"{value!r} is not allowed; {allowed}"
        super().__init__(without_user(f"{key}: {fault}"))
        self.key = key
        self.value = value
        self.allowed = allowed


class ConfigType(IntEnum):
    """Type of a key, with the numbers that DescribeConfigs sends."""

    UNKNOWN = 0
    """The key is in no table: its value is text, and perhaps a secret."""
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(IntEnum):
    """When a broker's key may change (KIP-226)."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2
    """The value is set for the whole cluster or for one broker."""


_BITS = {ConfigType.INT: 32, ConfigType.SHORT: 16, ConfigType.LONG: 64}
_MODES = {
    "read-only": UpdateMode.READ_ONLY,
    "per-broker": UpdateMode.PER_BROKER,
    "cluster-wide": UpdateMode.CLUSTER_WIDE,
}


class ConfigKey(NamedTuple):
    """One key. `default` is text, as in a file; None where the key has no value unless given."""

    name: str
    type: ConfigType
    default: str | None
    required: bool
    allowed: Allowed
    mode: UpdateMode
    importance: str
    internal: bool
    doc: str

    @property
    def sensitive(self) -> bool:
        """Never shown: a password, or what may be one for all that is known."""
        return self.type is ConfigType.PASSWORD or self.type is ConfigType.UNKNOWN

    def parse(self, text: str | None) -> ConfigValue:
        """The typed value. Raises :class:`ConfigError`."""
        if text is None:
            return None
        value = self._convert(text)
        problem = self.allowed.problem(value)
        if problem is not None:
            raise self._refused(text, problem)
        return value

    def text(self, value: ConfigValue) -> str | None:
        """`value` as text again, in the one way that Kafka writes it."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, list):
            return ",".join(value)
        if isinstance(value, float):
            return _java_double(value)
        return None if value is None else str(value)

    def _refused(self, text: str, problem: str) -> ConfigError:
        return ConfigError(self.name, "(hidden)" if self.sensitive else text, problem)

    def _convert(self, text: str) -> ConfigValue:
        stripped = text.strip()
        kind = self.type
        if kind is ConfigType.LIST:
            parts = [part.strip() for part in stripped.split(",")] if stripped else []
            if "" in parts and isinstance(self.allowed, ListOf):
                raise self._refused(text, "nothing may be empty between its commas")
            return list(dict.fromkeys(filter(None, parts)))
        if kind is ConfigType.BOOLEAN:
            lowered = stripped.lower()
            if lowered not in ("true", "false"):
                raise self._refused(text, "it must be true or false")
            return lowered == "true"
        if kind is ConfigType.DOUBLE:
            try:
                if "_" in stripped:  # Python's own way to write a number
                    raise ValueError(stripped)
                return float(stripped)
            except ValueError:
                raise self._refused(text, "it must be a number") from None
        bits = _BITS.get(kind)
        if bits is not None:
            return self._convert_integer(text, stripped, bits)
        return text if kind is ConfigType.PASSWORD else stripped

    def _convert_integer(self, text: str, stripped: str, bits: int) -> int:
        digits = stripped[1:] if stripped[:1] in ("-", "+") else stripped
        if not (digits.isascii() and digits.isdigit() and len(digits) < 24):
            raise self._refused(text, "it must be a whole number")
        value = int(stripped)
        bound = 1 << (bits - 1)
        if not -bound <= value < bound:
            raise self._refused(text, f"it must fit in {bits} bits")
        return value


def _java_double(value: float) -> str:
    """The text that ``Double.toString`` gives: a decimal fraction from 0.001 to 10,000,000, else a power
    of ten."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    power = len(digits) + exponent - 1
    figures = "".join(map(str, digits)).rstrip("0")
    return f"{'-' * sign}{figures[0]}.{figures[1:] or '0'}E{power}"


class ConfigDef:
    """A table of keys."""

    def __init__(self, keys: Iterator[ConfigKey] | list[ConfigKey]) -> None:
        self.keys: dict[str, ConfigKey] = {key.name: key for key in keys}
        self._defaults: dict[str, ConfigValue] = {}
        """The typed defaults of all keys, filled at the first read."""
        self._lists: list[str] = []
        """Those whose default is a list: every reader gets its own."""

    def __contains__(self, name: object) -> bool:
        return name in self.keys

    def __getitem__(self, name: str) -> ConfigKey:
        return self.keys[name]

    def __repr__(self) -> str:
        return f"ConfigDef({len(self.keys)} keys)"

    def parse(self, name: str, text: str | None) -> ConfigValue:
        """The typed value of one key. Raises :class:`ConfigError`, also for an unknown key."""
        key = self.keys.get(name)
        if key is None:
            raise ConfigError(name, text, f"there is no such key{hint(name, self.keys)}")
        return key.parse(text)

    def default(self, name: str) -> ConfigValue:
        """The typed default; None where there is none."""
        value = (self._defaults or self._type_defaults())[name]
        return list(value) if isinstance(value, list) else value

    def defaults(self) -> dict[str, ConfigValue]:
        """The `default` of every key."""
        values = dict(self._defaults or self._type_defaults())
        for name in self._lists:
            values[name] = list(cast("list[str]", values[name]))
        return values

    def _type_defaults(self) -> dict[str, ConfigValue]:
        self._defaults = {name: key.parse(key.default) for name, key in self.keys.items()}
        self._lists = [name for name, value in self._defaults.items() if isinstance(value, list)]
        return self._defaults

    def typed(self, given: Mapping[str, str]) -> dict[str, ConfigValue]:
        """All keys: the given values (unknown names are left out) over the defaults.

        Raises :class:`ConfigError`, also where a required key is missing.
        """
        values = self.defaults()
        for name, key in self.keys.items():
            if name in given:
                values[name] = key.parse(given[name])
            elif key.required:
                raise ConfigError(name, None, "it must be given")
        return values

    def unknown(self, given: Mapping[str, str]) -> list[str]:
        """Names that are no keys of this table, in the given order."""
        return [name for name in given if name not in self.keys]


def unknown_key(name: str) -> ConfigKey:
    """A definition for a key that no table has."""
    return ConfigKey(
        name, ConfigType.UNKNOWN, None, False, parse_allowed("any"), UpdateMode.CLUSTER_WIDE, "low",
        internal=False, doc="",
    )  # fmt: skip


def parse_table(text: str) -> list[ConfigKey]:
    """Keys of a table in the form that the module's docstring describes."""
    keys = []
    lines = [line for line in text.splitlines() if line.strip()]
    for head, doc in zip(lines[::2], lines[1::2], strict=True):
        name, kind, default, allowed, mode, importance = (part.strip() for part in head.split("|"))
        level, _, flag = importance.partition(" ")
        given = {"null": None, "required": None, '""': ""}.get(default, default)
        keys.append(
            ConfigKey(
                name,
                ConfigType[kind.upper()],
                given,
                default == "required",
                parse_allowed(allowed),
                _MODES[mode],
                level,
                flag == "internal",
                doc.strip(),
            )
        )
    return keys
