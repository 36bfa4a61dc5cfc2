"""Validators of configuration values: a range, one of some words, a list of words.

`parse_allowed` parses the notation of the tables (see `definition`). An :class:`Allowed` checks a typed value
and describes the values that it allows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from barnabas.types import is_int32

_ISO_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)
_SHORT_DURATION = re.compile(
    r"(?:(?P<d>\d+)d)?\s*(?:(?P<h>\d+)h)?\s*(?:(?P<m>\d+)m)?\s*(?:(?P<s>\d+(?:\.\d+)?)s)?"
)
_UNIT_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


class Allowed(Protocol):
    def problem(self, value: object) -> str | None:
        """The fault of `value`, as the second half of a sentence; None if it is allowed."""

    def describe(self) -> str:
        """The allowed values in words, for messages and documents."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Anything:
    def problem(self, value: object) -> str | None:
        return None

    def describe(self) -> str:
        return "any"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NonEmpty:
    def problem(self, value: object) -> str | None:
        return "it must not be empty" if value == "" else None

    def describe(self) -> str:
        return "not empty"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Within:
    """An inclusive range, and perhaps one value outside of it (`beside`)."""

    low: float | None
    high: float | None
    beside: int | None = None

    def problem(self, value: object) -> str | None:
        if not isinstance(value, int | float) or value == self.beside:
            return None
        if (self.low is None or value >= self.low) and (self.high is None or value <= self.high):
            return None
        return f"it must be {self.describe()}"

    def describe(self) -> str:
        beside = "" if self.beside is None else f" or {self.beside}"
        if self.high is None:
            return f"at least {_number(self.low)}{beside}"
        return f"between {_number(self.low)} and {_number(self.high)}{beside}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OneOf:
    words: tuple[str, ...]
    any_case: bool = False

    def problem(self, value: object) -> str | None:
        if self.any_case and isinstance(value, str):
            found = value.lower() in {word.lower() for word in self.words}
        else:
            found = value in self.words
        return None if found or value is None else f"it must be {self.describe()}"

    def describe(self) -> str:
        return "one of " + ", ".join(self.words)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListOf:
    """A list, perhaps of certain words only, perhaps not empty."""

    words: tuple[str, ...] = ()
    may_be_empty: bool = True

    def problem(self, value: object) -> str | None:
        if not isinstance(value, list):
            return None
        if not value and not self.may_be_empty:
            return f"it must be {self.describe()}"
        if self.words and any(item not in self.words for item in value):
            return f"it must be {self.describe()}"
        return None

    def describe(self) -> str:
        what = f"a list of {', '.join(self.words)}" if self.words else "a list"
        return what if self.may_be_empty else f"{what} that is not empty"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ThrottledReplicas:
    """``*`` or a list of partition:broker (KIP-73)."""

    def problem(self, value: object) -> str | None:
        if not isinstance(value, list) or value in ([], ["*"]):
            return None
        for item in value:
            partition, colon, broker = item.partition(":")
            if not (colon and is_int32(partition) and is_int32(broker)):
                return f"it must be {self.describe()}"
        return None

    def describe(self) -> str:
        return "* or a list of partition:broker"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OffsetReset:
    """``earliest``, ``latest`` or ``by_duration:PT1H`` (KIP-1106)."""

    def problem(self, value: object) -> str | None:
        if value in ("earliest", "latest"):
            return None
        kind, _, duration = str(value).partition(":")
        try:
            if kind == "by_duration":
                parse_duration(duration)
                return None
        except ValueError:
            pass
        return f"it must be {self.describe()}"

    def describe(self) -> str:
        return "earliest, latest or by_duration: with a duration such as PT1H"


def parse_duration(text: str) -> int:
    """Milliseconds of ``P1DT2H30M5.5S`` or ``1d2h30m5.5s``. Raises ``ValueError``, also if they do not fit
    into 64 bits."""
    given = text.strip()
    found = _ISO_DURATION.fullmatch(given) or _SHORT_DURATION.fullmatch(given.lower())
    parts = {} if found is None else {k: v for k, v in found.groupdict().items() if v is not None}
    if not parts:
        raise ValueError(f"a duration is P1DT2H30M5S or 1d2h30m5s, not {text!r}")
    total_ms = sum(float(value) * _UNIT_S[unit] for unit, value in parts.items()) * 1000
    if total_ms >= 1 << 63:
        raise ValueError(f"a duration of {text} is too long")
    return round(total_ms)


def parse_allowed(text: str) -> Allowed:
    """Parse the notation of the tables."""
    if text == "any":
        return Anything()
    if text == "nonempty":
        return NonEmpty()
    if text == "throttled replicas":
        return ThrottledReplicas()
    if text == "offset reset":
        return OffsetReset()
    if "list" in text.split():
        _, _, words = text.partition(" of ")
        may_be_empty = not text.startswith("nonempty")
        return ListOf(tuple(words.split("/")) if words else (), may_be_empty)
    if ".." in text:
        span, _, beside = text.partition(" or ")
        low, _, high = span.partition("..")
        return Within(_limit(low), _limit(high), int(beside) if beside else None)
    return OneOf(tuple(text.lstrip("~").split("/")), text.startswith("~"))


def _limit(text: str) -> float | None:
    if not text:
        return None
    return float(text) if "." in text else int(text)


def _number(value: float | None) -> str:
    return str(value)
