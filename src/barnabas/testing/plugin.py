"""The pytest plugin, which pytest finds by itself where Barnabas is installed.

It has fixtures for a real cluster of node processes and for topics of a test:

* ``kafka_cluster`` is a `Cluster`, of one node by default. Nodes may be killed, paused and restarted. The
  option ``kafka_scope`` says whether there is one for the whole run (``session``), for each module or for
  each test (``function``).
* ``kafka_clusters(nodes=3, secure=True)`` starts a cluster of another kind, which ends with its test.
* ``kafka_topic`` is the name of a topic of one partition that is made for a test and deleted after it;
  ``kafka_topics(partitions=3)`` makes more of them.
* ``bootstrap_servers`` is ``host:port,...`` of ``kafka_cluster``; ``kafka_client`` is a blocking client.

Under pytest-xdist each worker has its own cluster; with ``kafka_xdist = shared`` the first process
starts one for all. A cluster ends with the process that started it, even if that is killed.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from barnabas.host.client import Connected
    from barnabas.testing.aio import AiokafkaClients
    from barnabas.testing.cluster import Cluster

SCOPES = ("session", "module", "function")
XDIST = ("each", "shared")
_SHARED = "barnabas_cluster"
"""The key of `workerinput` under which a worker finds the directory of the shared cluster."""
_HOST = pytest.StashKey["Cluster"]()
STARTS_CLUSTER = {"kafka_cluster", "kafka_clusters", "barnabas_cluster"}
"""The fixtures that start a cluster. Those that need one have them among the names of a test's fixtures."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("kafka_nodes", "number of nodes of the fixture kafka_cluster", default="1")
    parser.addini(
        "kafka_scope", f"how long kafka_cluster lives: {', '.join(SCOPES)}", default="session"
    )
    parser.addini("kafka_settings", "lines KEY=VALUE: configuration of every node", type="linelist")
    parser.addini("kafka_secure", "TLS and SASL on every listener", type="bool", default=False)
    parser.addini(
        "kafka_faults",
        "links and nodes can be made to fail; connections then go through the test's process",
        type="bool",
        default=False,
    )
    parser.addini(
        "kafka_coordinators",
        "the topics of coordinators are made at once, not at the first use of a group or transaction",
        type="bool",
        default=False,
    )
    parser.addini("kafka_start_timeout", "seconds until the cluster takes writes", default="60")
    parser.addini(
        "kafka_xdist",
        "each: every worker of pytest-xdist has a cluster of its own; shared: all have one",
        default="each",
    )


def _chosen(config: pytest.Config, name: str, values: tuple[str, ...]) -> str:
    """The value of an option that is one of `values`. Raises `pytest.UsageError`."""
    value = str(config.getini(name))
    if value not in values:
        raise pytest.UsageError(f"{name} is one of {', '.join(values)}, not {value!r}")
    return value


def _number(config: pytest.Config, name: str) -> int:
    """The value of an option that is a positive whole number. Raises `pytest.UsageError`."""
    value = str(config.getini(name))
    if not value.isdecimal() or int(value) < 1:
        raise pytest.UsageError(f"{name} is a positive whole number, not {value!r}")
    return int(value)


def _settings(config: pytest.Config) -> dict[str, str]:
    found = {}
    for line in config.getini("kafka_settings"):
        key, separator, value = line.partition("=")
        if not separator:
            raise pytest.UsageError(f"kafka_settings has lines KEY=VALUE, not {line!r}")
        found[key.strip()] = value.strip()
    return found


def _configured(config: pytest.Config, **changes: Any) -> Cluster:
    """The cluster of the options, not started; `changes` are arguments of `Cluster`."""
    from barnabas.testing.cluster import Cluster

    given = {
        "nodes": _number(config, "kafka_nodes"),
        "settings": _settings(config),
        "secure": bool(config.getini("kafka_secure")),
        "faults": bool(config.getini("kafka_faults")),
        "coordinators": bool(config.getini("kafka_coordinators")),
        "start_timeout_s": float(_number(config, "kafka_start_timeout")),
    }
    return Cluster(**{**given, **changes})


