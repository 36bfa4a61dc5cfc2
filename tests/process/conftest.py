"""Five nodes to hurt: two of them may be gone and the quorum still decides."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from barnabas.testing.cluster import Cluster

SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.fetch.wait.max.ms": "100",
    "offsets.topic.num.partitions": "1",
}
"""Hosts that go silent are noticed after 3 s instead of 9."""


@pytest.fixture(scope="module")
def five() -> Iterator[Cluster]:
    with Cluster(nodes=5, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def hears_hangups() -> Iterator[None]:
    """Processes that are started hear SIGHUP, also where these tests run under ``nohup``."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
