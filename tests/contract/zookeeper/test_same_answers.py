"""Drawn requests, well-formed and not: our server answers what Apache ZooKeeper answers, field by field."""

from __future__ import annotations

import random
from typing import Any

import pytest

from barnabas.cli.local.zookeeper_servers import ZooKeeperServers
from barnabas.zookeeper.operations import ZnodeAcl
from barnabas.zookeeper.server.jute import NULL, JuteReader, JuteWriter
from barnabas.zookeeper.server.requests import Op, write_acl
from barnabas.zookeeper.znode_acls import digest_identity
from tests.contract.zookeeper.wire_client import WireClient

pytestmark = [pytest.mark.java, pytest.mark.slow]
REQUESTS = 400
NAMES = ("a", "b", "c")
ODD_PATHS = (
    "a",
    "/a/",
    "/a//b",
    "/a/./b",
    "/a/..",
    "/a\x00b",
    "/a\x07",
    "/\ufff0",
    "/zookeeper",
    "/",
)
OPEN = (ZnodeAcl(31, "world", "anyone"),)
ACLS = (
    OPEN, OPEN, OPEN, OPEN, (), (ZnodeAcl(1, "world", "anyone"),), (ZnodeAcl(31, "world", "other"),),
    (ZnodeAcl(31, "auth", ""),), (ZnodeAcl(31, *digest_identity(b"u:other")),),
    (ZnodeAcl(31, "digest", "u"),),
    (ZnodeAcl(31, "ip", "127.0.0.1"), ZnodeAcl(31, "ip", "127.0.0.1")), (ZnodeAcl(31, "ip", "10.0.0.0/8"),),
    (ZnodeAcl(31, "ip", "somewhere"),), (ZnodeAcl(31, "sasl", "kafka"),), (ZnodeAcl(16, "world", "anyone"),),
)  # fmt: skip


