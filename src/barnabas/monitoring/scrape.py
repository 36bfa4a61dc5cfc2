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
OnText = Callable[[Sequence[bytes]], None]
"""Gets the parts of a page's text."""
SECONDS = "barnabas_scrape_seconds"


class SlicedWork:
    """Takes steps in slices of `SLICE_MS`, each in a turn of the loop of its own."""

    def __init__(
        self, ports: Ports, steps: Iterator[Wait | None], on_end: Callable[[Exception | None], None]
    ) -> None:
        """`on_end` gets None when all steps are taken, or what one of them raised."""
        self._ports = ports
        self._steps = steps
        self._on_end = on_end
        self.spent_ms = 0.0
        self.is_stopped = False

    def run(self) -> None:
        """Take the steps of one slice."""
        if self.is_stopped:
            return
        now_ms = self._ports.clock.now_ms
        began_ms = now_ms()
        try:
            for wait in self._steps:
                if wait is not None:
                    wait(partial(self._ports.wakeups.call_soon, self.run))
                elif now_ms() - began_ms >= SLICE_MS:
                    self._ports.wakeups.call_soon(self.run)
                else:
                    continue
                self.spent_ms += now_ms() - began_ms
                return
        except Exception as error:  # noqa: BLE001 - every request is answered, whatever a source raises
            self._on_end(error)
            return
        self.spent_ms += now_ms() - began_ms
        self._on_end(None)


class Scrapes:
    """The pages of one node."""

    def __init__(self, ports: Ports, sources: Callable[[], Sequence[Source]]) -> None:
        """`sources` are those of a scrape that begins."""
        self._ports = ports
        self._sources = sources
        self._waiting: list[OnPage] = []
        self._works: set[SlicedWork] = set()
        self._last_ms = 0.0

    def begin(self, on_page: OnPage) -> None:
        """Call `on_page` with a page whose values are not older than this request."""
        self._waiting.append(on_page)
        if len(self._waiting) == 1:
            page = Exposition(metrics())
            self._run(self._steps(page), partial(self._on_filled, page))

    def write(self, page: Exposition, on_text: OnText, *, open_metrics: bool = False) -> None:
        """Call `on_text` with the text of `page`."""
        parts: list[bytes] = []

        def steps() -> Iterator[None]:
            for part in page.parts(open_metrics=open_metrics):
                parts.append(part)
                yield

        def on_written(_: SlicedWork, error: Exception | None) -> None:
            assert error is None, f"{page} cannot be written: {error!r}"
            on_text(parts)

        self._run(steps(), on_written)

    def close(self) -> None:
        """Stop all work: no request gets a page any more."""
        for work in self._works:
            work.is_stopped = True

    def _run(
        self,
        steps: Iterator[Wait | None],
        on_end: Callable[[SlicedWork, Exception | None], None],
    ) -> None:
        def end(error: Exception | None) -> None:
            self._works.discard(work)
            on_end(work, error)

        work = SlicedWork(self._ports, steps, end)
        self._works.add(work)
        work.run()

    def _steps(self, page: Exposition) -> Iterator[Wait | None]:
        for source in self._sources():
            yield from source(page)
        page.add(SECONDS, self._last_ms / 1000)

    def _on_filled(self, page: Exposition, work: SlicedWork, error: Exception | None) -> None:
        self._last_ms = work.spent_ms
        waiting, self._waiting = self._waiting, []
        if error is not None:
            why = f"{type(error).__name__}: {error}"
            self._ports.log("error", "metrics.source_failed", why=why)
        call_all([partial(on_page, page if error is None else None) for on_page in waiting])
