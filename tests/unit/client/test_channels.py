"""Both ends of the wire against each other, in memory: what a request is promised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.network.channels import ChannelError, Channels
from barnabas.types import Endpoint
from barnabas.wire import api_versions
from barnabas.wire.api_table import ApiKey
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.envelope import open_envelope, principal_of, unwrap, wrap
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_cluster_response import DescribeClusterResponse
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.find_coordinator_response import FindCoordinatorResponse
from barnabas.wire.messages.produce_request import ProduceRequest
from barnabas.wire.messages.produce_response import ProduceResponse
from barnabas.wire.request import Api, Parked, Proof, RequestContext
from barnabas.wire.server import RequestServer, ServerLimits
from tests.unit.client.loopback import Stream, World

HERE = Endpoint("broker", 9092)
FIND = Api(
    ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, top_level_error(FindCoordinatorResponse)
)
CLUSTER = Api(
    ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest, top_level_error(DescribeClusterResponse)
)
PRODUCE = Api(ApiKey.PRODUCE, ProduceRequest, lambda request, code, text: None)

NO_OTHER_LIMITS = ServerLimits()
Handle = Callable[[Any, RequestContext, Any], Any]


def echo(request: FindCoordinatorRequest, ctx: RequestContext, role: Any) -> Any:
    return FindCoordinatorResponse(error_message=request.key, error_code=0)


def setup(
    handle: Handle = echo, limits: ServerLimits = NO_OTHER_LIMITS
) -> tuple[World, RequestServer, Channels]:
    world = World()
    table = ApiTable().add_handler(FIND, handle, None)
    server = RequestServer(world, "PLAINTEXT", table, limits=limits)
    world.listen(HERE, server.accept)
    return world, server, Channels(world, "test", request_timeout_ms=1000)


def ask(key: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key=key)


def test_versions_are_negotiated_once_and_answers_come_in_order() -> None:
    world, server, channels = setup()
    got: list[Any] = []
    for key in "abc":
        channels.send(HERE, ask(key), got.append, version=3)
    assert got == []
    channels.send(HERE, DescribeClusterRequest(), got.append)
    world.run()
    assert [m.error_message for m in got[:3]] == ["a", "b", "c"]
    assert isinstance(got[3], ChannelError) and got[3].kind == "unsupported"
    assert server.requests == 4  # three and ApiVersions
    assert channels.versions_of(HERE) == {10: (0, 6), 18: (0, 5)}
    channels.send(HERE, ask("d"), got.append, version=2)
    world.run()
    assert got[4].error_message == "d"
    assert server.requests == 5


def test_a_text_that_cannot_be_encoded_fails_and_delays_no_request() -> None:
    world, _, channels = setup()
    got: list[Any] = []
    for key in ("before", "\udc80", "behind"):
        channels.send(HERE, ask(key), got.append, version=3)
    world.run(2000)
    told = [a.kind if isinstance(a, ChannelError) else a.error_message for a in got]
    assert sorted(told) == ["before", "behind", "unsupported"]


def test_a_late_answer_keeps_its_place() -> None:
    parked: list[Parked] = []

    def handle(request: FindCoordinatorRequest, ctx: RequestContext, role: Any) -> Any:
        if request.key == "wait":
            parked.append(Parked())
            return parked[-1]
        return FindCoordinatorResponse(error_message=request.key)

    world, _, channels = setup(handle)
    got: list[Any] = []
    for key in ("wait", "x", "wait", "y"):
        channels.send(HERE, ask(key), got.append, version=1)
    world.run()
    assert got == []
    parked[1].complete(FindCoordinatorResponse(error_message="second"))
    world.run()
    assert got == []
    parked[0].complete(FindCoordinatorResponse(error_message="first"))
    assert not parked[0].complete(FindCoordinatorResponse(error_message="again"))
    world.run()
    assert [m.error_message for m in got] == ["first", "x", "second", "y"]


def test_an_error_of_a_handler_is_an_answer() -> None:
    def handle(request: FindCoordinatorRequest, ctx: RequestContext, role: Any) -> Any:
        if request.key == "known":
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "elsewhere")
        raise ZeroDivisionError("oh")

    world, _, channels = setup(handle)
    got: list[Any] = []
    channels.send(HERE, ask("known"), got.append, version=3)
    channels.send(HERE, ask("bug"), got.append, version=3)
    world.run()
    assert [(m.error_code, m.error_message) for m in got] == [(16, "elsewhere"), (-1, "oh")]
    assert [(level, event) for level, event, _ in world.lines] == [("error", "request.failed")]


def test_an_answer_its_version_cannot_carry_becomes_an_error() -> None:
    def handle(request: FindCoordinatorRequest, ctx: RequestContext, role: Any) -> Any:
        return FindCoordinatorResponse(node_id="no number")  # type: ignore[arg-type]

    world, _, channels = setup(handle)
    got: list[Any] = []
    channels.send(HERE, ask("k"), got.append, version=3)
    world.run()
    assert got[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_too_many_in_flight_pause_reading_and_lose_nothing() -> None:
    parked: list[Parked] = []

    def handle(request: FindCoordinatorRequest, ctx: RequestContext, role: Any) -> Any:
        parked.append(Parked())
        return parked[-1]

    world, server, channels = setup(handle, ServerLimits(in_flight_max=3))
    got: list[Any] = []
    for i in range(10):
        channels.send(HERE, ask(str(i)), got.append, version=1)
    world.run()
    assert len(parked) == 3
    for done in range(10):
        parked[done].complete(FindCoordinatorResponse(error_message=str(done)))
        world.run()
    assert [m.error_message for m in got] == [str(i) for i in range(10)]
    assert server.statistics()["in_flight"] == 0


def test_a_peer_that_takes_nothing_is_not_served_on() -> None:
    served: list[str] = []

    def handle(request: FindCoordinatorRequest, ctx: RequestContext, role: Any) -> Any:
        served.append(request.key)
        return FindCoordinatorResponse(error_message="x" * 1000)

    world, server, channels = setup(handle, ServerLimits(unsent_max_bytes=5000))
    got: list[Any] = []
    channels.send(HERE, ask("0"), got.append, version=1)
    world.run()
    there = world.streams[1]
    there.blocked = True
    for i in range(1, 50):
        channels.send(HERE, ask(str(i)), got.append, version=1)
        world.run()
    assert len(served) < 10
    assert server.statistics()["stalled"] == 1
    there.blocked = False
    world.run(world.now + 100)
    assert served == [str(i) for i in range(50)]
    assert len(got) == 50


def test_refused_closed_and_timeout_are_distinguished() -> None:
    world, server, channels = setup(lambda request, ctx, role: Parked())
    got: list[Any] = []
    news: list[str] = []
    absent = Endpoint("absent", 1)
    channels.watch(absent, on_refused=lambda: news.append("refused"))
    channels.watch(HERE, on_closed=lambda: news.append("closed"))
    channels.send(absent, ask("k"), got.append)
    world.run()
    assert got[-1].kind == "refused" and news == ["refused"]
    channels.send(HERE, ask("k"), got.append, version=3)
    world.run(500)
    assert len(got) == 1
    world.run(1500)
    assert got[-1].kind == "timeout" and news == ["refused"]
    channels.send(HERE, ask("k"), got.append, version=3)
    world.run()
    server.close()
    world.run()
    assert got[-1].kind == "closed" and news == ["refused", "closed"]
    assert channels.in_flight(HERE) == 0


def test_produce_without_acknowledgement_is_done_when_sent() -> None:
    seen: list[int] = []

    def handle(request: ProduceRequest, ctx: RequestContext, role: Any) -> None:
        seen.append(request.timeout_ms)
        if request.timeout_ms == 2:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)

    world = World()
    table = ApiTable().add_handler(PRODUCE, handle, None)
    server = RequestServer(world, "PLAINTEXT", table)
    world.listen(HERE, server.accept)
    channels = Channels(world, "test")
    got: list[Any] = []
    channels.send(HERE, ProduceRequest(acks=0, timeout_ms=1), got.append)
    world.run()
    assert got == [None] and seen == [1]
    assert channels.versions_of(HERE) == {0: (0, 13), 18: (0, 5)}
    channels.send(HERE, ProduceRequest(acks=0, timeout_ms=2), got.append)
    world.run()
    assert not server.connections  # all that a client without acknowledgements can get
    assert ProduceResponse().responses == ()


def test_an_older_broker_is_asked_again_in_a_version_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api_versions, "ENTRY", api_versions.ENTRY._replace(max_version=2))
    world, server, channels = setup()
    got: list[Any] = []
    channels.send(HERE, FindCoordinatorRequest(coordinator_keys=["k"]), got.append)
    world.run()
    assert got[0].error_code == 0
    assert server.requests == 3  # ApiVersions twice
    assert channels.versions_of(HERE) == {10: (0, 6), 18: (0, 2)}


def test_an_idle_connection_ends() -> None:
    world, server, channels = setup(limits=ServerLimits(idle_max_ms=1000))
    got: list[Any] = []
    channels.send(HERE, ask("k"), got.append, version=3)
    world.run(900)
    assert len(server.connections) == 1
    world.run(2500)
    assert not server.connections


def test_garbage_ends_the_connection_with_one_line() -> None:
    for garbage in (
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02\x00\x03",
        b"\x00\x00\x00\x0a\x00\x0a\x00\x03\x00\x00\x00\x01\xff\xfe",
        b"\x00\x00\x00\x0a\x7f\x0a\x00\x03\x00\x00\x00\x01\xff\xff",
        b"\x00\x00\x00\x0a\x00\x0a\x00\x63\x00\x00\x00\x01\xff\xff",
        b"\x00\x00\x00\x10\x00\x0a\x00\x03\x00\x00\x00\x01\xff\xff\x00\xff\xff\xff\xff\x0f",
    ):
        world, server, _ = setup()
        receiver = server.accept()
        stream = Stream(world, Endpoint("peer", 1))
        stream.receiver = receiver
        receiver.on_connected(stream)
        buffer = receiver.get_buffer()
        buffer[: len(garbage)] = garbage
        receiver.buffer_updated(len(garbage))
        world.run()
        assert len(world.lines) == 1, garbage
        assert world.lines[0][1].startswith("connection.")
        assert not server.connections


def test_an_envelope_carries_request_principal_and_answer() -> None:
    inner_contexts: list[RequestContext] = []
    parked = Parked()

    def handle(request: DescribeClusterRequest, ctx: RequestContext, role: Any) -> Any:
        inner_contexts.append(ctx)
        if role == "standby":
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return parked

    ctx = RequestContext(
        api_key=60, api_version=1, correlation_id=7, client_id="c", principal="User:alice",
        peer=Endpoint("10.0.0.1", 5),
    )  # fmt: skip
    faults: list[BaseException] = []
    envelope = wrap(DescribeClusterRequest(include_cluster_authorized_operations=True), ctx)
    table = ApiTable().add_handler(CLUSTER, handle, "active")
    outer = open_envelope(table, envelope, ctx, lambda c, e: faults.append(e))
    assert isinstance(outer, Parked)
    answers: list[Any] = []
    outer.attach(answers.append)
    parked.complete(DescribeClusterResponse(cluster_id="X"))
    inner = unwrap(answers[0], ctx)
    assert isinstance(inner, DescribeClusterResponse) and inner.cluster_id == "X"
    assert inner_contexts[0].principal == "User:alice"
    assert envelope.client_host_address == bytes([10, 0, 0, 1])
    assert principal_of(envelope.request_principal) == ("User:alice", Proof.OWN)
    table = ApiTable().add_handler(CLUSTER, handle, "standby")
    refused = open_envelope(table, envelope, ctx, lambda c, e: faults.append(e))
    assert not isinstance(refused, Parked)
    assert refused.error_code == ErrorCode.NOT_CONTROLLER
    assert faults == []


def test_a_callback_that_raises_at_the_end_of_a_connection_keeps_none_waiting() -> None:
    world, server, channels = setup(lambda request, ctx, role: Parked())
    got: list[Any] = []

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of the program")

    channels.watch(HERE, on_closed=fail)
    channels.watch(HERE, on_closed=lambda: got.append("closed"))
    channels.send(HERE, ask("first"), fail, version=3)
    channels.send(HERE, ask("second"), got.append, version=3)
    world.run()
    server.close()
    with pytest.raises(RuntimeError):
        world.run()
    assert got[0] == "closed" and got[1].kind == "closed"


def test_a_callback_that_raises_at_its_timeout_leaves_others_their_timeouts() -> None:
    world, _, channels = setup(lambda request, ctx, role: Parked())
    got: list[Any] = []

    def fail(_: object) -> None:
        raise RuntimeError("a fault of the program")

    channels.send(HERE, ask("a"), fail, version=3, timeout_ms=100, purpose="a")
    channels.send(HERE, ask("b"), got.append, version=3, timeout_ms=200, purpose="b")
    with pytest.raises(RuntimeError):
        world.run(150)
    world.run(500)
    assert [error.kind for error in got] == ["timeout"]
