"""Ensembles for the contract: the twin, our servers, and Apache's where Java and pyspark are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.local.zookeeper_servers import (
    APACHE,
    OWN,
    ZooKeeperMissing,
    ZooKeeperServers,
)
from tests.contract.zookeeper.harness import (
    AnyEnsemble,
    RealEnsemble,
    SimulatedEnsemble,
    start_real,
)

SUBJECTS = [
    "twin",
    pytest.param(OWN, marks=pytest.mark.slow),
    pytest.param(APACHE, marks=[pytest.mark.java, pytest.mark.slow]),
]


def _real(directory: Path, servers: int, kind: str) -> Iterator[ZooKeeperServers]:
    try:
        started = start_real(directory, servers, kind)
    except ZooKeeperMissing as missing:
        pytest.skip(str(missing))
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def apache_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServers]:
    """A real server for all tests of a module; each works below a chroot of its own."""
    yield from _real(tmp_path_factory.mktemp("zookeeper"), 1, APACHE)


@pytest.fixture(scope="module")
def barnabas_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServers]:
    """The same of ours."""
    yield from _real(tmp_path_factory.mktemp("zookeeper"), 1, OWN)


@pytest.fixture(params=SUBJECTS)
def ensemble(request: pytest.FixtureRequest) -> Iterator[AnyEnsemble]:
    """One server."""
    under_test: AnyEnsemble
    if request.param == "twin":
        under_test = SimulatedEnsemble(1)
    else:
        under_test = RealEnsemble(request.getfixturevalue(f"{request.param}_server"))
    yield under_test
    under_test.close()


@pytest.fixture(params=SUBJECTS)
def three(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyEnsemble]:
    """Three servers, for this test alone."""
    if request.param == "twin":
        twin = SimulatedEnsemble(3)
        yield twin
        twin.close()
        return
    for servers in _real(tmp_path, 3, request.param):
        real = RealEnsemble(servers)
        yield real
        real.close()


@pytest.fixture
def chroot(request: pytest.FixtureRequest) -> str:
    """A chroot of this test's own."""
    return "/" + "".join(ch if ch.isalnum() else "-" for ch in request.node.name) + "/kafka"
