"""Other people's clients against real three-node clusters of processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.testing.cluster import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings={"group.initial.rebalance.delay.ms": "200"}) as cluster:
        yield cluster