class Drawn:
    """Requests by a seed, each as (op, body)."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def path(self) -> str:
        rng = self._rng
        if rng.random() < 0.04:
            return rng.choice(ODD_PATHS)
        return "".join(f"/{rng.choice(NAMES)}" for _ in range(rng.randint(1, 3)))

    def version(self) -> int:
        return self._rng.choice((-1, -1, -1, 0, 1, 2))

    def data(self) -> bytes:
        return self._rng.choice((NULL, b"", b"x", b"long" * 50))

    def operation(self) -> tuple[int, bytes]:
        op = self._rng.choice((Op.CREATE, Op.CREATE, Op.CREATE2, Op.DELETE, Op.SET_DATA, Op.CHECK))
        writer = JuteWriter().text(self.path())
        if op in (Op.CREATE, Op.CREATE2):
            write_acl(writer.buffer(self.data()), self._rng.choice(ACLS))
            writer.number(self._rng.choice((0, 0, 0, 1, 2, 3, 9, -1)))
        elif op == Op.SET_DATA:
            writer.buffer(self.data()).number(self.version())
        else:
            writer.number(self.version())
        return op, writer.bytes()

    def read(self) -> tuple[int, bytes]:
        ops = (Op.EXISTS, Op.GET_DATA, Op.GET_CHILDREN, Op.GET_CHILDREN2)
        watch = self._rng.random() < 0.5
        return self._rng.choice(ops), JuteWriter().text(self.path()).bool(watch).bytes()

    def request(self) -> tuple[int, bytes]:
        kind = self._rng.random()
        if kind < 0.4:
            op, body = self.operation()
            return (Op.DELETE, body) if op == Op.CHECK else (op, body)
        if kind < 0.7:
            return self.read()
        if kind < 0.85:
            return Op.MULTI, self.several(self.operation)
        if kind < 0.88:
            return Op.MULTI_READ, self.several(self.read_in_multi)
        if kind < 0.92:
            writer = write_acl(JuteWriter().text(self.path()), self._rng.choice(ACLS))
            return Op.SET_ACL, writer.number(self.version()).bytes()
        if kind < 0.94:
            return Op.ADD_WATCH, JuteWriter().text(self.path()).number(
                self._rng.choice((0, 1))
            ).bytes()
        if kind < 0.96:
            op = self._rng.choice((Op.REMOVE_WATCHES, Op.CHECK_WATCHES))
            return op, JuteWriter().text(self.path()).number(self._rng.choice((1, 2, 3))).bytes()
        path = JuteWriter().text(self.path()).bytes()
        ops = (Op.GET_ACL, Op.GET_ACL, Op.GET_EPHEMERALS, Op.GET_ALL_CHILDREN_NUMBER, Op.SYNC)
        return self._rng.choice(ops), path

    def read_in_multi(self) -> tuple[int, bytes]:
        op = self._rng.choice((Op.GET_DATA, Op.GET_CHILDREN))
        return op, JuteWriter().text(self.path()).bool(False).bytes()

    def several(self, one: Any) -> bytes:
        writer = JuteWriter()
        for _ in range(self._rng.randint(0, 4)):
            op, body = one()
            writer.number(op).bool(False).number(-1).raw(body)
        return writer.number(-1).bool(True).number(-1).bytes()


def readable(client: WireClient, op: int, body: bytes) -> Any:
    """The body of an answer, in values that do not depend on the server."""
    reader = JuteReader(body)
    if not body:
        return None
    if op in (Op.MULTI, Op.MULTI_READ):
        results: list[Any] = []
        while True:
            kind, is_last, error = reader.number(), reader.bool(), reader.number()
            if is_last:
                return results
            results.append((kind, error, result(client, kind, reader)))
    return result(client, op, reader)


def result(client: WireClient, op: int, reader: JuteReader) -> Any:
    if op == Op.CREATE:
        return reader.text()
    if op == Op.CREATE2:
        return reader.text(), client.relative_stat(reader)
    if op in (Op.EXISTS, Op.SET_DATA, Op.SET_ACL):
        return client.relative_stat(reader)
    if op == Op.GET_DATA:
        data = reader.buffer()
        return data is NULL, data, client.relative_stat(reader)
    if op in (Op.GET_CHILDREN, Op.GET_EPHEMERALS):
        return sorted(reader.vector(reader.text))
    if op == Op.GET_CHILDREN2:
        return sorted(reader.vector(reader.text)), client.relative_stat(reader)
    if op == Op.GET_ACL:
        acl = reader.vector(lambda: (reader.number(), reader.text(), reader.text()))
        return acl, client.relative_stat(reader)
    if op in (Op.ERROR, Op.GET_ALL_CHILDREN_NUMBER, Op.ADD_WATCH):
        return reader.number()
    if op == Op.SYNC:
        return reader.text()
    return reader.rest() if op not in (Op.DELETE, Op.CHECK) else None


@pytest.mark.parametrize("seed", range(3))
def test_drawn_requests_are_answered_alike(
    apache_server: ZooKeeperServers, barnabas_server: ZooKeeperServers, seed: int
) -> None:
    clients = [
        WireClient(servers.servers[0].client_port) for servers in (apache_server, barnabas_server)
    ]
    try:
        for client in clients:
            auth = JuteWriter().number(0).text("digest").buffer(b"u:secret").bytes()
            assert client.ask(Op.AUTH, auth, xid=-4)[0] == 0
        drawn = Drawn(seed)
        for number in range(REQUESTS):
            op, body = drawn.request()
            answers = []
            for client in clients:
                error, zxid, answer = client.ask(op, body)
                events = sorted(client.events)
                client.events.clear()
                answers.append((error, zxid - client.base, readable(client, op, answer), events))
            assert answers[1] == answers[0], f"request {number}: {Op(op).name} {body!r}"
    finally:
        for client in clients:
            clear(client)
            client.close()


def clear(client: WireClient) -> None:
    """Remove what the requests have made."""

    def remove(path: str) -> None:
        client.ask(Op.SET_ACL, write_acl(JuteWriter().text(path), OPEN).number(-1).bytes())
        error, _, body = client.ask(Op.GET_CHILDREN, JuteWriter().text(path).bool(False).bytes())
        if error == 0:
            reader = JuteReader(body)
            for name in reader.vector(reader.text):
                remove(f"{path}/{name}")
        client.ask(Op.DELETE, JuteWriter().text(path).number(-1).bytes())

    for name in NAMES:
        remove(f"/{name}")
