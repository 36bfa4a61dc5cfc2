"""Scrapes: sources fill a page in slices, and one that raises ends its scrape only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from barnabas.monitoring.exposition import Exposition
from barnabas.monitoring.scrape import SECONDS, Scrapes
from tests.unit.group.world import FakePorts


@pytest.fixture
def ports() -> FakePorts:
    return FakePorts()


def test_requests_that_come_together_get_one_page(ports: FakePorts) -> None:
    begun: list[int] = []

    def source(page: Exposition) -> Iterator[None]:
        begun.append(1)
        for _ in range(3):
            ports.advance(10)
            yield

    pages: list[Exposition | None] = []
    scrapes = Scrapes(ports, lambda: [source])  # type: ignore[arg-type]
    scrapes.begin(pages.append)
    scrapes.begin(pages.append)
    ports.settle()
    assert len(begun) == 1
    first, second = pages
    assert first is second and first is not None
    assert SECONDS in first.text().decode()


def test_a_source_that_raises_ends_its_scrape_only(ports: FakePorts) -> None:
    fails = [True]

    def source(page: Exposition) -> Iterator[None]:
        yield
        if fails[0]:
            raise KeyError("a metric that the table lacks")

    pages: list[Exposition | None] = []
    scrapes = Scrapes(ports, lambda: [source])  # type: ignore[arg-type]
    scrapes.begin(pages.append)
    ports.settle()
    assert pages == [None]
    fails[0] = False
    scrapes.begin(pages.append)
    ports.settle()
    assert pages[1] is not None


def test_the_text_of_a_page_is_written_in_slices(ports: FakePorts) -> None:
    class LongPage(Exposition):
        def parts(self, *, open_metrics: bool = False) -> Iterator[bytes]:
            for _ in range(3):
                ports.advance(10)
                yield b"a family"

    texts: list[Sequence[bytes]] = []
    scrapes = Scrapes(ports, list)  # type: ignore[arg-type]
    scrapes.write(LongPage({}), texts.append)
    assert texts == []
    ports.settle()
    assert texts == [[b"a family"] * 3]


def test_nothing_is_answered_after_the_end(ports: FakePorts) -> None:
    def source(page: Exposition) -> Iterator[None]:
        ports.advance(10)
        yield

    pages: list[Exposition | None] = []
    scrapes = Scrapes(ports, lambda: [source])  # type: ignore[arg-type]
    scrapes.begin(pages.append)
    scrapes.close()
    ports.settle()
    assert pages == []
