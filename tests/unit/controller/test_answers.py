"""Answers that wait for a commit, and a callback that fails when it gets its own."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.unit.controller.harness import World


def test_a_callback_that_raises_leaves_the_others_their_answers() -> None:
    """They waited for the next commit, and so did the listeners of the metadata."""
    world = World()
    world.join(1)
    box: list[Any] = []

    def fail(answer: object) -> None:
        raise ZeroDivisionError

    for name, attached in (("t", fail), ("u", box.append)):
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        world.start(CreateTopicsRequest(topics=[topic], timeout_ms=1_000)).attach(attached)
    with pytest.raises(ZeroDivisionError):
        world.settle()
    assert [answer.topics[0].error_code for answer in box] == [0]
    assert world.controller.committed_offset == world.image.offset