def pytest_configure(config: pytest.Config) -> None:
    """Wrong options end the run before its first test."""
    _chosen(config, "kafka_scope", SCOPES)
    _chosen(config, "kafka_xdist", XDIST)
    _number(config, "kafka_nodes")
    _number(config, "kafka_start_timeout")
    _settings(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """pytest-xdist starts a worker: it learns where the shared cluster is."""
    config: pytest.Config = node.config
    if _chosen(config, "kafka_xdist", XDIST) != "shared":
        return
    if _HOST not in config.stash:
        cluster = _configured(config)
        cluster.start()
        config.stash[_HOST] = cluster
    node.workerinput[_SHARED] = str(config.stash[_HOST].directory)


def pytest_itemcollected(item: pytest.Item) -> None:
    """The modules of a cluster are loaded while tests are still being collected. A run that names the tests
    that it wants waits until it knows them."""
    options = item.config.option
    if not options.keyword and not options.markexpr:
        _prepare_for([item])


def pytest_collection_finish(session: pytest.Session) -> None:
    _prepare_for(session.items)


def _prepare_for(items: list[pytest.Item]) -> None:
    """Start the template of clusters if one of the tests starts a cluster in this process."""
    wanted = set().union(*(getattr(item, "fixturenames", ()) for item in items)) & STARTS_CLUSTER
    if not wanted or items[0].config.option.collectonly:
        return
    if wanted == {"kafka_cluster"} and _SHARED in getattr(items[0].config, "workerinput", {}):
        return
    from barnabas.testing.template import TEMPLATE

    TEMPLATE.prepare()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _HOST in config.stash:
        config.stash[_HOST].stop()
    template = sys.modules.get("barnabas.testing.template")
    if template is not None:
        template.TEMPLATE.close()


def _scope(fixture_name: str, config: pytest.Config) -> str:
    return _chosen(config, "kafka_scope", SCOPES)


@pytest.fixture(scope=_scope)  # type: ignore[arg-type]
def kafka_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster of real processes; a test that kills a node restarts it, unless each test has its own."""
    shared = getattr(pytestconfig, "workerinput", {}).get(_SHARED)
    if shared is not None:
        from barnabas.testing.cluster import Cluster

        yield Cluster.attached(Path(shared), secure=bool(pytestconfig.getini("kafka_secure")))
        return
    with _configured(pytestconfig) as cluster:
        yield cluster


@pytest.fixture
def kafka_clusters(pytestconfig: pytest.Config) -> Iterator[Callable[..., Cluster]]:
    """Starts a cluster with other arguments of `Cluster` than the options have. It ends with the test."""
    with ExitStack() as stack:
        yield lambda **changes: stack.enter_context(_configured(pytestconfig, **changes))


@pytest.fixture
def bootstrap_servers(kafka_cluster: Cluster) -> str:
    """The addresses of `kafka_cluster`: ``host:port,...``."""
    return kafka_cluster.bootstrap


@pytest.fixture
def kafka_client(kafka_cluster: Cluster) -> Iterator[Connected]:
    """A blocking client of `kafka_cluster`, as its administrator where it is secure."""
    from barnabas.host.client import connect

    with connect(kafka_cluster.bootstrap, properties=kafka_cluster.client_properties) as client:
        yield client


@pytest.fixture
def aiokafka_clients(kafka_cluster: Cluster) -> AiokafkaClients:
    """Makes producers and consumers of aiokafka: ``async with aiokafka_clients.producer() as producer``."""
    from barnabas.testing.aio import AiokafkaClients

    return AiokafkaClients(kafka_cluster)


@pytest.fixture
def kafka_topics(kafka_client: Connected) -> Iterator[Callable[..., str]]:
    """Makes topics with names of their own, which are deleted after the test.

    ``kafka_topics(partitions=3, configs={"cleanup.policy": "compact"})`` returns the name.
    """
    made: list[str] = []

    def make(
        partitions: int = 1,
        replication_factor: int = -1,
        configs: dict[str, str] | None = None,
    ) -> str:
        name = f"test-{uuid.uuid4().hex[:12]}"
        kafka_client.create_topic(name, partitions, replication_factor, configs or {})
        made.append(name)
        return name

    yield make
    for name in made:
        kafka_client.delete_topic(name)


@pytest.fixture
def kafka_topic(kafka_topics: Callable[..., str]) -> str:
    """The name of a topic of one partition that only this test has."""
    return kafka_topics()


@pytest.fixture(scope="module")
def barnabas_cluster() -> Iterator[Cluster]:
    """A cluster of three nodes for a module. A test that kills a node has to restart it."""
    from barnabas.testing.cluster import Cluster

    with Cluster(nodes=3) as cluster:
        yield cluster
