"""Parses dates and durations of the command line into milliseconds, and formats them."""

from __future__ import annotations

from datetime import UTC, datetime

from barnabas.config.validators import parse_duration as parse_duration
from barnabas.types import is_int64

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


def parse_moment(text: str, now_ms: int) -> int:
    """Milliseconds since 1970 of a date (`parse_date`), of ``-10m`` (so long before now), of ``now``, or of
    ``@1761955200000`` (those milliseconds). Raises ``ValueError``."""
    given = text.strip()
    if given == "now":
        return now_ms
    try:
        if given.startswith("-"):
            return max(now_ms - parse_duration(given[1:]), 0)
        if given.startswith("+"):
            return now_ms + parse_duration(given[1:])
        if given.startswith("@") and is_int64(given[1:]):
            return int(given[1:])
        if not given.startswith("@"):
            return parse_date(given)
    except ValueError:
        pass
    raise ValueError(
        f"a time is 2026-11-24T17:00, -10m (before now), now or @MILLISECONDS, not {text!r}"
    )


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
