"""Controllers introduce themselves; the first leader completes what it was formatted with."""

from __future__ import annotations

import re
from typing import Any

import pytest

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.metadata.bootstrap_records import bootstrap_records, complete_bootstrap
from barnabas.metadata.features import (
    CONTROLLER_REGISTRATION_SINCE,
    CONTROLLERS_LEAVE_SINCE,
    METADATA_VERSION,
)
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.controller_registration_request import ControllerRegistrationRequest
from barnabas.wire.messages.controller_registration_response import ControllerRegistrationResponse
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from barnabas.wire.messages.unregister_controller_request import UnregisterControllerRequest
from barnabas.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.controller.harness import World, uuid


class Sent:
    def __init__(self) -> None:
        self.requests: list[tuple[Endpoint, Any, Any]] = []

    def send(self, target: Endpoint, request: Any, on_done: Any, **_: Any) -> None:
        self.requests.append((target, request, on_done))


def another_controller(
    bootstrap: list[Any] | None = None,
) -> tuple[Sent, World, QuorumController]:
    """One that has just heard of the leader, and what it has sent."""
    sent = Sent()
    world = World(sender=sent, bootstrap=bootstrap)
    standby = world.new_controller()
    standby.node_id = 101
    world.quorum.leader_endpoint = Endpoint("c", 1)
    standby.on_leader_change(100, 1)
    return sent, world, standby


def test_the_active_controller_writes_its_own_registration_once() -> None:
    world = World()
    known = world.image.controllers[100]
    assert known.incarnation == world.controller.registrar.incarnation
    assert known.listeners["CONTROLLER"].endpoint == Endpoint("localhost", 9093)
    assert known.features["metadata.version"].highest == 33
    before = world.quorum.log_end_offset
    world.controller.on_leader_change(-1, 2)
    world.controller.on_leader_change(100, 3)
    world.settle()
    assert world.quorum.log_end_offset == before


def test_the_active_controller_registers_once_the_level_has_registrations() -> None:
    world = World(bootstrap=bootstrap_records(metadata_version=CONTROLLER_REGISTRATION_SINCE - 1))
    assert not world.image.controllers
    raised = FeatureUpdateKey(
        feature=METADATA_VERSION, max_version_level=CONTROLLER_REGISTRATION_SINCE, upgrade_type=1
    )
    for dry in (True, False):
        assert not world.image.controllers
        answer = world.ask(UpdateFeaturesRequest(feature_updates=[raised], validate_only=dry))
        assert not answer.error_code
    assert world.image.controllers[100].listeners


def raised_to(level: int) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=level, upgrade_type=1)
    return UpdateFeaturesRequest(feature_updates=[update])


def test_another_controller_asks_as_soon_as_the_level_knows_of_registrations() -> None:
    """It had asked in vain for long, and would ask again in half a minute."""
    bootstrap = bootstrap_records(metadata_version=CONTROLLER_REGISTRATION_SINCE - 2)
    sent, world, standby = another_controller(bootstrap=bootstrap)
    refused = ControllerRegistrationResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    for _ in range(10):
        sent.requests.pop()[2](refused)
        world.advance(30_000)
    sent.requests.pop()[2](refused)
    assert not world.ask(raised_to(CONTROLLER_REGISTRATION_SINCE - 1)).error_code
    assert not sent.requests
    assert not world.ask(raised_to(CONTROLLER_REGISTRATION_SINCE)).error_code
    assert len(sent.requests) == 1
    assert not world.ask(sent.requests[0][1]).error_code
    assert standby.registrar.done
    world.advance(60_000)
    assert len(sent.requests) == 1


