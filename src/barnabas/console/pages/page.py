"""Pages: each is an address, a template, and a function that asks the cluster for what the template
shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import QueryParams

from barnabas.console.sessions import UserView
from barnabas.console.settings import ConsoleSettings
from barnabas.host.client import Connected
from barnabas.types import is_int32


@dataclass(frozen=True)
class PageRequest:
    """One request for a page: by whom, with which client, and the query of its address."""

    connected: Connected
    user: UserView
    query: QueryParams
    settings: ConsoleSettings
    form: Mapping[str, str] = field(default_factory=dict)
    """The fields of a change's form beside the token: passwords and records, which no address has."""

    def text(self, name: str, otherwise: str = "") -> str:
        return self.query.get(name, "").strip() or otherwise

    def needed(self, name: str) -> str:
        """A value that the address must have. Raises ``ValueError``."""
        found = self.query.get(name, "")
        if not found:
            raise ValueError(f"the address of this page needs {name}=")
        return found

    def number(self, name: str, otherwise: int, least: int = 0) -> int:
        """A number of the address that is at least `least`. Raises ``ValueError``."""
        text = self.text(name)
        if not text:
            return otherwise
        if not is_int32(text) or int(text) < least:
            raise ValueError(f"{name} is a number of at least {least}, not {text!r}")
        return int(text)


Load = Callable[[PageRequest], Mapping[str, Any]]
Change = Callable[[PageRequest], str]
"""Makes a change, and returns the address of the page that shows it."""


@dataclass(frozen=True)
class Page:
    """`path` is the address; `section` the entry of the navigation; `live_ms` how often it is asked again
    while a browser shows it (0: never); `change` does what the page's plan says."""

    path: str
    template: str
    section: str
    load: Load
    live_ms: int = 0
    change: Change | None = None
