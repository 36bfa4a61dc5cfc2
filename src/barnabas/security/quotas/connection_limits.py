"""How many connections a node takes, in all, on one listener and from one address, and how quickly.

A listener asks its gate before it accepts (`wait_ms`), tells it of each connection (`on_accepted`, which may
refuse it) and of its end. Limits change while connections are open: those that are there stay. Listeners that
only nodes of the cluster come to have room beyond ``max.connections``, and only their own rate holds them up.
A connection that is beyond the rate of its address is not counted against the other rates.

Source: KIP-402, KIP-612; Kafka's ``ConnectionQuotas``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from barnabas import limits
from barnabas.config.broker import BROKER as BROKER_KEYS
from barnabas.ports import ConnectionRefusal
from barnabas.security.quotas.token_bucket import TokenBucket

MOST, RATE = "max.connections", "max.connection.creation.rate"
PER_ADDRESS, OVERRIDES = "max.connections.per.ip", "max.connections.per.ip.overrides"
OF_ADDRESS = "connection_creation_rate"
UNBOUNDED = 0x7FFFFFFF
BURST_S = 1.0
ADDRESS_WAIT_MS_MAX = 1000.0
"""The longest wait after which a connection beyond the rate of its address is closed."""
ADDRESSES_MAX = 20_000
"""Addresses whose rate is known. Of more, the idle are forgotten, and some of the oldest."""


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """The limits of one listener, or of all together."""

    most: int = UNBOUNDED
    per_second: int = UNBOUNDED


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """A node's configuration of its connections. `own` are addresses that have a number of their own."""

    all: ListenerLimits = ListenerLimits()
    of_listener: Mapping[str, ListenerLimits] = field(default_factory=dict)
    per_address: int = UNBOUNDED
    own: Mapping[str, int] = field(default_factory=dict)


def connection_limits(
    texts: Mapping[str, str], listeners: Iterable[str], own: Mapping[str, int]
) -> ConnectionLimits:
    """The limits in a node's `texts`. Raises ``ConfigError``."""

    def number(key: str, prefix: str = "") -> int:
        text = texts.get(prefix + key)
        return UNBOUNDED if text is None else cast(int, BROKER_KEYS.parse(key, text))

    def of(prefix: str) -> ListenerLimits:
        return ListenerLimits(number(MOST, prefix), number(RATE, prefix))

    return ConnectionLimits(
        of(""),
        {name: of(f"listener.name.{name.lower()}.") for name in listeners},
        number(PER_ADDRESS),
        dict(own),
    )


