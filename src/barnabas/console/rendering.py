"""Renders templates and the values in them.

Jinja2 escapes everything for HTML. Before that every text loses what could deceive a reader: control
characters, and the marks that turn the direction of text, become escapes (``\\x1b``). Bytes that are no UTF-8
are escaped, too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from barnabas.cli.measures.units import seconds_text
from barnabas.cli.moments import ago, date_text
from barnabas.cli.plain_text import visible

_DIRECTIONS = re.compile("[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_FRACTION = re.compile(r"\.\d(?= s)")
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def shown(value: object) -> str:
    """A text that cannot deceive: escapes in place of control characters and of marks of direction."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = bytes(value).decode("utf-8", "backslashreplace")
    return _DIRECTIONS.sub(lambda found: ascii(found[0])[1:-1], visible(str(value)))


def finalize(value: object) -> object:
    """Called by Jinja2 for each expression of a template, before it escapes."""
    if value is None:
        return "–"
    return value if isinstance(value, Markup) else shown(value)


def number(value: float | None) -> str:
    """Groups of three digits, with a space that does not break."""
    if value is None:
        return "–"
    text = f"{value:,.1f}" if type(value) is float and abs(value) < 100 else f"{value:,.0f}"
    return text.removesuffix(".0").replace(",", "\u202f")


def size(value: float | None) -> str:
    """Bytes in decimal units with three digits."""
    if value is None or value < 0:
        return "–"
    unit = 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}\u202f{_UNITS[unit]}"


def since(at_ms: int | None) -> str:
    """The time since then, in whole seconds."""
    if at_ms is None:
        return "–"
    return _FRACTION.sub("", ago(at_ms, time.time_ns() // 1_000_000))


def clock(at_ms: int | None) -> str:
    """The date in UTC, with milliseconds."""
    return "–" if at_ms is None or at_ms < 0 else f"{date_text(at_ms)}.{at_ms % 1000:03}"


def link(path: str, **query: object) -> str:
    """A path with a query; what is None, False or empty is left out (0 is not), a list repeats its key."""
    pairs: list[tuple[str, str]] = []
    for key, value in query.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        given = [one for one in values if one is not None and one is not False and one != ""]
        pairs += [(key.rstrip("_"), str(one)) for one in given]
    return f"{path}?{urlencode(pairs, errors='replace')}" if pairs else path


def sparkline(values: Sequence[float], width: int = 72, height: int = 20) -> Markup:
    """A line of `values` as SVG, from the oldest to the newest; numbers only, so that nothing needs
    escaping."""
    if len(values) < 2:
        return Markup('<svg class="spark" width="{}" height="{}"></svg>').format(width, height)
    top = max(*values, 1e-9)
    step = width / (len(values) - 1)
    points = " ".join(
        f"{index * step:.1f},{height - 1 - (height - 2) * value / top:.1f}"
        for index, value in enumerate(values)
    )
    return Markup(
        '<svg class="spark" width="{0}" height="{1}" viewBox="0 0 {0} {1}" aria-hidden="true">'
        '<polygon points="0,{1} {2} {0},{1}"/><polyline points="{2}"/></svg>'
    ).format(width, height, points)


def bar(share: float | None, kind: str = "") -> Markup:
    """A bar that is filled to `share` (0 to 1); of kind "use" it is marked where little is left."""
    if share is None:
        return Markup("")
    filled = min(max(share, 0.0), 1.0) * 100
    if kind == "use":
        kind = "bad" if share >= 0.95 else "warn" if share >= 0.85 else "ok"
    return Markup(
        '<svg class="bar {}" width="52" height="8" viewBox="0 0 100 8" preserveAspectRatio="none"'
        ' aria-hidden="true"><rect width="100" height="8"/><rect class="fill" width="{}" height="8"/></svg>'
    ).format(kind, f"{filled:.1f}")


class Renderer:
    """All templates of the package."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        """`facts` are in every template."""
        self._environment = Environment(
            loader=PackageLoader("barnabas.console"),
            autoescape=True,
            finalize=finalize,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            num=number,
            size=size,
            since=since,
            clock=clock,
            spark=sparkline,
            bar=bar,
            duration=seconds_text,
        )
        self._environment.globals.update(link=link, **facts)

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        return self._environment.get_template(template).render(values)
