"""The line to the controller and what hangs on it: retries, registration, heartbeats, ids, ISR."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.controller_client.broker_lifecycle import (
    BrokerIdentity,
    BrokerLifecycle,
    LifecyclePhase,
)
from barnabas.broker.controller_client.controller_channel import AS_BROKER, ControllerChannel
from barnabas.broker.controller_client.forwarding import forward, send_as_broker, timeout_of
from barnabas.broker.controller_client.producer_ids import ProducerIds
from barnabas.client.network.channels import Channels
from barnabas.client.network.connection import ChannelError
from barnabas.controller.handlers.alter_client_quotas import API as ALTER_CLIENT_QUOTAS
from barnabas.controller.handlers.create_topics import API as CREATE_TOPICS
from barnabas.controller.handlers.envelope import API as ENVELOPE
from barnabas.sim.world.process import SimProcess
from barnabas.types import Endpoint, Uuid
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.envelope import open_envelope
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from barnabas.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from barnabas.wire.messages.alter_client_quotas_request import AlterClientQuotasRequest
from barnabas.wire.messages.alter_client_quotas_response import AlterClientQuotasResponse
from barnabas.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.wire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from barnabas.wire.messages.broker_registration_request import BrokerRegistrationRequest
from barnabas.wire.messages.broker_registration_response import BrokerRegistrationResponse
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.create_topics_response import (
    CreatableTopicResult,
    CreateTopicsResponse,
)
from barnabas.wire.messages.envelope_request import EnvelopeRequest
from barnabas.wire.messages.envelope_response import EnvelopeResponse
from barnabas.wire.request import Parked, RequestContext
from barnabas.wire.server import RequestServer
from tests.unit.broker.fakes import Ending, Hand, advance, process
from tests.unit.client.loopback import World

ONE, TWO = Endpoint("one", 1), Endpoint("two", 2)


@pytest.fixture
def ports() -> SimProcess:
    return process()


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def line(ports: SimProcess, hand: Hand) -> ControllerChannel:
    channel = ControllerChannel(ports, hand, 30_000)
    channel.on_controller_change(1, ONE)
    return channel


ASK = AllocateProducerIdsRequest(broker_id=1)


class TestLine:
    def test_a_controller_that_is_not_active_is_asked_no_more(
        self, ports: SimProcess, hand: Hand, line: ControllerChannel
    ) -> None:
        answers: list[Any] = []
        line.send(ASK, answers.append)
        hand.take().answer(AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER))
        line.on_controller_change(2, TWO)
        again = hand.take()
        assert again.target == TWO
        again.answer(AllocateProducerIdsResponse(producer_id_start=5, producer_id_len=1))
        assert [a.producer_id_start for a in answers] == [5]

    def test_a_request_without_a_controller_waits_and_times_out(
        self, ports: SimProcess, hand: Hand
    ) -> None:
        line = ControllerChannel(ports, hand, 30_000)
        answers: list[Any] = []
        line.send(ASK, answers.append, timeout_ms=1000)
        advance(ports, 990)
        assert not answers and not hand.sent
        advance(ports, 100)
        assert isinstance(answers[0], KafkaError)
        assert answers[0].code == ErrorCode.REQUEST_TIMED_OUT

    def test_the_controllers_address_may_be_known_later_than_its_id(
        self, ports: SimProcess, hand: Hand
    ) -> None:
        found: list[ControllerChannel] = []

        def look() -> None:
            found[0].on_controller_change(1, ONE)

        line = ControllerChannel(ports, hand, 30_000, look)
        found.append(line)
        line.send(ASK, lambda answer: None)
        assert not hand.sent
        advance(ports, 60)
        assert hand.take().target == ONE

    def test_a_lost_connection_is_tried_again(
        self, ports: SimProcess, hand: Hand, line: ControllerChannel
    ) -> None:
        answers: list[Any] = []
        line.send(ASK, answers.append)
        hand.refuse()
        assert line.unreachable_since_ms is not None
        advance(ports, 60)
        hand.take().answer(AllocateProducerIdsResponse())
        assert len(answers) == 1
        assert line.unreachable_since_ms is None

    def test_closing_answers_all_that_wait(
        self, ports: SimProcess, hand: Hand, line: ControllerChannel
    ) -> None:
        answers: list[Any] = []
        line.send(ASK, answers.append)
        hand.refuse()
        line.close()
        assert len(answers) == 1

    def test_a_callback_that_raises_at_a_timeout_leaves_no_request_waiting(
        self, ports: SimProcess, hand: Hand
    ) -> None:
        line = ControllerChannel(ports, hand, 30_000)
        answers: list[Any] = []

        def fail(answer: Any) -> None:
            raise RuntimeError("a fault of the program")

        line.send(ASK, fail)
        line.send(ASK, answers.append)
        with pytest.raises(RuntimeError):
            line.close()
        assert len(answers) == 1


class TestForwarding:
    def context(self, version: int) -> RequestContext:
        return RequestContext(
            api_key=19, api_version=version, correlation_id=7, client_id="c", principal="User:eve"
        )

    @pytest.mark.parametrize("version", [2, 5, 7])
    def test_the_answer_comes_back_in_the_clients_version(
        self, hand: Hand, line: ControllerChannel, version: int
    ) -> None:
        ctx = self.context(version)
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t")])
        parked = forward(line, CREATE_TOPICS, request, ctx, 1000)
        sent = hand.take()
        assert isinstance(sent.request, EnvelopeRequest)
        seen: list[RequestContext] = []

        def decide(inner: Any, context: RequestContext, role: None) -> CreateTopicsResponse:
            seen.append(context)
            return CreateTopicsResponse(
                topics=[CreatableTopicResult(name=t.name, error_code=36) for t in inner.topics]
            )

        table = ApiTable().add_handler(CREATE_TOPICS, decide, None)
        envelope = open_envelope(table, sent.request, ctx, lambda c, e: None)
        assert isinstance(envelope, EnvelopeResponse)
        sent.answer(envelope)
        got: list[Any] = []
        parked.attach(got.append)
        assert [(t.name, t.error_code) for t in got[0].topics] == [("t", 36)]
        assert seen[0].principal == "User:eve"

    def test_no_controller_in_time_is_the_apis_own_error(
        self, ports: SimProcess, hand: Hand, line: ControllerChannel
    ) -> None:
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t")])
        parked = forward(line, CREATE_TOPICS, request, self.context(7), 500)
        got: list[Any] = []
        parked.attach(got.append)
        while not got:
            if hand.sent:
                hand.take().answer(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
            advance(ports, 10)
        assert got[0].topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT

    def test_a_code_of_a_later_version_is_an_answer(
        self, hand: Hand, line: ControllerChannel
    ) -> None:
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t")])
        got: list[Any] = []
        forward(line, CREATE_TOPICS, request, self.context(7), 500).attach(got.append)
        hand.take().answer(EnvelopeResponse(error_code=9_999))
        assert got[0].topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    @pytest.mark.parametrize(
        "refusals",
        [
            [ChannelError("unsupported", "no version of ENVELOPE is common")],
            [ChannelError("closed", "by Kafka 3.9"), ChannelError("closed", "and again")],
        ],
    )
    def test_a_controller_without_envelopes_is_left_to_the_client(
        self, ports: SimProcess, hand: Hand, line: ControllerChannel, refusals: list[ChannelError]
    ) -> None:
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t")])
        got: list[Any] = []
        refused = CREATE_TOPICS.error_response(request, ErrorCode.NOT_CONTROLLER, "")
        forward(line, CREATE_TOPICS, request, self.context(7), 500, lambda: refused).attach(
            got.append
        )
        for refusal in refusals:
            assert not got
            hand.take().answer(refusal)
            advance(ports, 60)
        assert got == [refused]

    def test_a_controller_that_dies_is_no_controller_without_envelopes(
        self, ports: SimProcess, hand: Hand, line: ControllerChannel
    ) -> None:
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t")])
        got: list[Any] = []
        forward(line, CREATE_TOPICS, request, self.context(7), 500, lambda: None).attach(got.append)
        hand.take().answer(ChannelError("closed", "it died"))
        while not got:
            advance(ports, 10)
            if hand.sent:
                hand.refuse()
        assert got[0].topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT

    def test_a_controller_without_envelopes_is_asked_in_the_brokers_name(
        self, ports: SimProcess, hand: Hand, line: ControllerChannel
    ) -> None:
        request = AlterClientQuotasRequest()
        got: list[Any] = []

        def instead() -> Parked:
            return send_as_broker(line, ALTER_CLIENT_QUOTAS, request, 500)

        context = RequestContext(
            api_key=49, api_version=1, correlation_id=7, client_id="c", principal="User:eve"
        )
        forward(line, ALTER_CLIENT_QUOTAS, request, context, 500, instead).attach(got.append)
        for _ in range(2):
            hand.take().answer(ChannelError("closed", "by Kafka 3.9"))
            advance(ports, 60)
        sent = hand.take()
        assert sent.request is request
        assert sent.purpose == AS_BROKER
        answer = AlterClientQuotasResponse(throttle_time_ms=7)
        sent.answer(answer)
        assert got == [answer]

    def test_a_request_that_is_cancelled_leaves_the_others_their_answers(self) -> None:
        world, asked = World(), list[Parked]()

        def decide(inner: Any, context: RequestContext, role: None) -> Parked:
            asked.append(Parked())
            return asked[-1]

        def unpack(outer: Any, context: RequestContext, role: None) -> Any:
            return open_envelope(inner, outer, context, lambda c, e: None)

        inner = ApiTable().add_handler(CREATE_TOPICS, decide, None)
        table = ApiTable().add_handler(ENVELOPE, unpack, None)
        world.listen(ONE, RequestServer(world, "CONTROLLER", table).accept)
        line = ControllerChannel(world, Channels(world, "broker"), 30_000)
        line.on_controller_change(1, ONE)
        patient, hasty = list[Any](), list[Any]()
        for got, timeout_ms in ((patient, 10_000.0), (hasty, 100.0)):
            request = CreateTopicsRequest(topics=[CreatableTopic(name="t")])
            forward(line, CREATE_TOPICS, request, self.context(7), timeout_ms).attach(got.append)
        world.run(1000)
        assert hasty[0].topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT and not patient
        for parked in list(asked):
            parked.complete(CreateTopicsResponse(topics=[CreatableTopicResult(name="t")]))
        world.run(2000)
        assert [t.error_code for t in patient[0].topics] == [0] and len(asked) == 2


class TestProducerIds:
    def test_ids_are_never_given_twice_and_blocks_come_ahead(
        self, hand: Hand, line: ControllerChannel
    ) -> None:
        ids = ProducerIds(line, 1, lambda: 9)
        given: list[Any] = []
        ids.allocate(given.append)
        ids.allocate(given.append)
        assert given == []
        hand.take().answer(AllocateProducerIdsResponse(producer_id_start=100, producer_id_len=10))
        assert given == [100, 101]
        for _ in range(7):
            ids.allocate(given.append)
        ahead = hand.take()
        assert ahead.request.broker_epoch == 9
        ahead.answer(AllocateProducerIdsResponse(producer_id_start=500, producer_id_len=10))
        for _ in range(3):
            ids.allocate(given.append)
        assert given == [*range(100, 110), 500, 501]

    @pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH])
    def test_a_fault_of_one_leaves_the_others_their_ids(
        self, hand: Hand, line: ControllerChannel, code: ErrorCode
    ) -> None:
        ids = ProducerIds(line, 1, lambda: 9)
        given: list[Any] = []

        def fail(given: Any) -> None:
            raise RuntimeError("a fault of the program")

        ids.allocate(fail)
        ids.allocate(given.append)
        block = AllocateProducerIdsResponse(
            error_code=code, producer_id_start=100, producer_id_len=10
        )
        with pytest.raises(RuntimeError):
            hand.take().answer(block)
        assert len(given) == 1

    def test_a_client_without_a_producer_id_block_may_ask_again(
        self, hand: Hand, line: ControllerChannel
    ) -> None:
        ids = ProducerIds(line, 1, lambda: 9)
        given: list[Any] = []
        ids.allocate(given.append)
        hand.take().answer(AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
        assert given[0].code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class TestLifecycle:
    @pytest.fixture
    def life(self, ports: SimProcess, line: ControllerChannel) -> BrokerLifecycle:
        self.offset = 0
        identity = BrokerIdentity(
            1, "cluster", Uuid(b"i" * 16), {"PLAINTEXT": (ONE, 0)}, None, [Uuid(b"d" * 16)], 3
        )
        life = BrokerLifecycle(
            ports, line, identity, heartbeat_interval_ms=2000, registration_timeout_ms=60_000,
            metadata_offset=lambda: self.offset,
        )  # fmt: skip
        life.start()
        return life

    def registered(self, hand: Hand) -> None:
        sent = hand.take()
        assert isinstance(sent.request, BrokerRegistrationRequest)
        assert sent.request.previous_broker_epoch == 3
        sent.answer(BrokerRegistrationResponse(broker_epoch=8))

    def running(self, hand: Hand, life: BrokerLifecycle) -> None:
        self.registered(hand)
        hand.take().answer(BrokerHeartbeatResponse(is_fenced=True))
        self.offset = 8
        life.on_metadata(True)
        beat = hand.take()
        assert beat.request.current_metadata_offset == 8
        beat.answer(BrokerHeartbeatResponse(is_fenced=False, is_caught_up=True))
        assert life.phase is LifecyclePhase.RUNNING

    def test_it_is_unfenced_as_soon_as_it_has_caught_up(
        self, hand: Hand, life: BrokerLifecycle
    ) -> None:
        self.running(hand, life)

    def test_heartbeats_follow_each_other_at_the_interval(
        self, ports: SimProcess, hand: Hand, life: BrokerLifecycle
    ) -> None:
        self.running(hand, life)
        advance(ports, 1990)
        assert not hand.sent
        advance(ports, 20)
        beat = hand.take()
        assert isinstance(beat.request, BrokerHeartbeatRequest)
        assert beat.purpose == "heartbeat"
        assert not beat.request.want_shut_down

    def test_a_code_of_a_later_version_is_not_the_end_of_it(
        self, ports: SimProcess, hand: Hand, life: BrokerLifecycle
    ) -> None:
        hand.take().answer(BrokerRegistrationResponse(error_code=9_999))
        advance(ports, 1000)
        self.running(hand, life)
        advance(ports, 2010)
        hand.take().answer(BrokerHeartbeatResponse(error_code=9_999))
        advance(ports, 2010)
        assert isinstance(hand.take().request, BrokerHeartbeatRequest)

    def test_a_broker_that_finds_no_controller_ends_after_the_registration_timeout(
        self, ports: SimProcess, hand: Hand, line: ControllerChannel, life: BrokerLifecycle
    ) -> None:
        ports.owner = ending = Ending()
        ended = ending.reasons
        line.on_controller_change(-1, None)
        hand.take().answer(ChannelError("closed", "it is gone"))
        advance(ports, 58_000)
        assert not ended
        advance(ports, 4_000)
        (reason,) = ended
        assert "initial.broker.registration.timeout.ms: no active controller was found" in reason

    @pytest.mark.parametrize(
        ("code", "why"),
        [
            (ErrorCode.INCONSISTENT_CLUSTER_ID, "is of another cluster than cluster"),
            (ErrorCode.DUPLICATE_BROKER_REGISTRATION, "says DUPLICATE_BROKER_REGISTRATION"),
        ],
    )
    def test_a_broker_that_is_refused_all_the_time_ends_and_says_why(
        self, ports: SimProcess, hand: Hand, life: BrokerLifecycle, code: ErrorCode, why: str
    ) -> None:
        ports.owner = ending = Ending()
        ended = ending.reasons
        while not ended and ports.world.now_ms < 90_000:
            if hand.sent:
                hand.take().answer(BrokerRegistrationResponse(error_code=code))
            advance(ports, 500)
        assert why in ended[0] and 59_000 < ports.world.now_ms < 63_000

    def test_a_registered_broker_waits_for_a_controller_without_end(
        self, ports: SimProcess, hand: Hand, line: ControllerChannel, life: BrokerLifecycle
    ) -> None:
        self.running(hand, life)
        line.on_controller_change(-1, None)
        advance(ports, 300_000)
        assert ports.alive

    def test_a_fault_when_it_is_unfenced_is_not_the_end_of_it(
        self, ports: SimProcess, hand: Hand, life: BrokerLifecycle
    ) -> None:
        def fail() -> None:
            raise RuntimeError("a fault of the program")

        life.on_unfenced = fail
        with pytest.raises(RuntimeError):
            self.running(hand, life)
        advance(ports, 2010)
        assert isinstance(hand.take().request, BrokerHeartbeatRequest)

    def test_a_new_controller_hears_of_it_at_once(
        self, hand: Hand, life: BrokerLifecycle, line: ControllerChannel
    ) -> None:
        self.running(hand, life)
        line.on_controller_change(2, TWO)
        life.on_controller_change()
        assert hand.take().target == TWO

    def test_a_failed_directory_is_reported_at_once(
        self, hand: Hand, life: BrokerLifecycle
    ) -> None:
        self.running(hand, life)
        life.on_directory_offline(Uuid(b"d" * 16))
        assert hand.take().request.offline_log_dirs == [b"d" * 16]

    def test_a_lost_registration_is_made_again(
        self, ports: SimProcess, hand: Hand, life: BrokerLifecycle
    ) -> None:
        self.running(hand, life)
        advance(ports, 2010)
        hand.take().answer(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
        assert life.is_fenced
        advance(ports, 150)
        self.registered(hand)

    def test_directories_are_reported_when_the_first_report_found_no_controller(
        self, ports: SimProcess, hand: Hand, life: BrokerLifecycle, line: ControllerChannel
    ) -> None:
        """Of a broker whose level comes to know of log directories while no controller answers."""
        self.running(hand, life)
        life.register_again()
        line.on_controller_change(-1, None)
        hand.refuse()
        advance(ports, 11_000)
        line.on_controller_change(2, TWO)
        while not isinstance((sent := hand.take()).request, BrokerRegistrationRequest):
            sent.answer(BrokerHeartbeatResponse(is_fenced=False))
            advance(ports, 200)
        sent.answer(BrokerRegistrationResponse(broker_epoch=8))
        assert isinstance(hand.take().request, BrokerHeartbeatRequest)
        assert life.phase is LifecyclePhase.RUNNING

    def test_directories_missing_in_a_registration_follow_its_answer(
        self, hand: Hand, life: BrokerLifecycle
    ) -> None:
        """The metadata may show it before its answer is here."""
        life.register_again()
        self.registered(hand)
        self.registered(hand)
        assert isinstance(hand.take().request, BrokerHeartbeatRequest)

    def test_it_leaves_when_the_controller_says_so(
        self, ports: SimProcess, hand: Hand, life: BrokerLifecycle
    ) -> None:
        self.running(hand, life)
        left: list[bool] = []
        life.begin_shutdown(lambda: left.append(True), controlled=True)
        beat = hand.take()
        assert beat.request.want_shut_down
        beat.answer(BrokerHeartbeatResponse(is_fenced=False))
        advance(ports, 110)
        hand.take().answer(BrokerHeartbeatResponse(is_fenced=True, should_shut_down=True))
        assert left == [True]

    def test_it_leaves_without_a_controller_too(
        self, ports: SimProcess, hand: Hand, life: BrokerLifecycle
    ) -> None:
        self.running(hand, life)
        left: list[bool] = []
        life.begin_shutdown(lambda: left.append(True), controlled=True)
        began = ports.world.now_ms
        while not left:
            if hand.sent:
                hand.refuse()
            advance(ports, 10)
        assert ports.world.now_ms - began < 1000

    def test_it_leaves_a_controller_that_never_says_so(
        self, ports: SimProcess, hand: Hand, life: BrokerLifecycle
    ) -> None:
        self.running(hand, life)
        left: list[bool] = []
        life.begin_shutdown(lambda: left.append(True), controlled=True)
        began = ports.world.now_ms
        while not left:
            if hand.sent:
                hand.take().answer(BrokerHeartbeatResponse(is_fenced=False))
            advance(ports, 10)
        assert 2400 < ports.world.now_ms - began < 2700

    def test_it_leaves_a_controller_that_does_not_answer(
        self, ports: SimProcess, hand: Hand, life: BrokerLifecycle
    ) -> None:
        self.running(hand, life)
        left: list[bool] = []
        life.begin_shutdown(lambda: left.append(True), controlled=True)
        advance(ports, 600)
        assert not left
        advance(ports, 300)
        assert left

    def test_it_tells_at_once_that_it_has_seen_another_one_leave(
        self, hand: Hand, life: BrokerLifecycle
    ) -> None:
        self.running(hand, life)
        self.offset = 12
        life.on_metadata(True)
        assert hand.take().request.current_metadata_offset == 12


def test_requests_that_a_former_controller_has_not_answered_move(
    hand: Hand, line: ControllerChannel
) -> None:
    line.send(ASK, lambda answer: None)
    line.on_controller_change(-1, None)
    assert not hand.disconnected
    line.on_controller_change(2, TWO)
    assert hand.disconnected == [(ONE, "controller")]


@pytest.mark.parametrize(("given", "expected"), [(0, 7_000.0), (-1, 7_000.0), (250, 250.0)])
def test_a_request_without_a_time_has_the_brokers(given: int, expected: float) -> None:
    assert timeout_of(CreateTopicsRequest(timeout_ms=given), 7_000.0) == expected