def test_no_level_moves_while_a_voter_has_not_said_what_it_supports() -> None:
    """As in Kafka, where the settings name the voters."""
    voters = "100@localhost:9093,101@localhost:9094"
    before = CONTROLLER_REGISTRATION_SINCE - 1
    bootstrap = bootstrap_records(metadata_version=before)
    world = World({"controller.quorum.voters": voters}, bootstrap=bootstrap)
    assert not world.ask(raised_to(CONTROLLER_REGISTRATION_SINCE)).error_code
    answer = world.ask(raised_to(CONTROLLER_REGISTRATION_SINCE + 1))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Controller 101 has not registered" in answer.error_message
    request = world.controller.registrar.request()
    request.controller_id, request.incarnation_id = 101, uuid(101)
    assert not world.ask(request).error_code
    assert not world.ask(raised_to(CONTROLLER_REGISTRATION_SINCE + 1)).error_code


def test_another_controller_asks_until_it_is_registered() -> None:
    sent, world, standby = another_controller()
    target, request, done = sent.requests.pop()
    assert target == Endpoint("c", 1) and isinstance(request, ControllerRegistrationRequest)
    standby.on_leader_change(102, 2)
    assert not sent.requests, "one question at a time"
    done(ControllerRegistrationResponse(error_code=41))
    world.advance(1001)
    assert len(sent.requests) == 1
    sent.requests.pop()[2](ControllerRegistrationResponse())
    world.ask(request)
    standby.on_commit(world.quorum.batches)
    assert standby.registrar.done
    standby.on_leader_change(100, 3)
    assert not sent.requests


def test_a_controller_that_is_gone_is_unregistered_and_binds_no_level() -> None:
    before = CONTROLLERS_LEAVE_SINCE - 1
    world = World(bootstrap=bootstrap_records(metadata_version=before))
    old = world.controller.registrar.request()
    old.controller_id, old.incarnation_id = 101, uuid(101)
    for feature in old.features:
        if feature.name == METADATA_VERSION:
            feature.max_supported_version = CONTROLLERS_LEAVE_SINCE
    assert not world.ask(old).error_code
    leave = UnregisterControllerRequest(controller_id=101)
    assert ErrorCode(world.ask(leave).error_code) is ErrorCode.UNSUPPORTED_VERSION
    assert not world.ask(raised_to(CONTROLLERS_LEAVE_SINCE)).error_code
    for wrong, code in ((100, "INVALID_REQUEST"), (102, "CONTROLLER_ID_NOT_REGISTERED")):
        answer = world.ask(UnregisterControllerRequest(controller_id=wrong))
        assert ErrorCode(answer.error_code).name == code
    assert 101 in world.image.controllers
    assert not world.ask(leave).error_code
    assert 101 not in world.image.controllers
    assert ErrorCode(world.ask(leave).error_code) is ErrorCode.CONTROLLER_ID_NOT_REGISTERED


def test_a_controller_that_was_taken_for_gone_registers_again() -> None:
    sent, world, standby = another_controller()
    _, request, done = sent.requests.pop()
    done(world.ask(request))
    standby.on_commit(world.quorum.batches)
    assert standby.registrar.done
    seen = len(world.quorum.batches)
    assert not world.ask(UnregisterControllerRequest(controller_id=101)).error_code
    standby.on_commit(world.quorum.batches[seen:])
    world.advance(1)
    assert [type(request) for _, request, _ in sent.requests] == [ControllerRegistrationRequest]


def test_a_new_leader_is_asked_at_once_what_another_one_refused() -> None:
    sent, world, standby = another_controller()
    refused = ControllerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER)
    for _ in range(10):
        sent.requests.pop()[2](refused)
        world.advance(30_000)
    sent.requests.pop()[2](refused)
    world.quorum.leader_endpoint = Endpoint("d", 1)
    standby.on_leader_change(102, 2)
    assert [target for target, _, _ in sent.requests] == [Endpoint("d", 1)]
    sent.requests.pop()[2](refused)
    world.advance(300)
    assert len(sent.requests) == 1, "and it is asked as often as the first one was"


