"""The quorum's Fetch and its answer on the wire, by hand where they have their usual shape.

Every commit takes two fetches of each follower. The general codec makes twenty objects of them, field by
field; here one `Struct` has what differs from one to the next, and what a peer says every time (cluster,
sender, leader) is written once and recognised by its bytes. Those are the bytes of the general codec, to
which goes all that is not so usual: older versions, an error, logs that part, a snapshot, another program's
way to write the same.
"""

from __future__ import annotations

from functools import lru_cache, partial
from struct import Struct
from typing import Any, cast

from barnabas.raft.core import messages
from barnabas.raft.core.messages import NO_HIGH_WATERMARK_KNOWN, ReadLog
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.types import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    ZERO_UUID,
    Endpoint,
    Records,
    new_tuple,
)
from barnabas.wire import codec
from barnabas.wire.errors import ErrorCode, code_of
from barnabas.wire.messages import fetch_request as request_form
from barnabas.wire.messages import fetch_response as response_form
from barnabas.wire.schema import Message

VERSION = 18
"""The one that is written and read by hand."""
TAILS_MAX = 256
"""Endings of messages that are kept ready, and as many that are known."""
TAIL_BYTES_MAX = 512
"""Longer ones are not: a peer chooses them."""

_NO_SIZE_MIN = bytes(4)
_ONE_PARTITION = b"\x02" + METADATA_TOPIC_ID + b"\x02" + bytes(4)
_FULL_FETCH = b"\x00" + bytes(4) + b"\xff" * 4 + _ONE_PARTITION
"""Isolation level, no session, and the partition."""
_UNSAID = b"\xff" * 8
_DIRECTORY, _WATERMARK = b"\x02\x00\x10", b"\x01\x08"
"""Two tagged fields, the first of 16 bytes; the second one of 8."""
_REQUEST = Struct(">i4si31siqi8si3s16s2sq")

_NO_ERROR = bytes(10) + _ONE_PARTITION + bytes(2)
"""Throttle time, error and session; the partition and its error."""
_NO_ABORTED = b"\x01" + b"\xff" * 4
"""No aborted transactions, no preferred replica."""
_RESPONSE = Struct(">34sq8sq5s")
_NUMBER = Struct(">i")


class FetchMessage(Message):
    """A fetch as it travels. `request` is None where it is not about ``__cluster_metadata-0`` alone."""

    __slots__ = ("cluster_id", "request")
    VALID = request_form.FetchRequest.VALID
    FLEXIBLE = request_form.FetchRequest.FLEXIBLE
    API_KEY = request_form.FetchRequest.API_KEY

    def __init__(self, request: messages.FetchRequest | None, cluster_id: str | None) -> None:
        self.request = request
        self.cluster_id = cluster_id


class FetchAnswer(Message):
    """Its answer; an epoch of -1 is one that it does not tell."""

    __slots__ = ("response",)
    VALID = response_form.FetchResponse.VALID
    FLEXIBLE = response_form.FetchResponse.FLEXIBLE
    API_KEY = response_form.FetchResponse.API_KEY

    def __init__(self, response: messages.FetchResponse) -> None:
        self.response = response


FetchMessage.ANSWER = FetchAnswer


# -- requests ------------------------------------------------------------------------------------


def _write_request(message: FetchMessage, out: bytearray, splices: codec.Splices) -> None:
    request, cluster_id = message.request, message.cluster_id
    assert request is not None
    epoch, (node_id, directory_id), offset, last_epoch, wait_ms, max_bytes, watermark = request
    if (
        cluster_id is None
        or node_id < 0
        or directory_id == ZERO_UUID
        or watermark == NO_HIGH_WATERMARK_KNOWN
    ):
        _write_any_request(VERSION, message, out, splices)
        return
    out += _REQUEST.pack(
        wait_ms, _NO_SIZE_MIN, max_bytes, _FULL_FETCH, epoch, offset, last_epoch, _UNSAID,
        max_bytes, _DIRECTORY, directory_id, _WATERMARK, watermark,
    )  # fmt: skip
    out += _request_tail(cluster_id, node_id)


@lru_cache(TAILS_MAX)
def _request_tail(cluster_id: str, node_id: int) -> bytes:
    """No forgotten topics, no rack; then who asks of which cluster."""
    name = _text(cluster_id)
    tail = bytearray(b"\x00\x01\x01\x02\x00")
    codec.write_uvarint(len(name), tail)
    return bytes(tail) + name + b"\x01\x0d" + _NUMBER.pack(node_id) + _UNSAID + b"\x00"


def _text(value: str) -> bytes:
    """A compact string."""
    raw, size = value.encode(), bytearray()
    codec.write_uvarint(len(raw) + 1, size)
    return bytes(size) + raw


