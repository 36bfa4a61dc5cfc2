"""What clients may use: which limit holds, how exact it is, and how a connection waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.broker.cooperative_jobs import CooperativeJobs
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.security.quotas.client_meter import ClientMeter
from barnabas.security.quotas.client_quotas import ClientQuotas
from barnabas.security.quotas.mutation_quota import MutationQuota
from barnabas.security.quotas.quota_table import FETCHED, MUTATIONS, PRODUCED, REQUEST_TIME
from barnabas.wire.api_table import ApiKey
from barnabas.wire.codec import decode, encode_bytes
from barnabas.wire.dispatch import ApiTable, encode_or_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.find_coordinator_response import FindCoordinatorResponse
from barnabas.wire.messages.produce_request import ProduceRequest
from barnabas.wire.messages.produce_response import ProduceResponse
from barnabas.wire.request import Api, RequestContext, Working
from barnabas.wire.server import RequestServer
from tests.unit.client.loopback import World
from tests.unit.wire.test_server import feed, frame, open_connection

MB = 1_000_000
ALICE = "User:alice"


def set_quota(image: MetadataImage, entity: dict[str, str | None], key: str, value: float) -> None:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    image.replay(ClientQuotaRecord(entity=parts, key=key, value=value, remove=value == 0))


class Clock:
    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> float:
        return self.ms


def quotas_of(image: MetadataImage, clock: Clock) -> ClientQuotas:
    quotas = ClientQuotas(image, clock)
    quotas.follow()
    return quotas


EIGHT: list[dict[str, str | None]] = [
    {"user": "alice", "client-id": "app"},
    {"user": "alice", "client-id": None},
    {"user": "alice"},
    {"user": None, "client-id": "app"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "app"},
    {"client-id": None},
]


def test_the_most_specific_of_eight_limits_holds() -> None:
    image = MetadataImage()
    for place, entity in reversed(list(enumerate(EIGHT))):
        set_quota(image, entity, PRODUCED, 1000.0 + place)
        share = quotas_of(image, Clock()).table.share(PRODUCED, "alice", "app")
        assert share is not None and share.limit == 1000 + place
    for place, entity in enumerate(EIGHT):
        set_quota(image, entity, PRODUCED, 0)
        share = quotas_of(image, Clock()).table.share(PRODUCED, "alice", "app")
        assert (None if share is None else share.limit) == (None if place == 7 else 1001 + place)


@pytest.mark.parametrize("size", [10_000, 250_000, 1 * MB])
@pytest.mark.parametrize("connections", [1, 3])
def test_bytes_over_30_seconds_are_exact_to_10_percent(size: int, connections: int) -> None:
    image, clock = MetadataImage(), Clock()
    set_quota(image, {"user": "alice"}, PRODUCED, MB)
    quotas = quotas_of(image, clock)
    free_at = [0.0] * connections
    used = 0
    while min(free_at) < 30_000:
        who = free_at.index(min(free_at))
        clock.ms = free_at[who]
        used += size
        free_at[who] += max(quotas.charge(PRODUCED, ALICE, f"client-{who}", size), 1.0)
    assert used == pytest.approx(30 * MB, rel=0.1)


def test_a_changed_limit_holds_from_the_next_request_on() -> None:
    image, clock = MetadataImage(), Clock()
    set_quota(image, {"client-id": None}, PRODUCED, MB)
    quotas = quotas_of(image, clock)
    assert quotas.charge(PRODUCED, ALICE, "app", 3 * MB) == pytest.approx(2000)
    set_quota(image, {"client-id": "app"}, PRODUCED, 4 * MB)
    quotas.follow()
    assert quotas.charge(PRODUCED, ALICE, "app", 0) == pytest.approx(500)
    set_quota(image, {"client-id": "app"}, PRODUCED, 0)
    set_quota(image, {"client-id": None}, PRODUCED, 0)
    quotas.follow()
    assert not quotas.active and quotas.charge(PRODUCED, ALICE, "app", 9 * MB) == 0


def test_clients_of_a_user_share_and_default_clients_do_not() -> None:
    image, clock = MetadataImage(), Clock()
    set_quota(image, {"user": "alice"}, FETCHED, MB)
    set_quota(image, {"user": "bob", "client-id": None}, FETCHED, MB)
    quotas = quotas_of(image, clock)
    for user, waits in (("User:alice", True), ("User:bob", False)):
        quotas.charge(FETCHED, user, "one", 5 * MB)
        assert (quotas.charge(FETCHED, user, "two", 1) > 0) is waits


@pytest.mark.slow
def test_many_client_ids_do_not_grow_what_is_kept_without_bound() -> None:
    image, clock = MetadataImage(), Clock()
    set_quota(image, {"client-id": None}, PRODUCED, MB)
    quotas = quotas_of(image, clock)
    for number in range(50_000):
        quotas.charge(PRODUCED, ALICE, f"c{number}", 10)
    assert 10_000 < len(quotas) <= 20_000


def context(version: int, client_id: str = "app") -> RequestContext:
    return RequestContext(
        api_key=ApiKey.CREATE_TOPICS, api_version=version, client_id=client_id, principal=ALICE
    )


def test_topics_beyond_the_mutation_quota_are_refused_or_told_to_wait() -> None:
    image, clock = MetadataImage(), Clock()
    set_quota(image, {"user": "alice"}, MUTATIONS, 1.0)
    quotas = quotas_of(image, clock)
    old = MutationQuota(quotas, context(5), 6)
    old.admit("a", 12)  # 11 were kept
    assert quotas.mutation_wait_ms(ALICE, "app") == 0, "a decision alone charges nothing"
    old.charge()
    assert old.wait_ms == pytest.approx(1000)
    new = MutationQuota(quotas, context(6), 6)
    for _ in range(2):  # a topic's decision is made again
        with pytest.raises(KafkaError) as refused:
            new.admit("b", 1)
        assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    new.charge()
    assert new.wait_ms == pytest.approx(1000)
    clock.ms += 1000
    later = MutationQuota(quotas, context(6), 6)
    later.admit("b", 5)
    later.admit("b", 5)
    with pytest.raises(KafkaError):
        later.admit("c", 1)  # the first topic of the request counts already
    later.charge()
    later.charge()
    assert quotas.mutation_wait_ms(ALICE, "app") == pytest.approx(5000)


# -- a connection ----------------------------------------------------------------------------------


def metered(image: MetadataImage, world: World) -> RequestServer:
    table = ApiTable()

    def produce(request: Any, ctx: RequestContext, role: Any) -> ProduceResponse:
        return ProduceResponse(responses=[])

    def find(request: Any, ctx: RequestContext, role: Any) -> FindCoordinatorResponse:
        world.now += 30.0
        return FindCoordinatorResponse()

    table.add_handler(Api(ApiKey.PRODUCE, ProduceRequest, lambda *a: None), produce, None)
    api = Api(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, lambda *a: None)
    table.add_handler(api, find, None)
    server = RequestServer(world, "P", table)
    quotas = ClientQuotas(image, world.now_ms)
    quotas.follow()
    server.meter = ClientMeter(quotas)
    return server


def test_a_throttled_connection_is_answered_and_not_read_until_the_wait_ends() -> None:
    image, world = MetadataImage(), World()
    request = ProduceRequest(acks=1, timeout_ms=1, transactional_id="x" * 2000)
    set_quota(image, {"user": "ANONYMOUS"}, PRODUCED, 1000)
    connection, stream = open_connection(metered(image, world))
    feed(connection, frame(0, 9, encode_bytes(request, 9)) * 3)  # pipelined
    (first,) = list(stream.unsent)
    answer = decode(ProduceResponse, 9, first[9:])
    assert 1000 < answer.throttle_time_ms < 1100 and not stream.reading
    world.run(world.now + answer.throttle_time_ms - 10)
    assert len(stream.unsent) == 1
    world.run(world.now + 20)
    assert len(stream.unsent) == 2
    world.run(world.now + 2500)
    assert len(stream.unsent) == 3 and not stream.reading
    world.run(world.now + 5000)
    assert stream.reading


def test_request_time_is_charged_and_makes_its_client_wait() -> None:
    image, world = MetadataImage(), World()
    set_quota(image, {"user": None}, REQUEST_TIME, 1.0)  # 10 ms in each second
    connection, stream = open_connection(metered(image, world))
    body = encode_bytes(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    feed(connection, frame(int(ApiKey.FIND_COORDINATOR), 4, body))
    (first,) = list(stream.unsent)
    assert decode(FindCoordinatorResponse, 4, first[9:]).throttle_time_ms == 1000
    assert not stream.reading


def test_the_time_of_encoding_is_waited_for_with_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image, world = MetadataImage(), World()
    set_quota(image, {"user": None}, REQUEST_TIME, 10.0)  # 100 ms in each second are kept

    def slowly(*given: Any) -> Any:
        world.now += 500.0
        return encode_or_error(*given)

    monkeypatch.setattr("barnabas.wire.connection.server_connection.encode_or_error", slowly)
    connection, stream = open_connection(metered(image, world))
    body = encode_bytes(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    for expected in (
        0,
        1000,
    ):  # a debt of 460 ms takes 4.6 s, a second at a time
        feed(connection, frame(int(ApiKey.FIND_COORDINATOR), 4, body))
        answer = decode(FindCoordinatorResponse, 4, list(stream.unsent)[-1][9:])
        assert answer.throttle_time_ms == expected
    assert not stream.reading


def test_the_time_of_a_request_that_is_handled_over_many_turns_is_charged() -> None:
    image, world = MetadataImage(), World()
    set_quota(image, {"user": None}, REQUEST_TIME, 10.0)  # 100 ms in each second are kept
    server = metered(image, world)
    jobs = CooperativeJobs(world, steps_max=1)

    def find(request: Any, ctx: RequestContext, role: Any) -> Working:
        parked = Working(holds=False)

        def steps() -> Iterator[None]:
            for _ in range(20):
                world.now += 30.0
                yield
            parked.complete(FindCoordinatorResponse())

        jobs.run(steps(), parked.fail, parked)
        return parked

    api = Api(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, lambda *a: None)
    server.table = ApiTable()
    server.table.add_handler(api, find, None)
    connection, stream = open_connection(server)
    body = encode_bytes(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    feed(connection, frame(int(ApiKey.FIND_COORDINATOR), 4, body))
    while not stream.unsent:
        world.run(world.now)
    answer = decode(FindCoordinatorResponse, 4, next(iter(stream.unsent))[9:])
    assert answer.throttle_time_ms == 1000 and not stream.reading


def test_the_wait_behind_the_parts_of_a_request_is_not_charged() -> None:
    """As a write to many partitions waits for its followers."""
    image, world = MetadataImage(), World()
    set_quota(image, {"user": None}, REQUEST_TIME, 10.0)  # 100 ms in each second are kept
    server = metered(image, world)
    jobs = CooperativeJobs(world, steps_max=1)
    waiting: list[Working] = []

    def find(request: Any, ctx: RequestContext, role: Any) -> Working:
        waiting.append(Working(holds=False))
        jobs.run(iter(range(3)), waiting[-1].fail, waiting[-1])
        return waiting[-1]

    api = Api(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, lambda *a: None)
    server.table = ApiTable()
    server.table.add_handler(api, find, None)
    connection, stream = open_connection(server)
    body = encode_bytes(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    feed(connection, frame(int(ApiKey.FIND_COORDINATOR), 4, body))
    while jobs.under_way:
        world.run(world.now)
    world.now += 800.0
    waiting[0].complete(FindCoordinatorResponse())
    answer = decode(FindCoordinatorResponse, 4, next(iter(stream.unsent))[9:])
    assert answer.throttle_time_ms == 0 and stream.reading


def test_the_time_of_reading_a_request_is_charged() -> None:
    image, world = MetadataImage(), World()
    set_quota(image, {"user": None}, REQUEST_TIME, 10.0)
    connection, stream = open_connection(metered(image, world))
    world.read_ms = 500.0  # and 30 for the handler
    body = encode_bytes(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    feed(connection, frame(int(ApiKey.FIND_COORDINATOR), 4, body))
    (first,) = list(stream.unsent)
    assert decode(FindCoordinatorResponse, 4, first[9:]).throttle_time_ms == 1000


def test_a_listener_without_quotas_has_no_meter() -> None:
    server = RequestServer(World(), "P", ApiTable())
    assert server.meter is None
