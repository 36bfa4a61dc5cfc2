"""Loops are compiled once for all processes of a user, in a process of its own."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline import warm_up


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(warm_up, "own_folder", lambda: str(tmp_path))
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The commands of processes that would have been started."""
    commands: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: commands.append(command))
    return commands


def test_a_task_waits_while_another_process_compiles_its_loops() -> None:
    with warm_up._alone(warm_up.READING):
        waiting = threading.Thread(target=warm_up.wait_for_loops, args=(warm_up.READING,))
        waiting.start()
        waiting.join(0.01)
        assert waiting.is_alive()
    waiting.join(10)
    assert not waiting.is_alive()


def test_a_task_continues_behind_a_process_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "WAIT_S", 0.1)
    with warm_up._alone(warm_up.READING):
        warm_up.wait_for_loops(warm_up.READING)


def test_a_task_of_reading_does_not_wait_for_the_other_loops() -> None:
    with warm_up._alone(warm_up.ALL):
        warm_up.wait_for_loops(warm_up.READING)


def test_an_installation_compiles_in_the_background_once(started: list[Any]) -> None:
    warm_up.in_background()
    warm_up._note_done()
    warm_up.in_background()
    assert len(started) == 1


def test_another_place_for_machine_code_is_not_done_yet(
    monkeypatch: pytest.MonkeyPatch, started: list[Any]
) -> None:
    warm_up._note_done()
    assert warm_up.is_done()
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/another")
    assert not warm_up.is_done()
    warm_up.in_background()
    assert started


def test_a_user_without_a_folder_compiles_where_loops_are_needed(
    monkeypatch: pytest.MonkeyPatch, started: list[Any]
) -> None:
    monkeypatch.setattr(warm_up, "own_folder", lambda: None)
    warm_up._note_done()
    warm_up.in_background()
    warm_up.wait_for_loops(warm_up.READING)
    assert not started and not warm_up.is_done()