_known_askers: dict[bytes, tuple[str, int]] = {}
"""(cluster, node) by what the end of a request says of them."""


def _read_request(data: memoryview, position: int) -> tuple[FetchMessage, int]:
    end = position + _REQUEST.size
    tail = bytes(data[end:])
    asker = _known_askers.get(tail)
    if asker is None:
        message, stop = _read_any_request(VERSION, data, position)
        request, cluster_id = message.request, message.cluster_id
        if request is not None and cluster_id is not None and len(tail) <= TAIL_BYTES_MAX:
            asker = cluster_id, request.replica.id
            if tail == _request_tail(*asker):
                _remember(_known_askers, tail, asker)
        return message, stop
    (
        wait_ms, min_bytes, max_bytes, full, epoch, offset, last_epoch, start, part_bytes,
        directory, directory_id, tag, watermark,
    ) = _REQUEST.unpack_from(data, position)  # fmt: skip
    if (
        min_bytes != _NO_SIZE_MIN
        or full != _FULL_FETCH
        or start != _UNSAID
        or part_bytes != max_bytes
        or directory != _DIRECTORY
        or tag != _WATERMARK
    ):
        return _read_any_request(VERSION, data, position)
    cluster_id, node_id = asker
    replica = new_tuple(ReplicaKey, (node_id, directory_id))
    request = new_tuple(
        messages.FetchRequest, (epoch, replica, offset, last_epoch, wait_ms, max_bytes, watermark)
    )
    return FetchMessage(request, cluster_id), end + len(tail)


def _remember(known: dict[bytes, Any], tail: bytes, value: object) -> None:
    if len(known) >= TAILS_MAX:
        known.clear()
    known[tail] = value


