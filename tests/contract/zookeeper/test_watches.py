"""Watches: one event each, before the answer that shows the change, on the twin and on a real ZooKeeper."""

from __future__ import annotations

import pytest

from barnabas.zookeeper.operations import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    SetData,
    SyncPath,
)
from barnabas.zookeeper.session import SessionState, WatchEvent, WatchKind
from tests.contract.zookeeper.harness import AnyEnsemble, Client


@pytest.fixture
def watcher(ensemble: AnyEnsemble, chroot: str) -> Client:
    return ensemble.open(chroot)


@pytest.fixture
def other(ensemble: AnyEnsemble, chroot: str) -> Client:
    return ensemble.open(chroot)


def test_a_data_watch_fires_once_on_the_next_change(watcher: Client, other: Client) -> None:
    watcher.ask(Create("/a"))
    watcher.ask(GetData("/a", watch=True))
    watcher.ask(GetData("/a", watch=True))
    other.ask(SetData("/a", b"1"))
    other.ask(SetData("/a", b"2"))
    assert watcher.wait_events(1) == [WatchEvent(WatchKind.CHANGED, "/a")]
    watcher.ask(SyncPath("/"))
    assert len(watcher.events) == 1


def test_a_child_watch_fires_on_creation_and_deletion(watcher: Client, other: Client) -> None:
    watcher.ask(GetChildren("/", watch=True))
    other.ask(Create("/a"))
    watcher.wait_events(1)
    watcher.ask(GetChildren("/", watch=True))
    other.ask(SetData("/a", b"not a change of children"))
    other.ask(Delete("/a"))
    assert watcher.wait_events(2) == [WatchEvent(WatchKind.CHILDREN, "/")] * 2


def test_an_exists_watch_fires_on_creation(watcher: Client, other: Client) -> None:
    assert watcher.ask(Exists("/a", watch=True)) is None
    other.ask(Create("/a"))
    assert watcher.wait_events(1) == [WatchEvent(WatchKind.CREATED, "/a")]


def test_deletion_fires_once_for_one_who_watches_all(watcher: Client, other: Client) -> None:
    watcher.ask(Create("/a"))
    watcher.ask(GetData("/a", watch=True))
    watcher.ask(Exists("/a", watch=True))
    watcher.ask(GetChildren("/a", watch=True))
    other.ask(Delete("/a"))
    watcher.wait_events(1)
    watcher.ask(SyncPath("/"))
    assert watcher.events == [WatchEvent(WatchKind.DELETED, "/a")]


def test_a_read_that_fails_sets_no_watch(watcher: Client, other: Client) -> None:
    watcher.answer(GetData("/a", watch=True))
    watcher.answer(GetChildren("/a", watch=True))
    other.ask(Create("/a"))
    watcher.ask(SyncPath("/"))
    assert watcher.events == []


def test_a_multi_fires_the_watches_of_all_its_operations(watcher: Client, other: Client) -> None:
    watcher.ask(Create("/a"))
    watcher.ask(GetData("/a", watch=True))
    watcher.ask(GetChildren("/", watch=True))
    other.ask(Multi((SetData("/a", b"1"), Create("/b"))))
    assert watcher.wait_events(2) == [
        WatchEvent(WatchKind.CHANGED, "/a"),
        WatchEvent(WatchKind.CHILDREN, "/"),
    ]


def test_an_event_comes_before_the_answer_that_shows_it(watcher: Client, other: Client) -> None:
    watcher.ask(Create("/a", b"0"))
    for turn in range(1, 40):
        watcher.ask(GetData("/a", watch=True))
        other.send(SetData("/a", b"%d" % turn))
        while watcher.ask(GetData("/a")).data != b"%d" % turn:
            pass
        assert len(watcher.events) == turn, "the change is visible and its event is not here"


def test_own_changes_fire_own_watches_before_the_answer(watcher: Client) -> None:
    watcher.ask(Create("/a"))
    watcher.ask(GetData("/a", watch=True))
    watcher.send(SetData("/a", b"1"))
    watcher.ensemble.wait(lambda: len(watcher.answers()) == 1, "the answer")
    event, answered = watcher.heard[-2:]
    assert event == WatchEvent(WatchKind.CHANGED, "/a")
    assert isinstance(answered, tuple)


def test_watches_outlive_a_lost_connection(
    ensemble: AnyEnsemble, watcher: Client, other: Client
) -> None:
    for path in ("/changed", "/deleted", "/parent", "/same"):
        watcher.ask(Create(path))
    watcher.ask(GetData("/changed", watch=True))
    watcher.ask(Exists("/deleted", watch=True))
    watcher.ask(Exists("/created", watch=True))
    watcher.ask(GetChildren("/parent", watch=True))
    watcher.ask(GetData("/same", watch=True))
    ensemble.drop_connection(watcher)
    other.ask(
        Multi(
            (
                SetData("/changed", b"1"),
                Delete("/deleted"),
                Create("/created"),
                Create("/parent/child"),
            )
        )
    )
    watcher.wait_events(4)
    assert watcher.states == [
        SessionState.CONNECTED,
        SessionState.SUSPENDED,
        SessionState.CONNECTED,
    ]
    assert {(event.kind, event.path) for event in watcher.events} == {
        (WatchKind.CHANGED, "/changed"),
        (WatchKind.DELETED, "/deleted"),
        (WatchKind.CREATED, "/created"),
        (WatchKind.CHILDREN, "/parent"),
    }
    other.ask(SetData("/same", b"1"))
    assert watcher.wait_events(5)[-1] == WatchEvent(WatchKind.CHANGED, "/same")
