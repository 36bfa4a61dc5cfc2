"""Many connections, each with one small Produce request in flight: requests per second and latency."""

from __future__ import annotations

import selectors
import socket
import struct
import time

from bench.wire import frame, leaders


def produce_frame(topic: str, partition: int) -> bytes:
    """A Produce v9 request of one 1 KB record with acks=all."""
    from barnabas.record.builder import build_batch
    from barnabas.wire.messages.produce_request import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )

    batch = build_batch([(None, b"x" * 1024)], timestamp_ms=int(time.time() * 1000))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=partition, records=batch)],
            )
        ],
    )
    return frame(request, 9)


class Caller:
    """One connection with at most one request in flight."""

    def __init__(self, address: tuple[str, int], request: bytes) -> None:
        self.stream = socket.create_connection(address)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream.setblocking(False)
        self.request = request
        self.sent_at = 0.0
        self.answer = b""

    def send(self) -> None:
        self.sent_at = time.perf_counter()
        self.stream.send(self.request)

    def on_readable(self) -> float | None:
        """Latency in ms where the answer is whole."""
        self.answer += self.stream.recv(4096)
        if len(self.answer) < 4:
            return None
        (size,) = struct.unpack_from(">i", self.answer)
        if len(self.answer) < 4 + size:
            return None
        self.answer = b""
        return (time.perf_counter() - self.sent_at) * 1000


def closed_loop(
    bootstrap: str, topic: str, partitions: int, *, connections: int, seconds: float
) -> tuple[float, list[float]]:
    """Requests per second and all latencies in ms, sorted, after one second of warm-up."""
    leader, address = leaders(bootstrap, topic)
    selector = selectors.EpollSelector()
    for index in range(connections):
        partition = index % partitions
        caller = Caller(address[leader[partition]], produce_frame(topic, partition))
        selector.register(caller.stream, selectors.EVENT_READ, caller)
        caller.send()
    latencies: list[float] = []
    start = time.perf_counter() + 1
    end = start + seconds
    while (now := time.perf_counter()) < end:
        for key, _ in selector.select(1):
            caller = key.data
            latency = caller.on_readable()
            if latency is not None:
                if now >= start:
                    latencies.append(latency)
                caller.send()
    for key in list(selector.get_map().values()):
        key.data.stream.close()
    selector.close()
    latencies.sort()
    return len(latencies) / seconds, latencies
