"""Znodes and transactions: what both the twin and a real ZooKeeper answer."""

from __future__ import annotations

import pytest

from barnabas.zookeeper.errors import (
    BadArguments,
    BadVersion,
    InvalidACL,
    MultiFailed,
    NoAuth,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
)
from barnabas.zookeeper.operations import (
    READ_ACL,
    CheckVersion,
    Create,
    Created,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    SetAcl,
    SetData,
    Stat,
    SyncPath,
)
from tests.contract.zookeeper.harness import AnyEnsemble, Client


@pytest.fixture
def client(ensemble: AnyEnsemble, chroot: str) -> Client:
    return ensemble.open(chroot)


def test_create_returns_the_path_and_stat_of_a_fresh_znode(client: Client) -> None:
    path, stat = client.ask(Create("/a", b"data"))
    assert path == "/a"
    assert stat.czxid == stat.mzxid == stat.pzxid > 0
    assert (stat.version, stat.cversion, stat.aversion) == (0, 0, 0)
    assert (stat.ephemeral_owner, stat.data_length, stat.num_children) == (0, 4, 0)
    assert client.ask(GetData("/a")) == (b"data", stat)
    assert client.ask(Exists("/a")) == stat


def test_each_change_raises_the_version_it_belongs_to(client: Client) -> None:
    first = client.ask(Create("/a")).stat
    second = client.ask(SetData("/a", b"x"))
    assert (second.version, second.czxid) == (1, first.czxid)
    assert second.mzxid > first.mzxid and second.mtime >= first.mtime
    child = client.ask(Create("/a/b")).stat
    client.ask(Delete("/a/b"))
    after = client.ask(Exists("/a"))
    assert after is not None
    assert (after.version, after.cversion, after.num_children) == (1, 2, 0)
    assert after.pzxid > child.czxid
    assert client.ask(SetAcl("/a", READ_ACL)).aversion == 1
    assert client.ask(GetAcl("/a")).acl == READ_ACL


def test_missing_and_present_znodes_give_typed_errors(client: Client) -> None:
    client.ask(Create("/a"))
    client.ask(Create("/a/b"))
    assert client.answer(Create("/a")) == NodeExists("/a")
    assert client.answer(Create("/no/child")) == NoNode("/no/child")
    assert client.answer(GetData("/no")) == NoNode("/no")
    assert client.answer(GetChildren("/no")) == NoNode("/no")
    assert client.answer(SetData("/no", b"")) == NoNode("/no")
    assert client.answer(Delete("/no")) == NoNode("/no")
    assert client.answer(Delete("/a")) == NotEmpty("/a")
    assert client.answer(Exists("/no")) is None


def test_a_version_that_is_not_there_changes_nothing(client: Client) -> None:
    client.ask(Create("/a", b"first"))
    assert client.answer(SetData("/a", b"x", version=1)) == BadVersion("/a")
    assert client.answer(Delete("/a", version=7)) == BadVersion("/a")
    assert client.ask(SetData("/a", b"second", version=0)).version == 1
    assert client.ask(GetData("/a")).data == b"second"
    assert client.answer(Delete("/a", version=1)) is None


def test_children_are_sorted_names(client: Client) -> None:
    for name in ("c", "a", "b"):
        client.ask(Create(f"/{name}"))
    names, stat = client.ask(GetChildren("/"))
    assert names == ("a", "b", "c") and stat.num_children == 3


def test_sequential_znodes_count_the_children_ever_created(client: Client) -> None:
    client.ask(Create("/q"))
    assert client.ask(Create("/q/n_", sequential=True)).path == "/q/n_0000000000"
    assert client.ask(Create("/q/n_", sequential=True)).path == "/q/n_0000000001"
    client.ask(Delete("/q/n_0000000001"))
    client.ask(Create("/q/other"))
    assert client.ask(Create("/q/n_", sequential=True)).path == "/q/n_0000000003"
    assert client.ask(Create("/q/", sequential=True)).path == "/q/0000000004"


