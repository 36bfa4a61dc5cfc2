"""One scrape at a time: the sources fill a page in steps, between which the node serves other requests.

Requests that come while a page is being filled get that page. A source may wait for answers of
other nodes; each such wait has its own time-out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from barnabas.limits import SLICE_MS
from barnabas.monitoring.exposition import Exposition
from barnabas.monitoring.table import metrics
from barnabas.ports import Ports, call_all

Wait = Callable[[Callable[[], None]], None]
"""Begins what a source waits for; it calls its argument once, when the source can continue."""
Source = Callable[[Exposition], Iterator[Wait | None]]
"""Adds its values to the page, in steps of some milliseconds at most; a step may say what comes before the
next one."""
OnPage = Callable[[Exposition | None], None]
"""Gets the page, or None where a source raised."""
SECONDS = "barnabas_scrape_seconds"


class Scrapes:
    """The pages of one node."""

    def __init__(self, ports: Ports, sources: Callable[[], Sequence[Source]]) -> None:
        """`sources` are those of a scrape that begins."""
        self._ports = ports
        self._sources = sources
        self._waiting: list[OnPage] = []
        self._spent_ms = self._last_ms = 0.0
        self._closed = False

    def begin(self, on_page: OnPage) -> None:
        """Call `on_page` with a page whose values are not older than this request."""
        self._waiting.append(on_page)
        if len(self._waiting) == 1:
            page = Exposition(metrics())
            self._spent_ms = 0.0
            self._take_steps(page, self._steps(page))

    def close(self) -> None:
        self._closed = True

    def _steps(self, page: Exposition) -> Iterator[Wait | None]:
        for source in self._sources():
            yield from source(page)
        page.add(SECONDS, self._last_ms / 1000)

    def _take_steps(self, page: Exposition, steps: Iterator[Wait | None]) -> None:
        if self._closed:
            return
        now_ms, resume = self._ports.clock.now_ms, partial(self._take_steps, page, steps)
        began_ms = now_ms()
        try:
            for wait in steps:
                if wait is not None:
                    wait(partial(self._ports.wakeups.call_soon, resume))
                elif now_ms() - began_ms >= SLICE_MS:
                    self._ports.wakeups.call_soon(resume)
                else:
                    continue
                self._spent_ms += now_ms() - began_ms
                return
        except Exception as error:  # noqa: BLE001 - every request is answered, whatever a source raises
            self._ports.log(
                "error", "metrics.source_failed", why=f"{type(error).__name__}: {error}"
            )
            self._answer(None)
            return
        self._last_ms = self._spent_ms + now_ms() - began_ms
        self._answer(page)

    def _answer(self, page: Exposition | None) -> None:
        waiting, self._waiting = self._waiting, []
        call_all([partial(on_page, page) for on_page in waiting])
