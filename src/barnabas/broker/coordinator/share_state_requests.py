"""Serves the requests to share coordinators.

Each partition of a request is an operation of its own, and the answer follows when all are
committed. A request without topics, partitions or a group has an empty answer. Source:
``ShareCoordinatorService`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.broker.roles import ShareRole
from barnabas.share.key import SharePartitionKey
from barnabas.share.machine import ShareMachine
from barnabas.share.outcome import ShareOutcome
from barnabas.wire.errors import KafkaError
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message

Decide = Callable[[ShareMachine, SharePartitionKey, Any, Instant], ShareOutcome]


class Answers(NamedTuple):
    """The classes of a response: the whole, its topics and their partitions."""

    response: Callable[..., Message]
    topic: Callable[..., Message]
    partition: Callable[..., Message]


def serve(request: Any, role: ShareRole, answers: Answers, decide: Decide) -> Message | Parked:
    """Decide about each partition of `request`."""
    topics = request.topics
    if not request.group_id or not topics or not all(topic.partitions for topic in topics):
        return answers.response()
    parked = Parked()
    results: list[list[Any]] = [[None] * len(topic.partitions) for topic in topics]
    left = sum(map(len, results))

    def done(row: int, column: int, index: int, result: Message | KafkaError | None) -> None:
        nonlocal left
        if isinstance(result, KafkaError):
            result = answers.partition(
                partition=index, error_code=result.code, error_message=result.message or None
            )
        results[row][column] = result
        left -= 1
        if not left:
            parked.complete(
                answers.response(
                    results=[
                        answers.topic(topic_id=topic.topic_id, partitions=parts)
                        for topic, parts in zip(topics, results, strict=True)
                    ]
                )
            )

    coordinators = role.shares.open().coordinators
    for row, topic in enumerate(topics):
        for column, asked in enumerate(topic.partitions):
            key = SharePartitionKey(request.group_id, topic.topic_id, asked.partition)
            coordinators.write(
                key.text,
                partial(_decide, decide, key, asked),
                partial(done, row, column, asked.partition),
            )
    return parked


def _decide(
    decide: Decide, key: SharePartitionKey, asked: Any, machine: ShareMachine, at: Instant
) -> ShareOutcome:
    return decide(machine, key, asked, at)
