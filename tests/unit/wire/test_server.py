"""What a listener says of itself, and what it makes of malformed bytes."""

from __future__ import annotations

from random import Random
from struct import pack
from typing import Any

import pytest

from barnabas import limits
from barnabas.types import Endpoint
from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.api_versions import Features, NodeIdentity
from barnabas.wire.codec import decode, encode_bytes
from barnabas.wire.connection import server_connection
from barnabas.wire.connection.server_connection import READERS, ServerConnection, key_bytes
from barnabas.wire.connection.states import INTAKE_MOVES, STAGE_MOVES, Intake, Stage
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.api_versions_response import ApiVersionsResponse
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from barnabas.wire.request import Api, Parked, RequestContext, Working
from barnabas.wire.server import HOLD_MS_MAX, RequestServer
from tests.unit.client.fake_cluster import FakeCluster
from tests.unit.client.loopback import Stream, World
from tests.unit.wire.random_messages import messages, random_message, versions_of


def open_connection(server: RequestServer) -> tuple[ServerConnection, Stream]:
    stream = Stream(server.ports, Endpoint("peer", 1))  # type: ignore[arg-type]
    connection = server.accept()
    stream.receiver = connection
    connection.on_connected(stream)
    return connection, stream


def feed(connection: ServerConnection, data: bytes) -> None:
    position = 0
    while position < len(data) and connection.is_open:
        buffer = connection.get_buffer()
        taken = min(len(buffer), len(data) - position)
        buffer[:taken] = data[position : position + taken]
        connection.buffer_updated(taken)
        connection.validate()
        position += taken


def frame(key: int, version: int, body: bytes, correlation: int = 7) -> bytes:
    head = pack(">hhih", key, version, correlation, 1) + b"c"
    if key in API_SCHEMAS and version >= API_SCHEMAS[key].first_flexible:
        head += b"\x00"
    return pack(">i", len(head) + len(body)) + head + body


def ask_versions(
    version: int,
    software: str = "test",
    features: Features | None = None,
    meant: tuple[str | None, int] = (None, -1),
    identity: NodeIdentity | None = None,
) -> ApiVersionsResponse:
    world = World()
    table = ApiTable()
    for key in (ApiKey.PRODUCE, ApiKey.FETCH):
        cls = next(c for c in messages() if key == c.API_KEY)
        api = Api(key, cls, lambda request, code, text: None)
        table.add_handler(api, lambda request, ctx, role: None, None)
    server = RequestServer(world, "P", table, features=lambda: features or Features())
    server.identity = identity
    connection, stream = open_connection(server)
    if 0 <= version <= 5:
        request = ApiVersionsRequest(client_software_name=software, client_software_version="1.0")
        request.cluster_id, request.node_id = meant
        if version < 3:
            request = ApiVersionsRequest()
        body = encode_bytes(request, version)
    else:
        body = b"whatever a later version may be"
    feed(connection, frame(ApiKey.API_VERSIONS, version, body))
    (answer,) = stream.unsent
    assert answer[:8] == pack(">ii", len(answer) - 4, 7)
    return decode(ApiVersionsResponse, version if 0 <= version <= 5 else 0, answer[8:])


def test_api_versions_tell_the_table_in_every_version() -> None:
    for version in range(6):
        told = ask_versions(version)
        ranges = {k.api_key: (k.min_version, k.max_version) for k in told.api_keys}
        assert ranges == {0: (0, 13), 1: (4, 18), 18: (0, 5)}


def test_an_unstable_version_is_served_only_where_it_is_asked_for() -> None:
    table = ApiTable()
    cls = next(c for c in messages() if ApiKey.INIT_PRODUCER_ID == c.API_KEY)
    api = Api(ApiKey.INIT_PRODUCER_ID, cls, lambda request, code, text: None)
    table.add_handler(api, lambda request, ctx, role: None, None)
    (entry,) = table
    assert entry.advertised == (0, 5)
    table.serve_unstable(ApiKey.INIT_PRODUCER_ID)
    (entry,) = table
    assert entry.advertised == (0, 6)


def test_an_unknown_version_of_api_versions_gets_the_range() -> None:
    for version in (6, 99, 32767, -1):
        told = ask_versions(version)
        assert told.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(k.api_key, k.min_version, k.max_version) for k in told.api_keys] == [(18, 0, 5)]


def test_software_names_are_checked_when_they_arrive() -> None:
    assert ask_versions(3, "confluent-kafka-python.2").error_code == 0
    for name in ("", "-x", "x y", "x-", "ä"):
        assert ask_versions(3, name).error_code == ErrorCode.INVALID_REQUEST


