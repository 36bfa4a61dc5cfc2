"""The pytest plugin: ``barnabas_cluster``, a three-node cluster of processes per test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.testing.cluster import Cluster


@pytest.fixture(scope="module")
def barnabas_cluster() -> Iterator[Cluster]:
    """Three nodes; every node that a test killed has to be restarted by it."""
    with Cluster(nodes=3) as cluster:
        yield cluster