def test_an_ephemeral_znode_names_its_session_and_has_no_children(client: Client) -> None:
    stat = client.ask(Create("/e", ephemeral=True)).stat
    assert stat.ephemeral_owner == client.session.id != 0
    assert client.answer(Create("/e/x")) == NoChildrenForEphemerals("/e/x")


def test_an_acl_without_the_permission_refuses(client: Client) -> None:
    client.ask(Create("/r", b"", READ_ACL))
    assert client.answer(SetData("/r", b"x")) == NoAuth("/r")
    assert client.answer(Create("/r/x")) == NoAuth("/r/x")
    assert client.answer(Create("/none", b"", ())) == InvalidACL("/none")


def test_a_multi_is_done_as_a_whole_with_one_zxid(client: Client) -> None:
    client.ask(Create("/a", b"1"))
    created, stat, checked, deleted = client.ask(
        Multi(
            (
                Create("/b", b"new"),
                SetData("/a", b"2", version=0),
                CheckVersion("/a", 1),
                Delete("/b"),
            )
        )
    )
    assert isinstance(created, Created) and isinstance(stat, Stat)
    assert created.path == "/b" and created.stat.czxid == stat.mzxid
    assert (checked, deleted) == (None, None)
    assert client.ask(GetData("/a")).data == b"2" and client.ask(Exists("/b")) is None


def test_a_failed_multi_changes_nothing_and_names_the_operation(client: Client) -> None:
    client.ask(Create("/a", b"1"))
    before = client.ask(Exists("/"))
    operations = (Create("/b"), SetData("/a", b"2"), CheckVersion("/a", 9), Delete("/a"))
    failure = client.answer(Multi(operations))
    assert isinstance(failure, MultiFailed)
    assert (failure.index, failure.cause) == (2, BadVersion("/a"))
    assert client.ask(GetData("/a")).data == b"1"
    assert client.ask(Exists("/b")) is None
    assert client.ask(Exists("/")) == before
    assert client.answer(Multi((Delete("/b"),))) == MultiFailed(0, NoNode("/b"))
    assert client.ask(Multi(())) == ()


def test_a_multi_creates_sequential_and_ephemeral_znodes(client: Client) -> None:
    client.ask(Create("/q"))
    one, two = client.ask(Multi((Create("/q/n_", sequential=True), Create("/q/e", ephemeral=True))))
    assert isinstance(one, Created) and one.path == "/q/n_0000000000"
    assert isinstance(two, Created) and two.stat.ephemeral_owner == client.session.id


def test_data_larger_than_the_server_takes_is_refused(client: Client) -> None:
    client.ask(Create("/a", bytes(500_000)))
    assert client.ask(GetData("/a")).stat.data_length == 500_000


def test_the_root_stays(client: Client) -> None:
    answer = client.answer(Delete("/zookeeper-is-not-here"))
    assert answer == NoNode("/zookeeper-is-not-here")


def test_a_session_without_chroot_cannot_delete_the_root(ensemble: AnyEnsemble) -> None:
    assert isinstance(ensemble.open().answer(Delete("/")), BadArguments)


def test_a_chroot_is_made_and_hides_itself(ensemble: AnyEnsemble, chroot: str) -> None:
    inside, outside = ensemble.open(chroot), ensemble.open()
    assert inside.ask(Create("/a", b"x")).path == "/a"
    assert outside.ask(SyncPath(chroot)) is None
    assert outside.ask(GetData(f"{chroot}/a")).data == b"x"
    assert inside.ask(GetChildren("/")).names == ("a",)
    assert inside.answer(Delete("/a/b")) == NoNode("/a/b")


def test_answers_come_in_the_order_of_the_requests(client: Client) -> None:
    requests = [Create("/a"), *(SetData("/a", b"%d" % n) for n in range(60)), GetData("/a")]
    for request in requests:
        client.send(request)
    client.ensemble.wait(lambda: len(client.answers()) == len(requests), "all answers")
    assert [request for request, _ in client.answers()] == requests
    assert client.answers()[-1][1].data == b"59"
