"""Commands wait for ZooKeeper as long as it answers, and say how far they are."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.cli import progress
from barnabas.cli.connection.zookeeper_reader import read_znodes
from barnabas.cli.connection.zookeeper_writer import write_znodes
from barnabas.cli.failure import Failure
from barnabas.host.loop import Loop
from barnabas.host.zookeeper import sessions
from barnabas.zookeeper.operations import ChildNames, Exists, GetChildren, Multi, NodeData, Stat
from barnabas.zookeeper.session import SessionState

pytestmark = pytest.mark.slow
AT = "127.0.0.1:1/kafka"
PATIENCE_S, ANSWER_S = 0.5, 0.15
STAT = Stat(*[0] * 11)
TREE = {"/kafka": ("brokers",), "/kafka/brokers": ("ids",), "/kafka/brokers/ids": ()}


class SlowZooKeeper:
    """Answers a request after `ANSWER_S`, the first `answers` of them."""

    answers = 1_000

    def __init__(self, loop: Loop, *_: object) -> None:
        self._loop = loop

    def open(self, settings: object, listener: Any) -> SlowZooKeeper:
        self._loop.call_later(0, listener.on_session_state, SessionState.CONNECTED)
        return self

    def submit(self, request: Any, done: Callable[[Any], None]) -> None:
        self.answers -= 1
        if self.answers >= 0:
            self._loop.call_later(ANSWER_S, done, self._answer(request))

    def close(self) -> None:
        """There is no connection."""

    @staticmethod
    def _answer(request: Any) -> Any:
        if isinstance(request, Multi):
            return ()
        if isinstance(request, Exists):
            return STAT
        if isinstance(request, GetChildren):
            return ChildNames(TREE[request.path], STAT)
        return NodeData(b"", STAT)


@pytest.fixture(autouse=True)
def slow_zookeeper(monkeypatch: pytest.MonkeyPatch) -> type[SlowZooKeeper]:
    class Patched(SlowZooKeeper):
        pass

    monkeypatch.setattr(sessions, "HostZooKeeper", Patched)
    return Patched


class Terminal(io.StringIO):
    """A terminal's text."""

    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A person looks on, from the first answer."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(progress, "BEGIN_S", 0.0)
    monkeypatch.setattr(progress, "INTERVAL_S", 0.0)
    return made


def test_a_reading_may_take_longer_than_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(monkeypatch)
    assert sorted(read_znodes(AT, PATIENCE_S)) == ["/brokers", "/brokers/ids"]
    assert "1 znodes, " in shown.getvalue()


def test_transactions_may_take_longer_than_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(monkeypatch)
    write_znodes(AT, [Multi(())] * 4, PATIENCE_S)
    assert "3 of 4 transactions, 75%, " in shown.getvalue()


def test_output_for_a_program_has_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(monkeypatch)
    read_znodes(AT, PATIENCE_S, as_json=True)
    write_znodes(AT, [Multi(())], PATIENCE_S, as_json=True)
    assert shown.getvalue() == ""


def test_silence_ends_a_reading_with_what_was_read(slow_zookeeper: type[SlowZooKeeper]) -> None:
    slow_zookeeper.answers = 4
    with pytest.raises(Failure, match=r"no ZooKeeper answers at 127.0.0.1:1 within 0.5 s, after 1"):
        read_znodes(AT, PATIENCE_S)


def test_silence_ends_transactions_with_what_is_done(slow_zookeeper: type[SlowZooKeeper]) -> None:
    slow_zookeeper.answers = 1
    with pytest.raises(Failure, match=r"answered 1 of 2 transactions, and the next not within"):
        write_znodes(AT, [Multi(())] * 2, PATIENCE_S)