def test_a_client_that_means_another_cluster_or_node_must_bootstrap_again() -> None:
    here = NodeIdentity("c", 1)
    for meant in ((None, -1), ("c", 1)):
        assert ask_versions(5, meant=meant, identity=here).error_code == 0
    for meant in (("d", 1), ("c", 2)):
        code = ask_versions(5, meant=meant, identity=here).error_code
        assert code == ErrorCode.REBOOTSTRAP_REQUIRED
        assert ask_versions(5, meant=meant).error_code == 0  # controllers do not check
        assert ask_versions(4, meant=meant, identity=here).error_code == 0


def test_an_id_of_the_cluster_comes_with_one_of_the_node() -> None:
    for meant in ((None, 1), ("c", -1)):
        code = ask_versions(5, meant=meant).error_code
        assert code == ErrorCode.INVALID_REQUEST


def test_features_stand_from_version_3_and_zero_from_4() -> None:
    ranges = {"metadata.version": (7, 30), "transaction.version": (0, 2)}
    features = Features(ranges, {"transaction.version": 2}, epoch=9)
    assert ask_versions(2, features=features).supported_features == ()
    for version, lowest in ((3, [7]), (4, [7, 0])):
        told = ask_versions(version, features=features)
        assert [f.min_version for f in told.supported_features] == lowest
        assert [(f.max_version_level) for f in told.finalized_features] == [2]
        assert told.finalized_features_epoch == 9


class Waiting:
    """A server of Fetch whose fetches wait until a test completes them."""

    def __init__(self, size: int = 0) -> None:
        self.world, self.fetches = World(), list[Parked]()
        self.server = RequestServer(self.world, "P", ApiTable())
        api = Api(ApiKey.FETCH, FetchRequest, lambda request, code, text: None, waits=True)
        self.server.table.add_handler(api, self._park, None)
        self.answer = FetchResponse(
            responses=[
                FetchableTopicResponse(partitions=[PartitionData(records=memoryview(bytes(size)))])
            ]
        )
        self.fetch = frame(ApiKey.FETCH, 12, encode_bytes(FetchRequest(), 12))

    def _park(self, request: FetchRequest, ctx: RequestContext, role: None) -> Parked:
        self.fetches.append(Parked())
        return self.fetches[-1]


def test_an_answer_behind_a_fetch_that_waits_for_records_waits_with_it() -> None:
    """Else `fetch.min.bytes` and `fetch.max.wait.ms` would not hold for a client that pipelines."""
    waiting = Waiting()
    connection, stream = open_connection(waiting.server)
    feed(connection, waiting.fetch + frame(ApiKey.API_VERSIONS, 0, b""))
    assert not waiting.fetches[0].done
    assert not stream.unsent
    waiting.fetches[0].complete(FetchResponse())
    assert b"".join(stream.unsent).count(pack(">i", 7)) == 2, (
        "both answers, with the correlation id"
    )
    assert connection.in_flight == 0


def test_answers_that_wait_for_an_earlier_one_count_as_unread() -> None:
    waiting = Waiting()
    connection, _ = open_connection(waiting.server)
    feed(connection, waiting.fetch + frame(ApiKey.API_VERSIONS, 0, b""))
    assert waiting.server.unread.kept_bytes > 0
    waiting.fetches[0].complete(FetchResponse())
    assert waiting.server.unread.kept_bytes == 0
    feed(connection, waiting.fetch + frame(ApiKey.API_VERSIONS, 0, b""))
    connection.on_closed(None)
    assert waiting.server.unread.kept_bytes == 0


def test_a_connection_with_unread_answers_is_not_served_when_all_keep_too_much() -> None:
    waiting = Waiting(size=5000)
    stuck, stuck_stream = open_connection(waiting.server)
    stuck_stream.blocked = True
    feed(stuck, waiting.fetch + waiting.fetch)
    waiting.world.unsent_bytes = limits.UNSENT_BYTES_TOTAL + 1
    waiting.fetches[0].complete(waiting.answer)
    assert stuck_stream.unsent_bytes > 0
    assert len(waiting.fetches) == 1
    reader, _ = open_connection(waiting.server)
    feed(reader, waiting.fetch)
    assert len(waiting.fetches) == 2, "another connection is served"
    waiting.world.unsent_bytes = 0
    waiting.world.run(waiting.world.now + 20)
    assert len(waiting.fetches) == 3


