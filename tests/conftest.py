"""Tests that need peers skip with a word where these are missing, and fail where they are required."""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import peers

HERE = Path(__file__).parent
OF_PEERS = (HERE / "interop", HERE / "clients")

# How long an example takes says something of the machine.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_configure() -> None:
    """Collecting imports everything and leaves no garbage worth the search for it."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the collector of garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000_000, 20, 50)
    gc.enable()


def pytest_unconfigure() -> None:
    """Garbage is searched for once more. pytest and the interpreter would search what is left again and
    again, which takes seconds after thousands of tests."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _is_of_peers(item.path) or item.get_closest_marker("peers") is not None:
            item.add_marker(pytest.mark.interop)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("peers"):
        sentence = peers.missing(marker.args)
        if sentence is not None:
            pytest.skip(sentence)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if peers.are_required() and report.skipped and not hasattr(report, "wasxfail"):
        if item.get_closest_marker("interop") is not None:
            _fail(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if peers.are_required() and report.skipped and _is_of_peers(collector.path):
        _fail(report)
    return report


def _is_of_peers(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in OF_PEERS)


def _fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Where peers are required nothing may be left out, for whatever reason."""
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"required by BARNABAS_PEERS=required: {why}"
