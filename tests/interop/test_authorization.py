"""Each API × each missing permission, asked of Apache Kafka and of this project side by side.

Both run one node without authentication; resources that no entry names are everybody's. A row's permission
is taken away by a DENY, and the error codes of the answers are compared.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.local.free_ports import FreePorts
from barnabas.config.node import STANDARD_AUTHORIZER
from barnabas.security.authorization.acls import SUPPORTED_OPERATIONS, AclResourceType, Operation
from barnabas.wire.api_table import API_SCHEMAS
from barnabas.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_for_leader_epoch_request import OffsetForLeaderEpochRequest
from barnabas.wire.schema import Message
from bench.wire import ask
from tests.peers import CLASS_PATH
from tests.process.launch import wait_until
from tests.unit.security.permissions import CLUSTER, TABLE, codes

pytestmark = [
    pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow, pytest.mark.process,
    pytest.mark.timeout(240),
]  # fmt: skip
ALLOWED_OTHERWISE = (InitProducerIdRequest, OffsetForLeaderEpochRequest)
"""By a topic that no entry names, and by ClusterAction, which the nodes themselves need."""
EVERYBODY = "User:ANONYMOUS"
CLUSTER_ID = "bWl4ZWQtcXVvcnVtLXRlcw"
JVM = ["java", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", CLASS_PATH]


class OneNode:
    """A combined node with the authorizer; `bootstrap` is its broker."""

    def __init__(self, directory: Path, java: bool) -> None:
        directory.mkdir()
        client, controller = FreePorts().take(2)
        self.bootstrap = f"127.0.0.1:{client}"
        file = directory / "server.properties"
        file.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            "controller.listener.names=CONTROLLER\n"
            f"listeners=PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}\n"
            f"log.dirs={directory}/data\noffsets.topic.replication.factor=1\n"
            "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
            f"authorizer.class.name={STANDARD_AUTHORIZER}\nsuper.users=User:root\n"
            "allow.everyone.if.no.acl.found=true\n"
        )
        python = [sys.executable, "-m", "barnabas"]
        form = [*JVM, "kafka.tools.StorageTool"] if java else [*python, "storage"]
        tail = (
            ["-t", CLUSTER_ID, "-c", str(file)] if java else ["--cluster-id", CLUSTER_ID, str(file)]
        )
        subprocess.run([*form, "format", *tail], check=True, capture_output=True, timeout=60)
        start = [*JVM, "kafka.Kafka"] if java else [*python, "node", "start"]
        self._log = (directory / "out").open("wb")
        self._process = subprocess.Popen([*start, str(file)], stdout=self._log, stderr=self._log)

    def ask(self, request: Message) -> Any:
        schema = API_SCHEMAS[request.API_KEY]
        module = import_module(f"barnabas.wire.messages.{schema.response_module}")
        response = getattr(module, f"{schema.name}Response")
        version = schema.max_stable_version
        return ask(self.bootstrap, deepcopy(request), version, response)

    def is_up(self) -> bool:
        try:
            return len(self.ask(MetadataRequest(topics=[])).brokers) == 1
        except OSError:
            return False

    def set_acl(self, kind: int, name: str, operation: int, permission: int) -> None:
        self.set_acls(kind, name, [operation], permission)

    def set_acls(self, kind: int, name: str, operations: Sequence[int], permission: int) -> None:
        entries = [
            AclCreation(
                resource_type=kind, resource_name=name, principal=EVERYBODY, host="*",
                operation=operation, permission_type=permission,
            )
            for operation in operations
        ]  # fmt: skip
        assert codes(self.ask(CreateAclsRequest(creations=entries))) == set()

    def unset_acl(self, kind: int, name: str, operation: int, permission: int) -> None:
        wanted = DeleteAclsFilter(
            resource_type_filter=kind, resource_name_filter=name, pattern_type_filter=3,
            principal_filter=None, host_filter=None, operation=operation, permission_type=permission,
        )  # fmt: skip
        assert codes(self.ask(DeleteAclsRequest(filters=[wanted]))) == set()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


@contextmanager
def both(directory: Path) -> Iterator[tuple[OneNode, OneNode]]:
    """Apache Kafka's, and ours."""
    nodes = (OneNode(directory / "kafka", True), OneNode(directory / "ours", False))
    try:
        for node in nodes:
            wait_until(node.is_up, f"{node.bootstrap} answers")
            made = [
                CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in ("t", "other")
            ]
            assert not codes(node.ask(CreateTopicsRequest(topics=made, timeout_ms=10_000)))
            # Together: the first that names the cluster closes it to all that is not allowed.
            node.set_acls(
                AclResourceType.CLUSTER, CLUSTER, SUPPORTED_OPERATIONS[AclResourceType.CLUSTER], 3
            )
        yield nodes
    finally:
        for node in nodes:
            node.close()


def test_a_missing_permission_is_answered_as_apache_kafka_does(tmp_path: Path) -> None:
    # Without Alter on the cluster nothing can be given back: those rows come last, after one DENY.
    last = (AclResourceType.CLUSTER, CLUSTER, Operation.ALTER)
    rows = sorted(TABLE, key=lambda row: last in row[1])
    differ: dict[str, tuple[set[str], set[str]]] = {}
    with both(tmp_path) as (kafka, ours):
        closed = False
        for number, (request, grants, code) in enumerate(rows):
            answers = []
            alternatives = [
                grant
                for other, more, same in rows
                for grant in more
                if type(other) is type(request) and same == code
            ]
            for node in (kafka, ours):
                if last in grants and not closed:
                    node.set_acl(*last, 2)
                denied = [] if last in grants else list(dict.fromkeys(alternatives))
                for grant in denied:
                    node.set_acl(*grant, 2)
                answers.append(codes(node.ask(request)))
                if type(request) is MetadataRequest:
                    answers[-1] |= seen(node)
                for grant in denied:
                    node.unset_acl(*grant, 2)
            closed = closed or last in grants
            if type(request) in ALLOWED_OTHERWISE:  # whatever a coordinator that loads says
                answers = [{c for c in found if "AUTHORIZATION" in c} for found in answers]
            if answers[0] != answers[1]:
                differ[f"{number} {type(request).__name__}"] = (answers[0], answers[1])
            elif code not in answers[0] and type(request) not in ALLOWED_OTHERWISE:
                differ[f"{number} {type(request).__name__} lacks {code}"] = (answers[0], answers[1])
    assert differ == {}


def seen(node: OneNode) -> set[str]:
    """What of all topics is told of, and what may be done with one and with the cluster."""
    told = node.ask(MetadataRequest(topics=None, include_topic_authorized_operations=True))
    asked = [MetadataRequestTopic(name=name) for name in ("t", "absent")]
    named = node.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
    return {
        f"all: {t.name} {t.error_code} {t.topic_authorized_operations}"
        for t in told.topics
        if not t.is_internal
    } | {f"named: {t.name} {t.error_code}" for t in named.topics}
