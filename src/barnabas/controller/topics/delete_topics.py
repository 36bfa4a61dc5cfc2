"""DeleteTopics: decides which topics are deleted, and the errors of the others.

A topic that a request names more than once (by name, by id or by both) is not deleted, and is
answered once with INVALID_REQUEST. So a client that gets an error finds the topic still there.
Duplicates are looked for in the whole request before any decision.

Source: Kafka's ControllerApis.deleteTopics, ReplicationControlManager.deleteTopics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.slicing import Steps, in_slices
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.security.quotas.mutation_quota import UNCOUNTED, MutationQuota
from barnabas.types import ZERO_UUID, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.delete_topics_response import (
    DeletableTopicResult,
    DeleteTopicsResponse,
)


def delete_topics(
    cluster: ControllerContext, request: DeleteTopicsRequest, quota: MutationQuota = UNCOUNTED
) -> Decision[DeleteTopicsResponse]:
    """One answer for each named topic. Versions before 6 have only names (`topic_names`)."""
    asked = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    results: list[DeletableTopicResult] = []
    steps = _steps(cluster, asked, results, quota)
    return in_slices(
        cluster.bounds, range(len(asked)), steps, lambda: DeleteTopicsResponse(responses=results)
    )


def _steps(
    cluster: ControllerContext,
    asked: Sequence[DeleteTopicState],
    results: list[DeletableTopicResult],
    quota: MutationQuota,
) -> Steps:
    for state, result in _told_apart(cluster, asked):
        record = None
        if not result.error_code:
            try:
                record = _delete(cluster, state, result, quota)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
        results.append(result)
        yield record


def _told_apart(
    cluster: ControllerContext, asked: Sequence[DeleteTopicState]
) -> Iterator[tuple[DeleteTopicState, DeletableTopicResult]]:
    """Each topic of a request once, with its answer. The answer of a topic that was named wrongly
    already has its error."""
    names = Counter([s.name for s in asked if s.name is not None and s.topic_id == ZERO_UUID])
    ids = Counter([Uuid(s.topic_id) for s in asked if s.name is None])
    by_name = cluster.image.topics_by_name
    ids_of_names = {by_name[name].id for name in names if name in by_name}
    answered: set[str | Uuid] = set()
    for state in asked:
        name, topic_id = state.name, Uuid(state.topic_id)
        result = DeletableTopicResult(name=name, topic_id=topic_id, error_message=None)
        if name is not None and topic_id != ZERO_UUID:
            _refuse(result, "You may not specify both topic name and topic id.")
        elif name is None and topic_id == ZERO_UUID:
            _refuse(result, "Neither topic name nor id were specified.")
        elif (key := topic_id if name is None else name) in answered:
            continue
        else:
            answered.add(key)
            if name is None:
                if ids[topic_id] > 1:
                    _refuse(result, "Duplicate topic id.")
                elif topic_id in ids_of_names:
                    continue
            elif names[name] > 1:
                _refuse(result, "Duplicate topic name.")
            elif name in by_name and by_name[name].id in ids:
                result.topic_id = by_name[name].id
                _refuse(result, "The provided topic name maps to an ID that was already supplied.")
        yield state, result


def _refuse(result: DeletableTopicResult, why: str) -> None:
    result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, why


def _delete(
    cluster: ControllerContext,
    state: DeleteTopicState,
    result: DeletableTopicResult,
    quota: MutationQuota,
) -> RemoveTopicRecord:
    """Raises UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, THROTTLING_QUOTA_EXCEEDED."""
    image = cluster.image
    if state.name is not None:
        topic = image.topics_by_name.get(state.name)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"This server has no topic '{state.name}'."
            )
    else:
        topic = image.topics_by_id.get(Uuid(state.topic_id))
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    result.name, result.topic_id = topic.name, topic.id
    quota.admit(topic.id, len(topic))
    return RemoveTopicRecord(topic_id=topic.id)
