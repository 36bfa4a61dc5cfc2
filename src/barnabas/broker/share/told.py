"""Checks and takes apart the acknowledgements in ShareFetch and ShareAcknowledge.

Source: ``KafkaApis.validateAcknowledgementBatches`` of Apache Kafka 4.3; KIP-932, KIP-1222 (renewal).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from barnabas.broker.share.share_partition import RENEW, Acknowledgement
from barnabas.broker.share.share_sessions import Place
from barnabas.wire.errors import ErrorCode, KafkaError

RENEWS_SINCE = 2
ID_CHARACTERS_MAX = 36

Told = dict[Place, list[Acknowledgement]]
Outcome = dict[Place, KafkaError | None]


def check_member(group_id: str | None, member_id: str | None) -> None:
    """Raises INVALID_REQUEST."""
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not member_id or len(member_id) > ID_CHARACTERS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")


def told_of(
    topics: Iterable[Any], version: int, most: Callable[[Place], int], *, renews: bool
) -> tuple[Told, Outcome]:
    """The acknowledgements by partition, and the outcome of partitions that have none or wrong
    ones. `renews`: the request may renew locks. `most`: the number of a partition's records that
    may be named one by one."""
    named: Counter[Place] = Counter()
    told: Told = {}
    outcome: Outcome = {}
    for topic in topics:
        for partition in topic.partitions:
            place = (topic.topic_id, partition.partition_index)
            batches = partition.acknowledgement_batches
            if not batches:
                continue
            named[place] += sum(len(batch.acknowledge_types or ()) for batch in batches)
            try:
                if named[place] > most(place):
                    raise _invalid("The batches name more records than a member can hold.")
                told[place] = _runs(batches, version, renews)
            except KafkaError as error:
                told.pop(place, None)
                outcome[place] = error
    return told, outcome


def _runs(batches: Iterable[Any], version: int, renews: bool) -> list[Acknowledgement]:
    """The acknowledgements of the batches; neighbours of one kind are joined."""
    runs: list[Acknowledgement] = []
    before = -1
    for batch in batches:
        first, last, kinds = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < before or not kinds:
            raise _invalid("The batches are not in order, or say nothing.")
        if len(kinds) > 1 and last - first != len(kinds) - 1:
            raise _invalid("A batch has not one kind for each of its records.")
        most = RENEW if version >= RENEWS_SINCE else RENEW - 1
        if any(not 0 <= kind <= most for kind in kinds):
            raise _invalid(f"Invalid acknowledge type: {list(kinds)}")
        if RENEW in kinds and not renews:
            raise _invalid("The request does not say that it renews locks.")
        before = last
        if len(kinds) == 1:
            runs.append(Acknowledgement(first, last, kinds[0]))
            continue
        for offset, kind in enumerate(kinds, first):
            if runs and runs[-1].kind == kind and runs[-1].last == offset - 1:
                runs[-1] = runs[-1]._replace(last=offset)
            else:
                runs.append(Acknowledgement(offset, offset, kind))
    return runs


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)
