"""What a reader by sessions asks for, and what it objects to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.sim.history import History, Violation
from barnabas.sim.workload.fetch_sessions import AskedPartition, ReaderSession
from barnabas.sim.workload.readers import ReaderClient
from barnabas.types import TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
ID, OTHER = Uuid(b"1" * 16), Uuid(b"2" * 16)


def want(offset: int, topic_id: Uuid = ID) -> AskedPartition:
    return AskedPartition(topic_id, offset, 0, 100)


def answer(*partitions: int, session: int = 7) -> FetchResponse:
    told = [PartitionData(partition_index=p, high_watermark=0, records=b"") for p in partitions]
    return FetchResponse(
        session_id=session, responses=[FetchableTopicResponse(topic_id=ID, partitions=told)]
    )


def named(request: FetchRequest) -> tuple[list[int], list[int]]:
    """What a request names and forgets."""
    return (
        [p.partition for topic in request.topics for p in topic.partitions],
        [p for topic in request.forgotten_topics_data for p in topic.partitions],
    )


def begun() -> ReaderSession:
    session = ReaderSession(13)
    assert named(session.request({FIRST: want(0), SECOND: want(0)})) == ([0, 1], [])
    assert session.on_response("r", answer(0, 1))
    return session


def test_unmoved_partitions_are_not_named_again_and_unwanted_ones_are_dropped() -> None:
    session = begun()
    request = session.request({FIRST: want(0), SECOND: want(5)})
    assert named(request) == ([1], []) and (request.session_id, request.session_epoch) == (7, 1)
    assert session.on_response("r", answer())
    assert named(session.request({SECOND: want(5)})) == ([], [0])
    assert session.on_response("r", answer(1))
    assert named(session.request({FIRST: want(0), SECOND: want(5, OTHER)})) == ([0, 1], [1])


def test_a_session_that_is_gone_is_started_again() -> None:
    session = begun()
    session.request({FIRST: want(3)})
    gone = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert not session.on_response("r", gone)
    request = session.request({FIRST: want(3)})
    assert named(request) == ([0], []) and (request.session_id, request.session_epoch) == (0, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        answer(0, 0),
        answer(0, 1),  # the second was forgotten
        answer(0, session=8),
        FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
def test_a_broker_that_mistakes_a_session_is_reported(wrong: FetchResponse) -> None:
    session = begun()
    session.request({FIRST: want(1)})
    with pytest.raises(Violation):
        session.on_response("r", wrong)


def test_a_full_answer_names_everything() -> None:
    session = ReaderSession(13)
    session.request({FIRST: want(0), SECOND: want(0)})
    with pytest.raises(Violation, match="full answer"):
        session.on_response("r", answer(0))


@pytest.mark.parametrize(("reached_in", "is_judged"), [(0, True), (-1, False), (1, False)])
def test_out_of_range_is_judged_where_reader_and_leader_mean_the_same_epoch(
    reached_in: int, is_judged: bool
) -> None:
    """A fetch that names no epoch comes as far as a newer leader is (seed 185)."""
    workload, plan = SimpleNamespace(history=History()), SimpleNamespace(name="r")
    reader: Any = SimpleNamespace(workload=workload, plan=plan, reached_in={FIRST: reached_in})
    try:
        ReaderClient._check_range(reader, FIRST, 1, want(77))
    except Violation:
        assert is_judged
    else:
        assert not is_judged
