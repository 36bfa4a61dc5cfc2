"""A long run's file: what was played is not played again, whatever interrupted it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import barnabas
from barnabas.sim.runner.report import source
from barnabas.sim.runner.run_journal import SEEDS_PER_LINE, JournalError, Played, RunJournal

SEEDS = range(1000, 1000 + 2 * SEEDS_PER_LINE + 5)


def a_chunk(first: int, seeds: int = SEEDS_PER_LINE) -> Played:
    return Played(first, seeds, {"messages delivered": 100 * seeds, "kills": 1}, 5000.0, 2.0)


def test_the_journal_continues_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = RunJournal(path, SEEDS, "abc")
    assert [len(chunk) for chunk in journal.rest()] == [SEEDS_PER_LINE, SEEDS_PER_LINE, 5]
    journal.note(a_chunk(1000 + SEEDS_PER_LINE))
    again = RunJournal(path, SEEDS, "abc")
    assert again.rest() == [
        range(1000, 1000 + SEEDS_PER_LINE),
        range(1000 + 2 * SEEDS_PER_LINE, SEEDS.stop),
    ]
    assert again.all.seeds == SEEDS_PER_LINE and again.all.totals["kills"] == 1


def test_adds_up_chunks_and_keeps_failures(tmp_path: Path) -> None:
    journal = RunJournal(tmp_path / "journal", SEEDS, "abc")
    failing = a_chunk(1000)
    failing.failed.append(1003)
    failing.texts.append("what happened")
    journal.note(failing)
    journal.note(a_chunk(1000 + SEEDS_PER_LINE))
    read = RunJournal(tmp_path / "journal", SEEDS, "abc").all
    assert (
        read.seeds == 2 * SEEDS_PER_LINE
        and read.failed == [1003]
        and read.texts == ["what happened"]
    )
    assert read.rates().startswith(
        f"{2 * SEEDS_PER_LINE} seeds, 1 failed; per second of a core 10.00 seeds"
    )
    assert "1000 messages;" in read.rates()


def test_a_line_that_was_not_written_whole_was_not_played(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = RunJournal(path, SEEDS, "abc")
    journal.note(a_chunk(1000))
    whole = path.stat().st_size
    journal.note(a_chunk(1000 + SEEDS_PER_LINE))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 7)
    again = RunJournal(path, SEEDS, "abc")
    assert again.all.seeds == SEEDS_PER_LINE and again.rest()[0].start == 1000 + SEEDS_PER_LINE
    assert path.stat().st_size == whole
    again.note(a_chunk(1000 + SEEDS_PER_LINE))
    assert RunJournal(path, SEEDS, "abc").all.seeds == 2 * SEEDS_PER_LINE


@pytest.mark.parametrize(
    ("seeds", "source"),
    [(range(1, 50), "abc"), (SEEDS, "abd")],
    ids=["other seeds", "other source"],
)
def test_refuses_the_journal_of_another_run(tmp_path: Path, seeds: range, source: str) -> None:
    path = tmp_path / "journal"
    RunJournal(path, SEEDS, "abc")
    with pytest.raises(JournalError, match="the journal of another run"):
        RunJournal(path, seeds, source)


def test_refuses_what_is_no_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text("something else\n")
    with pytest.raises(JournalError, match="not the journal of a run"):
        RunJournal(path, SEEDS, "abc")


@pytest.mark.slow
def test_a_run_is_one_of_its_source_whatever_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit(path: str, text: str) -> str:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "one")):
            subprocess.run(["git", *words], cwd=tmp_path, check=True)
        return source()

    monkeypatch.setattr(barnabas, "__file__", f"{tmp_path}/src/barnabas/__init__.py")
    assert source().startswith("version ")
    first = commit("src/barnabas/log.py", "one")
    assert commit("docs/log.md", "one") == first
    assert commit("src/barnabas/host/loop.py", "one") == first
    (tmp_path / "src/barnabas/log.py").write_text("two")
    assert source() == f"{first}, changed since"
    assert commit("src/barnabas/log.py", "two") not in (first, f"{first}, changed since")
