"""Blocking requests of the benchmarks to a cluster, one at a time over a plain socket."""

from __future__ import annotations

import socket
import struct
from typing import TypeVar

from barnabas.wire.codec import decode_prefix, encode_bytes, is_flexible
from barnabas.wire.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.describe_quorum_response import DescribeQuorumResponse
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.metadata_response import MetadataResponse
from barnabas.wire.messages.request_header import RequestHeader
from barnabas.wire.schema import Message

R = TypeVar("R", bound=Message)


def frame(
    request: Message, version: int, correlation_id: int = 1, client_id: str = "bench"
) -> bytes:
    """The bytes to send: length, header, request."""
    header = RequestHeader(
        request_api_key=request.API_KEY,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    body = encode_bytes(header, 2 if is_flexible(type(request), version) else 1)
    body += encode_bytes(request, version)
    return struct.pack(">i", len(body)) + body


def receive(stream: socket.socket) -> memoryview:
    """One response, header first, without its length."""
    size = struct.unpack(">i", _exactly(stream, 4))[0]
    return memoryview(_exactly(stream, size))


def _exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = stream.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("the server closed the connection")
        data += piece
    return data


def ask(bootstrap: str, request: Message, version: int, response: type[R]) -> R:
    """The answer of the first server of `bootstrap` (``host:port,...``) that answers within 5 s.

    Raises:
        OSError: No server answered; the last server's error.
    """
    last: OSError | None = None
    for server in bootstrap.split(","):
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=5) as stream:
                stream.sendall(frame(request, version))
                answer = receive(stream)
                # The header: correlation id and, if flexible, tags. ApiVersions (18) never has tags there.
                start = 5 if is_flexible(response, version) and response.API_KEY != 18 else 4
                return decode_prefix(response, version, answer, start)[0]
        except OSError as error:
            last = error
    raise last or OSError("no servers were given")


def active_controller(bootstrap: str) -> int:
    """Node id of the quorum's leader; -1 where there is none."""
    request = DescribeQuorumRequest(
        topics=[
            TopicData(
                topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)]
            )
        ]
    )
    answer = ask(bootstrap, request, 1, DescribeQuorumResponse)
    return answer.topics[0].partitions[0].leader_id


def leaders(bootstrap: str, topic: str) -> tuple[dict[int, int], dict[int, tuple[str, int]]]:
    """Leader of each partition, and address of each broker. Asks until every partition has a leader."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    found: dict[int, int] = {}
    while not found or min(found.values()) < 0:
        answer = ask(bootstrap, request, 9, MetadataResponse)
        found = {p.partition_index: p.leader_id for p in answer.topics[0].partitions}
    return found, {b.node_id: (b.host, b.port) for b in answer.brokers}


def leader_of(bootstrap: str, topic: str, partition: int) -> int:
    return leaders(bootstrap, topic)[0][partition]
