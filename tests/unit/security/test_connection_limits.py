"""Limits of connections as a gate: in all, of one listener, of an address, and per second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from barnabas.config.definition import ConfigError
from barnabas.config.node import NodeConfig
from barnabas.config.providers import Resolved
from barnabas.limits import CONNECTIONS_OF_NODES
from barnabas.node.listeners import Listeners
from barnabas.ports import ConnectionGate, ConnectionRefusal
from barnabas.security.quotas.connection_limits import (
    ADDRESSES_MAX,
    ConnectionLimits,
    ConnectionQuotas,
    ListenerLimits,
    connection_limits,
)
from barnabas.wire.api_versions import Features
from tests.unit.client.loopback import World

HERE, THERE = "10.0.0.1", "10.0.0.2"


class Clock:
    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> float:
        return self.ms


def quotas(
    configured: ConnectionLimits,
    capacity: int = 1000,
    address_rate: Callable[[str], float | None] = lambda host: None,
) -> tuple[ConnectionQuotas, Clock]:
    clock = Clock()
    return ConnectionQuotas(clock, capacity, configured, address_rate), clock


def reason(found: ConnectionRefusal | None) -> str | None:
    return None if found is None else found.reason


def test_a_number_in_all_holds_over_listeners_and_room_returns() -> None:
    all_of, _ = quotas(ConnectionLimits(all=ListenerLimits(most=2)))
    one, two = all_of.gate("ONE"), all_of.gate("TWO")
    assert [one.on_accepted(HERE), two.on_accepted(HERE)] == [None, None]
    assert reason(one.on_accepted(THERE)) == "max.connections"
    two.on_ended(HERE)
    assert one.on_accepted(THERE) is None


def test_nodes_have_room_that_clients_do_not_take() -> None:
    all_of, _ = quotas(ConnectionLimits(all=ListenerLimits(most=1)))
    clients, nodes = all_of.gate("CLIENTS"), all_of.gate("NODES", for_nodes=True)
    clients.on_accepted(HERE)
    assert reason(clients.on_accepted(HERE)) == "max.connections"
    found = [nodes.on_accepted(THERE) for _ in range(CONNECTIONS_OF_NODES + 1)]
    assert [reason(each) for each in found[-2:]] == [None, "max.connections"]


def test_the_process_has_no_more_than_its_capacity() -> None:
    all_of, _ = quotas(ConnectionLimits(), capacity=1)
    gate = all_of.gate("ONE")
    assert [reason(gate.on_accepted(HERE)) for _ in range(2)] == [None, "max.connections"]


def test_a_listener_may_have_a_number_and_a_rate_of_its_own() -> None:
    own = ListenerLimits(most=2, per_second=1)
    all_of, clock = quotas(ConnectionLimits(of_listener={"ONE": own}))
    one, two = all_of.gate("ONE"), all_of.gate("TWO")
    one.on_accepted(HERE)
    one.on_accepted(HERE)
    assert (one.wait_ms(), two.wait_ms()) == (1000, 0)
    clock.ms = 1000
    assert one.wait_ms() == 0
    assert reason(one.on_accepted(HERE)) == "listener.name.one.max.connections"
    assert all_of.describe()["refused"] == {"listener.name.one.max.connections": 1}


def test_an_address_may_have_a_number_of_its_own() -> None:
    all_of, _ = quotas(ConnectionLimits(per_address=1, own={THERE: 0}))
    gate = all_of.gate("ONE")
    assert reason(gate.on_accepted(HERE)) is None
    assert reason(gate.on_accepted(HERE)) == "max.connections.per.ip"
    assert reason(gate.on_accepted(THERE)) == "max.connections.per.ip.overrides"


def test_the_rate_of_all_listeners_does_not_hold_nodes_up() -> None:
    all_of, clock = quotas(ConnectionLimits(all=ListenerLimits(per_second=2)))
    clients, nodes = all_of.gate("CLIENTS"), all_of.gate("NODES", for_nodes=True)
    for _ in range(4):
        clients.on_accepted(HERE)
    assert (clients.wait_ms(), nodes.wait_ms()) == (1000, 0)
    all_of.limits = ConnectionLimits(all=ListenerLimits(per_second=20))
    assert clients.wait_ms() == pytest.approx(100)
    all_of.limits = ConnectionLimits()
    assert clients.wait_ms() == 0
    assert clock.ms == 0


def test_the_rate_of_an_address_is_exact_over_half_a_minute() -> None:
    all_of, clock = quotas(
        ConnectionLimits(all=ListenerLimits(per_second=1_000_000)), 10_000, {HERE: 10.0}.get
    )
    gate, let_in = all_of.gate("ONE"), {HERE: 0, THERE: 0}
    while clock.ms < 30_000:
        for host in let_in:
            found = gate.on_accepted(host)
            let_in[host] += found is None
            assert found is None or (found.reason, host) == ("connection_creation_rate", HERE)
            assert found is None or 0 < found.wait_ms <= 1000
        clock.ms += 10
    assert let_in[HERE] == pytest.approx(300, rel=0.1)
    assert let_in[THERE] == 3000


@pytest.mark.slow
def test_addresses_that_are_known_are_bounded() -> None:
    all_of, _ = quotas(ConnectionLimits(), 10**9, lambda host: 5.0)
    gate = all_of.gate("ONE")
    for number in range(ADDRESSES_MAX + 10):
        gate.on_accepted(str(number))
        gate.on_ended(str(number))
    assert len(all_of._addresses) <= ADDRESSES_MAX
    assert not all_of.of_host


def test_limits_are_read_from_a_nodes_configuration() -> None:
    texts = {
        "max.connections": "7", "max.connections.per.ip": "3", "max.connection.creation.rate": "9",
        "listener.name.one.max.connections": "4",
        "listener.name.two.max.connection.creation.rate": "5",
    }  # fmt: skip
    found = connection_limits(texts, ["ONE", "TWO"], {HERE: 1})
    assert found.all == ListenerLimits(7, 9)
    assert found.of_listener == {"ONE": ListenerLimits(4), "TWO": ListenerLimits(per_second=5)}
    assert (found.per_address, found.own) == (3, {HERE: 1})
    with pytest.raises(ConfigError):
        connection_limits({"max.connections": "many"}, [], {})


def test_listeners_follow_the_configuration_of_a_running_broker() -> None:
    world = World()
    world.background = AtOnce()
    gates: dict[str, ConnectionGate] = {}
    names: dict[str, list[str]] = {"node.example": [HERE, "::1"], THERE: [THERE]}

    def listen(endpoint: Any, accept: Callable[[], Any], gate: ConnectionGate) -> Any:
        gates[str(endpoint)] = gate

    def addresses_of(host: str) -> list[str]:
        if host not in names:
            raise OSError("no such host")
        return names[host]

    world.listen, world.addresses_of = listen, addresses_of  # type: ignore[assignment, method-assign]
    overrides = "max.connections.per.ip.overrides"
    listeners = Listeners(world, config({overrides: f"{THERE}:0"}), Features)
    listeners.bind()
    gate = gates["h:9092"]
    assert reason(gate.on_accepted(THERE)) == overrides
    listeners.follow(Resolved({overrides: "node.example:1,gone.example:2", "max.connections": "2"}))
    world.pump()
    assert listeners.connections.limits.own == {HERE: 1, "::1": 1}
    assert [reason(gate.on_accepted(THERE)) for _ in range(2)] == [None, None]
    assert reason(gate.on_accepted(HERE)) == "max.connections"
    assert any(line[1] == "config.unknown_address" for line in world.lines)
    listeners.follow(Resolved({}))
    world.pump()
    assert listeners.connections.limits.own == {}


class AtOnce:
    """``ports.Background`` without threads."""

    def run(self, queue: str, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        done(job())

    run_brief = run


def config(more: Mapping[str, str]) -> NodeConfig:
    return NodeConfig.from_properties(
        {
            "node.id": "1", "process.roles": "broker", "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "2@h:9093", "listeners": "PLAINTEXT://h:9092",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": "/d",
            **more,
        }
    )  # fmt: skip
