"""Parses dates and durations of the command line into milliseconds, and formats them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_ISO_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)
_SHORT_DURATION = re.compile(
    r"(?:(?P<d>\d+)d)?\s*(?:(?P<h>\d+)h)?\s*(?:(?P<m>\d+)m)?\s*(?:(?P<s>\d+(?:\.\d+)?)s)?"
)
_UNIT_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000


def parse_date(text: str) -> int:
    """Milliseconds since 1970 of ``2026-11-24T17:00:00.000``, ``2026-11-24 17:00`` or ``2026-11-24``; UTC if
    no zone is given. Raises ``ValueError``."""
    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"a date is 2026-11-24T17:00:00, not {text!r}") from None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return round(date.timestamp() * 1000)


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


def date_text(at_ms: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Milliseconds since 1970 as a date in UTC; as a number if Python has no date for them."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def ago(then_ms: int, now_ms: int) -> str:
    """The time from `then_ms` to `now_ms`: ``12 ms ago``, ``3.4 s ago``, ``5 min ago``, ``2 h ago``, ``9 days
    ago``; ``never`` if `then_ms` is negative."""
    if then_ms < 0:
        return "never"
    passed = max(now_ms - then_ms, 0)
    if passed < _SECOND:
        return f"{passed} ms ago"
    if passed < _MINUTE:
        return f"{passed / _SECOND:.1f} s ago"
    for unit, name in ((_DAY, "days"), (_HOUR, "h"), (_MINUTE, "min")):
        if passed >= 2 * unit or unit == _MINUTE:
            return f"{passed // unit} {name} ago"
    raise AssertionError(passed)