def _write_any_request(
    version: int, message: FetchMessage, out: bytearray, splices: codec.Splices
) -> None:
    request = message.request
    assert request is not None
    part = request_form.FetchPartition(
        partition=0,
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_epoch,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    topic = request_form.FetchTopic(
        topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[part]
    )
    general = request_form.FetchRequest(
        cluster_id=message.cluster_id,
        replica_state=request_form.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
        topics=[topic],
    )
    codec.write_into(general, version, out, splices)


def _read_any_request(version: int, data: memoryview, position: int) -> tuple[FetchMessage, int]:
    message, stop = codec.decode_prefix(request_form.FetchRequest, version, data, position)
    part = _only_partition(message, version)
    if part is None:
        return FetchMessage(None, message.cluster_id), stop
    request = messages.FetchRequest(
        part.current_leader_epoch,
        ReplicaKey(
            message.replica_id if version < 15 else message.replica_state.replica_id,
            part.replica_directory_id,
        ),
        part.fetch_offset,
        part.last_fetched_epoch,
        message.max_wait_ms,
        min(part.partition_max_bytes or message.max_bytes, message.max_bytes),
        part.high_watermark,
    )
    return FetchMessage(request, message.cluster_id), stop


def _only_partition(
    message: request_form.FetchRequest, version: int
) -> request_form.FetchPartition | None:
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        return None
    topic = message.topics[0]
    named = topic.topic == METADATA_TOPIC if version < 13 else topic.topic_id == METADATA_TOPIC_ID
    return topic.partitions[0] if named and topic.partitions[0].partition == 0 else None


# -- answers -------------------------------------------------------------------------------------


def _write_answer(message: FetchAnswer, out: bytearray, splices: codec.Splices) -> None:
    error, epoch, leader_id, endpoint, watermark, start, diverging, snapshot, records = (
        message.response
    )
    if (
        error is not ErrorCode.NONE
        or leader_id < 0
        or endpoint is None
        or diverging is not None
        or snapshot is not None
    ):
        _write_any_answer(VERSION, message, out, splices)
        return
    assert not isinstance(records, ReadLog)
    out += _RESPONSE.pack(_NO_ERROR, watermark, _UNSAID, start, _NO_ABORTED)
    size = len(records)
    codec.write_uvarint(size + 1, out)
    if size < codec.SPLICE_MIN:
        out += records
    else:
        splices.append((len(out), records))
    out += _answer_tail(epoch, leader_id, endpoint)


@lru_cache(TAILS_MAX)
def _answer_tail(epoch: int, leader_id: int, endpoint: Endpoint) -> bytes:
    """Who leads which epoch, and where it is."""
    leader = _NUMBER.pack(leader_id)
    at = b"\x02" + leader + _text(endpoint.host) + _NUMBER.pack(endpoint.port) + b"\x00\x00"
    tail = bytearray(b"\x01\x01\x09" + leader + _NUMBER.pack(epoch) + b"\x00\x00\x01\x00")
    codec.write_uvarint(len(at), tail)
    return bytes(tail) + at


_known_leaders: dict[bytes, tuple[int, int, Endpoint]] = {}
"""(epoch, leader, its endpoint) by what the end of an answer says of them."""


def _read_answer(data: memoryview, position: int) -> tuple[FetchAnswer, int]:
    if len(data) - position < _RESPONSE.size:  # an error and no partition
        return _read_any_answer(VERSION, data, position)
    same, watermark, stable, start, aborted = _RESPONSE.unpack_from(data, position)
    if same != _NO_ERROR or stable != _UNSAID or aborted != _NO_ABORTED:
        return _read_any_answer(VERSION, data, position)
    size, begin = codec.read_uvarint(data, position + _RESPONSE.size)
    end = begin + size - 1  # less than `begin`: null
    tail = bytes(data[end:])
    leader = _known_leaders.get(tail) if size else None
    if leader is None:
        message, stop = _read_any_answer(VERSION, data, position)
        response = message.response
        if response.leader_endpoint is not None and len(tail) <= TAIL_BYTES_MAX:
            leader = response.epoch, response.leader_id, response.leader_endpoint
            if tail == _answer_tail(*leader):
                _remember(_known_leaders, tail, leader)
        return message, stop
    epoch, leader_id, endpoint = leader
    records = data[begin:end]
    response = new_tuple(
        messages.FetchResponse,
        (ErrorCode.NONE, epoch, leader_id, endpoint, watermark, start, None, None, records),
    )
    return FetchAnswer(response), end + len(tail)


def _write_any_answer(
    version: int, message: FetchAnswer, out: bytearray, splices: codec.Splices
) -> None:
    answer = message.response
    part = response_form.PartitionData(
        partition_index=0,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        records=cast(Records, answer.records),
    )
    if version >= 12:
        part.current_leader = response_form.LeaderIdAndEpoch(
            leader_id=answer.leader_id, leader_epoch=answer.epoch
        )
        if answer.diverging is not None:
            part.diverging_epoch = response_form.EpochEndOffset(
                epoch=answer.diverging.epoch, end_offset=answer.diverging.offset
            )
        if answer.snapshot is not None:
            part.snapshot_id = response_form.SnapshotId(
                end_offset=answer.snapshot.offset, epoch=answer.snapshot.epoch
            )
    topic = response_form.FetchableTopicResponse(
        topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[part]
    )
    nodes = []
    at = answer.leader_endpoint
    if version >= 17 and at is not None and answer.leader_id >= 0:
        nodes = [response_form.NodeEndpoint(node_id=answer.leader_id, host=at.host, port=at.port)]
    general = response_form.FetchResponse(responses=[topic], node_endpoints=nodes)
    codec.write_into(general, version, out, splices)


def _read_any_answer(version: int, data: memoryview, position: int) -> tuple[FetchAnswer, int]:
    message, stop = codec.decode_prefix(response_form.FetchResponse, version, data, position)
    return FetchAnswer(_answer_of(message)), stop


def _answer_of(message: response_form.FetchResponse) -> messages.FetchResponse:
    topics = message.responses
    if message.error_code or len(topics) != 1 or len(topics[0].partitions) != 1:
        error = code_of(message.error_code) if message.error_code else None
        return messages.FetchResponse(error or ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1, None)
    part = topics[0].partitions[0]
    leader, diverging, snapshot = part.current_leader, part.diverging_epoch, part.snapshot_id
    endpoint = None
    for node in message.node_endpoints:
        if node.node_id == leader.leader_id and node.host:
            endpoint = Endpoint(node.host, node.port)
            break
    records = part.records
    return messages.FetchResponse(
        code_of(part.error_code),
        max(leader.leader_epoch, -1),
        leader.leader_id,
        endpoint,
        high_watermark=part.high_watermark,
        log_start_offset=part.log_start_offset,
        diverging=(
            OffsetAndEpoch(diverging.end_offset, diverging.epoch) if diverging.epoch >= 0 else None
        ),
        snapshot=(
            OffsetAndEpoch(snapshot.end_offset, snapshot.epoch)
            if snapshot.epoch >= 0 or snapshot.end_offset >= 0
            else None
        ),
        records=(
            b"" if records is None else b"".join(records) if isinstance(records, list) else records
        ),
    )


def _install() -> None:
    low, high = FetchMessage.VALID
    for version in range(low, high + 1):
        codec.prepare(
            FetchMessage,
            version,
            partial(_read_any_request, version),
            partial(_write_any_request, version),
        )
        codec.prepare(
            FetchAnswer,
            version,
            partial(_read_any_answer, version),
            partial(_write_any_answer, version),
        )
    codec.prepare(FetchMessage, VERSION, _read_request, _write_request)
    codec.prepare(FetchAnswer, VERSION, _read_answer, _write_answer)


_install()
