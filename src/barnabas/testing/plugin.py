"""The pytest plugin with the fixture ``barnabas_cluster``: three node processes per test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.testing.cluster import Cluster


@pytest.fixture(scope="module")
def barnabas_cluster() -> Iterator[Cluster]:
    """A cluster of three nodes. A test that kills a node has to restart it."""
    with Cluster(nodes=3) as cluster:
        yield cluster