class ConnectionQuotas:
    """The connections of one node. `capacity` is what its process can have, whatever is configured."""

    def __init__(
        self,
        now_ms: Callable[[], float],
        capacity: int = limits.CONNECTIONS_MAX,
        configured: ConnectionLimits = ConnectionLimits(),
        address_rate: Callable[[str], float | None] = lambda host: None,
    ) -> None:
        """`address_rate`: how many connections an address may make in a second (a client quota)."""
        self.now_ms = now_ms
        self.capacity = capacity
        self.limits = configured
        self.of_host: Counter[str] = Counter()
        self.of_listener: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        """The refusals by the key of the limit."""
        self._address_rate = address_rate
        self._addresses: dict[str, TokenBucket] = {}
        self._rates: dict[str | None, TokenBucket] = {}
        """The rates by listener; that of all together is under None."""

    def gate(self, listener: str, *, for_nodes: bool = False) -> ListenerGate:
        """The gate of a listener. `for_nodes`: clients do not come to it."""
        return ListenerGate(self, listener, for_nodes)

    def rate(self, listener: str | None) -> TokenBucket | None:
        """None where any number may come."""
        found = self.limits.all if listener is None else self.limits.of_listener.get(listener)
        if found is None or found.per_second >= UNBOUNDED:
            self._rates.pop(listener, None)
            return None
        limit = float(max(found.per_second, 1))
        bucket = self._rates.get(listener)
        if bucket is None:
            bucket = self._rates[listener] = TokenBucket(limit, BURST_S, self.now_ms())
        elif bucket.limit != limit:
            bucket.change(limit, self.now_ms())
        return bucket

    def of_address(self, host: str) -> TokenBucket | None:
        """None where the address may make any number."""
        limit = self._address_rate(host)
        if limit is None:
            self._addresses.pop(host, None)
            return None
        now_ms = self.now_ms()
        bucket = self._addresses.get(host)
        if bucket is None:
            if len(self._addresses) >= ADDRESSES_MAX:
                self._forget(now_ms)
            bucket = self._addresses[host] = TokenBucket(limit, BURST_S, now_ms)
        elif bucket.limit != limit:
            bucket.change(limit, now_ms)
        return bucket

    def _forget(self, now_ms: float) -> None:
        for host in [host for host, bucket in self._addresses.items() if bucket.is_full(now_ms)]:
            del self._addresses[host]
        while len(self._addresses) > ADDRESSES_MAX * 3 // 4:
            del self._addresses[next(iter(self._addresses))]

    def too_many(self, listener: str, host: str, for_nodes: bool) -> str | None:
        """The key by which another connection is too many, if it is."""
        configured = self.limits
        room = limits.CONNECTIONS_OF_NODES if for_nodes else 0
        if self.of_listener.total() >= min(configured.all.most, self.capacity) + room:
            return MOST
        own = configured.of_listener.get(listener)
        if own is not None and self.of_listener[listener] >= own.most:
            return f"listener.name.{listener.lower()}.{MOST}"
        if host in configured.own:
            return OVERRIDES if self.of_host[host] >= configured.own[host] else None
        return PER_ADDRESS if self.of_host[host] >= configured.per_address else None

    def describe(self) -> dict[str, object]:
        return {
            "connections": self.of_listener.total(),
            "addresses": len(self.of_host),
            "refused": dict(sorted(self.refused.items())),
        }

    def __repr__(self) -> str:
        return f"ConnectionQuotas({self.of_listener.total()} of {len(self.of_host)} addresses)"


class ListenerGate:
    """``ports.ConnectionGate`` of one listener."""

    def __init__(self, quotas: ConnectionQuotas, listener: str, for_nodes: bool) -> None:
        self._quotas = quotas
        self._listener = listener
        self._for_nodes = for_nodes

    def _rates(self) -> list[TokenBucket]:
        asked = (self._listener,) if self._for_nodes else (None, self._listener)
        return [bucket for name in asked if (bucket := self._quotas.rate(name)) is not None]

    def wait_ms(self) -> float:
        """How long until the next connection may be accepted."""
        rates = self._rates()
        if not rates:
            return 0.0
        now_ms = self._quotas.now_ms()
        return max(bucket.wait_ms(now_ms) for bucket in rates)

    def on_accepted(self, host: str) -> ConnectionRefusal | None:
        """Count a connection, or refuse it."""
        quotas = self._quotas
        refusal = self._too_quick(host)
        if refusal is None:
            reason = quotas.too_many(self._listener, host, self._for_nodes)
            refusal = None if reason is None else ConnectionRefusal(reason, 0.0)
        if refusal is not None:
            quotas.refused[refusal.reason] += 1
            return refusal
        quotas.of_host[host] += 1
        quotas.of_listener[self._listener] += 1
        return None

    def _too_quick(self, host: str) -> ConnectionRefusal | None:
        """Charge the rates, unless that of the address is used up."""
        address, rates = self._quotas.of_address(host), self._rates()
        if address is None and not rates:
            return None
        now_ms = self._quotas.now_ms()
        if address is not None:
            wait_ms = address.wait_ms(now_ms)
            if wait_ms > 0:
                return ConnectionRefusal(OF_ADDRESS, min(wait_ms, ADDRESS_WAIT_MS_MAX))
            address.take(1, now_ms)
        for bucket in rates:
            bucket.take(1, now_ms)
        return None

    def on_ended(self, host: str) -> None:
        """A connection that was counted has ended."""
        for counts, key in (
            (self._quotas.of_host, host),
            (self._quotas.of_listener, self._listener),
        ):
            assert counts[key] > 0
            counts[key] -= 1
            if not counts[key]:
                del counts[key]

    def __repr__(self) -> str:
        return f"ListenerGate({self._listener}, {self._quotas!r})"