def test_a_fetch_waits_for_the_one_before_it_on_its_connection() -> None:
    """Sixty fetches sent at once would otherwise be read into memory together."""
    world, waiting = World(), list[Parked]()

    def park(request: FetchRequest, ctx: RequestContext, role: None) -> Parked:
        waiting.append(Parked())
        return waiting[-1]

    api = Api(ApiKey.FETCH, FetchRequest, lambda request, code, text: None, waits=True)
    server = RequestServer(world, "P", ApiTable().add_handler(api, park, None))
    connection, stream = open_connection(server)
    fetch = frame(ApiKey.FETCH, 12, encode_bytes(FetchRequest(), 12))
    versions = frame(ApiKey.API_VERSIONS, 0, b"")
    feed(connection, fetch + versions + fetch + fetch)
    for served in (1, 2, 3):
        assert (len(waiting), connection.in_flight) == (served, 2 if served == 1 else 1)
        waiting[-1].complete(FetchResponse())
    assert connection.in_flight == 0
    assert len(stream.unsent) >= 3


def test_the_key_that_waits_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each frame: a client may send thousands behind one fetch."""
    encoded = list[ApiKey]()

    def note(key: ApiKey) -> bytes:
        encoded.append(key)
        return key_bytes(key)

    monkeypatch.setattr(server_connection, "key_bytes", note)
    waiting = Waiting()
    connection, _ = open_connection(waiting.server)
    feed(connection, waiting.fetch + 5 * frame(ApiKey.API_VERSIONS, 0, b"") + waiting.fetch)
    assert encoded == [ApiKey.FETCH]
    waiting.fetches[0].complete(FetchResponse())
    assert len(waiting.fetches) == 2


class Worker:
    """A listener whose requests are worked on until the test lets them go."""

    def __init__(self) -> None:
        self.work: list[Working] = []
        api = Api(ApiKey.FETCH, FetchRequest, refusal, waits=True)
        table = ApiTable().add_handler(api, self.handle, None)
        self.world = World()
        self.server = RequestServer(self.world, "P", table)
        self.connection, self.stream = open_connection(self.server)

    def handle(self, request: FetchRequest, ctx: RequestContext, role: None) -> Working:
        self.work.append(Working())
        return self.work[-1]

    def ask(self, count: int = 1) -> None:
        feed(self.connection, frame(ApiKey.FETCH, 12, encode_bytes(FetchRequest(), 12)) * count)


def refusal(request: FetchRequest, code: int, text: str) -> FetchResponse:
    return FetchResponse(error_code=code)


def test_nothing_is_served_while_a_request_is_worked_on() -> None:
    worker = Worker()
    worker.ask(3)
    feed(worker.connection, frame(ApiKey.API_VERSIONS, 0, b""))
    assert len(worker.work) == 1
    worker.work[0].complete(FetchResponse())
    assert len(worker.work) == 1, "it is answered, and not at its end"
    worker.work[0].release()
    assert len(worker.work) == 2
    worker.work[1].release()
    assert len(worker.work) == 2, "a fetch waits for the fetch before it"
    worker.work[1].complete(FetchResponse())
    worker.work[2].complete(FetchResponse())
    assert not worker.connection.in_flight
    worker.work[2].release()
    assert worker.server.requests == 4
    assert worker.stream.reading


def test_work_that_fails_is_answered_with_its_error() -> None:
    worker = Worker()
    worker.ask(2)
    worker.work[0].fail(KafkaError(ErrorCode.INVALID_REQUEST, "no"))
    worker.work[1].fail(RuntimeError("a fault"))
    codes = [decode(FetchResponse, 12, part[9:]).error_code for part in worker.stream.unsent]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR]
    assert [event for _, event, _ in worker.world.lines] == ["request.failed"]


def test_work_that_fails_before_it_is_awaited_is_answered_all_the_same() -> None:
    worker = Worker()

    def failed(request: FetchRequest, ctx: RequestContext, role: None) -> Working:
        work = Working()
        work.fail(KafkaError(ErrorCode.INVALID_REQUEST, "no"))
        return work

    table = ApiTable().add_handler(
        Api(ApiKey.FETCH, FetchRequest, refusal, waits=True), failed, None
    )
    worker.server.table = table
    for served in (1, 2):
        worker.ask()
        assert len(worker.stream.unsent) == served
    assert not worker.connection.in_flight


def test_a_connection_that_closes_while_its_request_is_served_gets_no_answer() -> None:
    worker = Worker()
    worker.ask(2)
    worker.connection.on_closed(None)
    worker.work[0].complete(FetchResponse())
    worker.work[0].fail(RuntimeError("a fault"))
    worker.work[0].release()
    assert len(worker.work) == 1
    assert not worker.stream.unsent
    assert not worker.world.lines


@pytest.mark.slow
def test_no_bytes_bring_a_listener_down() -> None:
    """Whole requests, damaged ones, noise: answered or the connection ends; nothing is raised."""
    rng = Random(11)
    cluster = FakeCluster(nodes=1)
    server = cluster.servers[1]
    answered = ended = 0
    for cls in messages():
        if not cls.__name__.endswith("Request"):
            continue
        for version in versions_of(cls):
            connection, stream = open_connection(server)
            message: Any = random_message(cls, version, rng)
            data = bytearray(frame(cls.API_KEY, version, encode_bytes(message, version)))
            for _ in range(rng.choice((0, 1, 3))):
                data[rng.randrange(4, len(data))] = rng.randrange(256)
            feed(connection, bytes(data))
            answered += bool(stream.unsent)
            ended += not connection.is_open
    assert answered > 20 and ended > 100


@pytest.mark.slow
def test_noise_ends_the_connection() -> None:
    rng = Random(12)
    cluster = FakeCluster(nodes=1)
    for _ in range(200):
        connection, _ = open_connection(cluster.servers[1])
        feed(connection, rng.randbytes(rng.randrange(1, 300)))
        while connection.is_open:
            feed(connection, bytes([0xFF]) * 5000)
    assert {event for _, event, _ in cluster.world.lines} <= {
        "connection.malformed", "connection.unknown_api", "connection.unknown_version",
    }  # fmt: skip


def test_a_connection_makes_only_moves_of_its_tables() -> None:
    connection, _ = open_connection(Worker().server)
    assert (connection.stage, connection.intake) == (Stage.IDENTIFIED, Intake.READING)
    with pytest.raises(AssertionError, match="may not become authenticated"):
        connection.on_authenticated()
    connection.end("connection.idle")
    assert connection.stage.value == "ending"
    feed(connection, frame(ApiKey.FETCH, 12, encode_bytes(FetchRequest(), 12)))
    connection.on_closed(None)
    assert connection.stage.value == "ended"
    connection.validate()


def test_a_fetch_that_fails_lets_no_request_overtake_one_that_holds() -> None:
    """The release of a request ends the wait for that request only."""
    work: list[Working] = []

    def handle(request: FetchRequest, ctx: RequestContext, role: None) -> Working:
        work.append(Working(holds=len(work) > 0))
        return work[-1]

    api = Api(ApiKey.FETCH, FetchRequest, refusal)
    server = RequestServer(World(), "P", ApiTable().add_handler(api, handle, None))
    connection, _ = open_connection(server)
    feed(connection, frame(ApiKey.FETCH, 12, encode_bytes(FetchRequest(), 12)) * 3)
    assert len(work) == 2
    work[0].fail(KafkaError(ErrorCode.INVALID_REQUEST, "no"))
    assert len(work) == 2
    work[1].release()
    assert len(work) == 3


def test_states_of_a_connection_have_moves_and_a_reader() -> None:
    assert set(READERS) == set(STAGE_MOVES) == set(Stage)
    assert set(INTAKE_MOVES) == set(Intake)


def test_connections_are_held_for_a_second_and_then_refused() -> None:
    """A broker that was killed and starts again is not registered before its former session has ended, which
    may take seconds. What it led then is led by others."""
    world = World()
    server = RequestServer(world, "P", ApiTable())
    server.hold()
    held, stream = open_connection(server)
    world.run(HOLD_MS_MAX - 1)
    assert held.is_open and held.intake is Intake.PAUSED
    world.run(HOLD_MS_MAX + 1)
    assert stream.ended
    _, stream = open_connection(server)
    assert stream.ended
    world.run(HOLD_MS_MAX + 2)
    assert not server.connections
    server.serve()
    served, _ = open_connection(server)
    assert served.is_open and served.intake is Intake.READING
    server.validate()


def test_connections_that_were_held_briefly_are_served() -> None:
    world = World()
    server = RequestServer(world, "P", ApiTable())
    server.hold()
    held, _ = open_connection(server)
    world.run(HOLD_MS_MAX - 1)
    server.serve()
    world.run(HOLD_MS_MAX + 1)
    assert held.is_open and held.intake is Intake.READING
