"""Who may do what in a cluster of ``barnabas up --secure``, by its nodes' files and first records."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.controller_client.auto_topic_creation import INTERNAL_TOPICS
from barnabas.cli.local.cluster_directory import ClusterDirectory
from barnabas.cli.local.private_files import write_private
from barnabas.config.node import NodeConfig
from barnabas.config.properties import parse_properties
from barnabas.metadata.image.image import MetadataImage
from barnabas.pipeline.write import tokens
from barnabas.security.authorization.acls import CLUSTER_NAME, AclResourceType, Operation
from barnabas.security.authorization.authorizer import Authorizer, authorizer_of
from barnabas.wire.request import RequestContext
from barnabas.zookeeper.config.settings import zookeeper_settings

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> ClusterDirectory:
    directory = ClusterDirectory(tmp_path_factory.mktemp("cluster"))
    directory.lay_out(1, {}, secure=True)
    return directory


@pytest.fixture(scope="module")
def authorizer(laid_out: ClusterDirectory) -> Authorizer:
    texts = parse_properties((laid_out.path / "node-1/server.properties").read_text())
    config = NodeConfig.from_properties(texts)
    assert (config.is_broker, config.is_controller) == (True, True)
    image = MetadataImage()
    image.replay_batch(laid_out.security.bootstrap_records(), 0, 0)
    found = authorizer_of(config.properties, image, lambda *_, **__: None, lambda: 0.0)
    assert found is not None
    return found


def may(authorizer: Authorizer, user: str, operation: Operation,
        kind: AclResourceType, name: str) -> bool:  # fmt: skip
    asked = RequestContext(api_key=0, api_version=0, principal=f"User:{user}")
    return authorizer.may(asked, operation, kind, name)


def test_the_user_produces_and_consumes(authorizer: Authorizer) -> None:
    for operation in (Operation.READ, Operation.WRITE, Operation.DESCRIBE):
        assert may(authorizer, "user", operation, TOPIC, "orders")
    assert may(authorizer, "user", Operation.READ, GROUP, "billing")
    for operation in (Operation.WRITE, Operation.TWO_PHASE_COMMIT):
        assert may(authorizer, "user", operation, AclResourceType.TRANSACTIONAL_ID, "t")


def test_the_user_administers_nothing(authorizer: Authorizer) -> None:
    for operation in (Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS):
        assert not may(authorizer, "user", operation, TOPIC, "orders")
    for operation in (Operation.CREATE, Operation.ALTER, Operation.CLUSTER_ACTION):
        assert not may(authorizer, "user", operation, CLUSTER, CLUSTER_NAME)
    for name in INTERNAL_TOPICS:
        assert not may(authorizer, "user", Operation.DESCRIBE, TOPIC, name)


def test_the_user_runs_exactly_once_pipelines(authorizer: Authorizer) -> None:
    for operation in (Operation.CREATE, Operation.READ, Operation.WRITE):
        assert may(authorizer, "user", operation, TOPIC, tokens.TOPIC)


def test_an_added_user_may_do_nothing(authorizer: Authorizer) -> None:
    for operation in (Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE):
        assert not may(authorizer, "alice", operation, TOPIC, "orders")
    assert not may(authorizer, "alice", Operation.CREATE, CLUSTER, CLUSTER_NAME)


def test_administrator_and_nodes_may_do_everything(authorizer: Authorizer) -> None:
    for user in ("admin", "broker"):
        assert may(authorizer, user, Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)


def test_a_broker_on_zookeeper_has_the_authorizer_of_its_znodes(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    directory.lay_out(1, {}, secure=True, zookeeper="127.0.0.1:2181")
    texts = parse_properties((tmp_path / "node-1/server.properties").read_text())
    zookeeper_settings(texts)
    assert texts["authorizer.class.name"].endswith(".AclAuthorizer")


def test_a_secret_that_cannot_be_written_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_private(tmp_path / "taken", "secret")
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]