def test_a_controller_without_a_known_leader_registers_when_it_has_one() -> None:
    sent, world, _ = another_controller()
    failed = sent.requests.pop()[2]
    world.quorum.leader_endpoint = None
    failed(ConnectionError("it is paused"))
    world.advance(2_000)
    assert not sent.requests
    world.quorum.leader_endpoint = Endpoint("c", 1)
    world.advance(1_000)
    assert len(sent.requests) == 1


def test_a_directory_formatted_by_apache_kafka_gets_what_elr_needs() -> None:
    levels_only = [r for r in bootstrap_records() if not isinstance(r, ConfigRecord)]
    completed = complete_bootstrap(levels_only, 2)
    added = completed[len(levels_only) :]
    assert [(r.name, r.value) for r in added if isinstance(r, ConfigRecord)] == [
        ("min.insync.replicas", "2")
    ]
    assert complete_bootstrap(completed, 3) == completed
    assert complete_bootstrap([], 1) == bootstrap_records()
    old = bootstrap_records(metadata_version=14)
    assert complete_bootstrap(old, 2) == old


def two_of_one_id() -> tuple[World, Sent, QuorumController, QuorumController]:
    """A controller that is registered, and a second process with its id that has read the log."""
    sent, world, elder = another_controller()
    elder.registrar.incarnation = sent.requests[0][1].incarnation_id = uuid(501)
    deliver(world, sent)
    newcomer = world.new_controller()
    newcomer.node_id = 101
    newcomer.registrar.incarnation = uuid(502)
    newcomer.on_commit(world.quorum.batches[: world.quorum.committed])
    newcomer.on_leader_change(100, 1)
    return world, sent, elder, newcomer


def deliver(world: World, sent: Sent) -> None:
    """Every request under way, and those that follow from them."""
    world.settle()
    while sent.requests:
        _, request, on_done = sent.requests.pop(0)
        on_done(world.ask(request))
        world.settle()


@pytest.mark.slow
def test_the_second_controller_with_one_id_ends_and_says_who_holds_it() -> None:
    world, sent, _, _ = two_of_one_id()
    with pytest.raises(AssertionError) as halted:
        deliver(world, sent)
    assert re.match(
        r"another process has the controller id 101: the controller at CONTROLLER://localhost:9093,"
        r" registered since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.",
        str(halted.value),
    )
    assert world.image.controllers[101].incarnation == uuid(501)


def test_a_controller_that_was_started_again_is_left_alone() -> None:
    world, sent, elder, newcomer = two_of_one_id()
    world.quorum.listeners.remove(elder)
    deliver(world, sent)
    assert newcomer.registrar.done


def test_a_controller_with_the_leaders_id_ends_once_that_one_answers() -> None:
    sent = Sent()
    voters = {"controller.quorum.voters": "100@localhost:9093,101@c:1"}
    world = World(properties=voters, sender=sent)
    doubled = world.new_controller()
    world.advance(9_000)
    assert not sent.requests
    holder = DescribeClusterBroker(broker_id=100, host="d", port=2)
    led = DescribeClusterResponse(controller_id=100, error_message=None, brokers=[holder])
    unknown = DescribeClusterResponse(controller_id=-1, error_message=None)
    for answer in (led, unknown, led, led):
        world.advance(5_000)
        at, request, on_done = sent.requests.pop()
        assert (at, request.endpoint_type) == (Endpoint("c", 1), 2) and not sent.requests
        on_done(answer)
    at, request, on_done = sent.requests.pop()
    assert (at, request.endpoint_type) == (Endpoint("d", 2), 2)
    on_done(unknown)  # it was this process itself
    with pytest.raises(
        AssertionError, match="has the controller id 100: the controller at d:2 leads"
    ):
        on_done(led)
    doubled.on_leader_change(101, 2)
    sent.requests.clear()
    world.advance(20_000)
    assert all(not isinstance(r, DescribeClusterRequest) for _, r, _ in sent.requests)
