"""Writes bytes, rates and durations for people: three figures and a unit. Programs read ``--json``."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def bytes_text(count: float | None) -> str:
    """``1.23 MB``, in powers of 1000; a dash where the number is not known."""
    if count is None:
        return "-"
    size, unit = float(count), 0
    while abs(size) >= 999.5 and unit < len(_UNITS) - 1:
        size /= 1000
        unit += 1
    return f"{size:.0f} B" if not unit else f"{size:.3g} {_UNITS[unit]}"


def rate_text(per_second: float | None) -> str:
    """Records per second; a dash where the number is not known."""
    if per_second is None:
        return "-"
    return f"{per_second:.1f}" if 0 < per_second < 100 else f"{per_second:.0f}"


def seconds_text(seconds: float | None) -> str:
    """``0 s``, ``3.4 s``, ``5 min 2 s``, ``7 h 12 min``, ``9 d 3 h``; a dash where it is not known."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{seconds:.0f} s"
    whole = round(seconds)
    for unit, above, below, small in (
        (60, 3600, "min", "s"),
        (3600, 86_400, "h", "min"),
        (86_400, 1 << 62, "d", "h"),
    ):
        if whole < above:
            rest = whole % unit // {"s": 1, "min": 60, "h": 3600}[small]
            return f"{whole // unit} {below} {rest} {small}"
    raise AssertionError(seconds)
