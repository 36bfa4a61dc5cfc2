"""What the token lists of tasks' transactions, and which names tasks take."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from barnabas.pipeline.errors import LedgerError
from barnabas.pipeline.write.commit_log import Origin
from barnabas.pipeline.write.prepared.participants import Participant
from barnabas.pipeline.write.prepared.task import take_suffix
from barnabas.pipeline.write.staged_task import TaskPlace
from barnabas.pipeline.write.tokens import PARTICIPANTS_MAX, Token, token_from


def place(run: str, batch: int) -> TaskPlace:
    return TaskPlace("app", "q", run, batch, 0, cast("Any", None))


def many(count: int) -> tuple[Participant, ...]:
    return tuple(Participant(f"{n % 8:012x}.{n // 8}", 1_000_000 + n, 7) for n in range(count))


def test_a_token_lists_the_transactions_that_count_with_it() -> None:
    token = Token(4, Origin("q", "r", "p"), 100, participants=many(20))
    read = token_from("key", token.value(), -1)
    assert set(read.participants) == set(token.participants)
    assert (read.batch, read.origin, read.rows) == (4, Origin("q", "r", "p"), 100)


def test_a_token_without_transactions_is_one_for_earlier_versions() -> None:
    assert json.loads(Token(4).value())["version"] == 1
    assert json.loads(Token(4, participants=many(1)).value())["version"] == 2
    with pytest.raises(LedgerError, match="version 3"):
        token_from("key", b'{"version": 3}', 0)


@pytest.mark.slow
def test_the_longest_token_is_less_than_a_topic_takes() -> None:
    assert len(Token(4, participants=many(PARTICIPANTS_MAX)).value()) < 1_000_000
    assert len(Token(4, participants=many(1_000)).value()) < 30_000


def test_a_name_is_taken_again_only_for_a_later_batch_of_the_run() -> None:
    first = [take_suffix("k", place("run-1", 5)) for _ in range(3)]
    assert len(set(first)) == 3
    assert [take_suffix("k", place("run-1", 6)) for _ in range(3)] == first
    assert take_suffix("k", place("run-1", 6)) not in first
    late = take_suffix("k", place("run-1", 5))  # an attempt of the batch before
    assert late not in first
    assert take_suffix("k", place("run-2", 7)) not in first
    assert take_suffix("k2", place("run-1", 7)) not in first


def test_an_attempt_without_a_run_has_a_name_of_its_own() -> None:
    assert take_suffix("k", place("", 5)) != take_suffix("k", place("", 6))
