"""Sessions: loss, return, expiry and the end, on the twin and on a real ZooKeeper."""

from __future__ import annotations

import pytest

from barnabas.zookeeper.errors import ConnectionLoss, SessionExpired
from barnabas.zookeeper.operations import (
    Create,
    Exists,
    GetChildren,
    GetData,
    SetData,
    SyncPath,
)
from barnabas.zookeeper.session import SessionState, WatchEvent, WatchKind
from tests.contract.zookeeper.harness import AnyEnsemble

TRIES = 10


def test_a_session_has_an_id_and_the_time_out_it_was_granted(ensemble: AnyEnsemble) -> None:
    one, other = ensemble.open(timeout_ms=5_000), ensemble.open(timeout_ms=500)
    assert one.session.id != other.session.id != 0
    assert one.session.timeout_ms == 5_000
    assert other.session.timeout_ms == 1_000
    assert one.states == [SessionState.CONNECTED]


def test_close_ends_the_session_and_its_ephemerals(ensemble: AnyEnsemble, chroot: str) -> None:
    owner, other = ensemble.open(chroot), ensemble.open(chroot)
    owner.ask(Create("/e", ephemeral=True))
    other.ask(SyncPath("/"))
    other.ask(Exists("/e", watch=True))
    owner.send(Create("/last"))
    owner.session.close()
    owner.wait_state(SessionState.CLOSED)
    assert owner.heard[-1] is SessionState.CLOSED
    assert other.wait_events(1) == [WatchEvent(WatchKind.DELETED, "/e")]
    assert other.ask(GetChildren("/")).names == ("last",)
    assert owner.answer(GetData("/")) == SessionExpired("/")


def test_a_lost_connection_comes_back_with_the_session(ensemble: AnyEnsemble, chroot: str) -> None:
    client = ensemble.open(chroot)
    client.ask(Create("/e", ephemeral=True))
    before = client.session.id
    ensemble.drop_connection(client)
    ensemble.wait(lambda: SessionState.SUSPENDED in client.states, "the loss")
    client.send(GetData("/e"))
    ensemble.wait(lambda: client.states.count(SessionState.CONNECTED) == 2, "the return")
    assert client.session.id == before
    [(_, answer)] = client.answers()
    assert answer == ConnectionLoss("/e") or answer.stat.ephemeral_owner == before
    assert client.ask(GetData("/e")).stat.ephemeral_owner == before


def test_requests_under_way_are_answered_connection_loss(
    ensemble: AnyEnsemble, chroot: str
) -> None:
    ensemble.open(chroot).ask(Create("/a"))
    requests = [SetData("/a", b"%d" % number) for number in range(200)]
    lost: list[ConnectionLoss] = []
    for _ in range(
        TRIES
    ):  # a fast server has answered all that was sent before the connection drops
        client = ensemble.open(chroot)
        for request in requests:
            client.send(request)
        ensemble.drop_connection(client)
        ensemble.wait(lambda client=client: len(client.answers()) == 200, "all answers")  # type: ignore[misc]
        assert [request for request, _ in client.answers()] == requests
        answers = [answer for _, answer in client.answers()]
        lost = [answer for answer in answers if isinstance(answer, ConnectionLoss)]
        if lost:
            break
    assert lost and all(one.outcome_unknown for one in lost)
    assert client.heard.index(SessionState.SUSPENDED) < client.heard.index(
        next(one for one in client.heard if isinstance(one, tuple) and one[1] in lost)
    )
    ensemble.wait(lambda: client.states.count(SessionState.CONNECTED) == 2, "the return")
    done = 200 - len(lost)
    stat = client.ask(Exists("/a"))
    assert stat is not None and stat.version >= done


def test_an_expired_session_is_reported_once_and_is_final(
    ensemble: AnyEnsemble, chroot: str
) -> None:
    client, other = ensemble.open(chroot), ensemble.open(chroot)
    client.ask(Create("/e", ephemeral=True))
    other.ask(SyncPath("/"))
    other.ask(Exists("/e", watch=True))
    ensemble.expire(client)
    client.wait_state(SessionState.EXPIRED)
    assert other.wait_events(1) == [WatchEvent(WatchKind.DELETED, "/e")]
    assert client.answer(GetData("/")) == SessionExpired("/")
    ensemble.pass_time(500)
    assert client.states[-1] is SessionState.EXPIRED
    assert client.states.count(SessionState.EXPIRED) == 1


@pytest.mark.slow
def test_a_session_and_its_znode_outlive_a_restart_of_all_servers(
    ensemble: AnyEnsemble, chroot: str
) -> None:
    client = ensemble.open(chroot, timeout_ms=20_000)
    client.ask(Create("/e", ephemeral=True))
    ensemble.stop_servers()
    client.wait_state(SessionState.SUSPENDED)
    ensemble.start_servers()
    # The client is back before the time-out has passed since the servers' start.
    client.wait_state(SessionState.CONNECTED)
    assert client.ask(Exists("/e")) is not None


def test_an_answered_write_survives_the_death_of_all_servers(
    ensemble: AnyEnsemble, chroot: str
) -> None:
    client = ensemble.open(chroot, timeout_ms=20_000)
    client.ask(Create("/a", b"kept"))
    ensemble.stop_servers()
    client.wait_state(SessionState.SUSPENDED)
    assert client.answer(GetData("/a")) == ConnectionLoss("/a")
    ensemble.start_servers()
    client.wait_state(SessionState.CONNECTED)
    assert client.ask(GetData("/a")).data == b"kept"


def test_a_session_moves_to_another_server_when_the_leader_dies(
    three: AnyEnsemble, chroot: str
) -> None:
    clients = [three.open(chroot, timeout_ms=10_000) for _ in range(4)]
    for number, client in enumerate(clients):
        client.ask(Create(f"/e{number}", ephemeral=True))
        client.ask(Exists("/go", watch=True))
    three.kill_leader()
    for number, client in enumerate(clients):
        three.wait(
            lambda number=number, client=client: (  # type: ignore[misc]
                not isinstance(client.answer(SetData(f"/e{number}", b"1")), ConnectionLoss)
            ),
            "a change under the next leader",
        )
    clients[0].ask(Create("/go"))
    for client in clients:
        assert client.wait_events(1) == [WatchEvent(WatchKind.CREATED, "/go")]
        assert client.states[-1] is SessionState.CONNECTED
        assert SessionState.EXPIRED not in client.states
    clients[0].ask(SyncPath("/"))
    assert clients[0].ask(GetChildren("/")).names == ("e0", "e1", "e2", "e3", "go")


def test_nothing_seen_is_unseen_at_another_server(three: AnyEnsemble, chroot: str) -> None:
    client = three.open(chroot, timeout_ms=10_000)
    client.ask(Create("/a"))
    version = 0
    for turn in range(8):
        version = max(version, client.ask(SetData("/a", b"%d" % turn)).version)
        three.drop_connection(client)
        three.wait(
            lambda turn=turn: client.states.count(SessionState.CONNECTED) == turn + 2,  # type: ignore[misc]
            "the next connection",
        )
        stat = client.ask(Exists("/a"))
        assert stat is not None and stat.version >= version
