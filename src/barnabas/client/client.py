"""One client of a cluster: channels, metadata, and how to ask whom. Sans-IO.

`Client` knows three ways to ask: one broker by id, any broker, and the coordinator of a group or
transaction; each retries what may succeed later until a deadline. Producer, consumer, fetcher and
admin are built on it, and so are the pipelines. Results of coroutines come through
:mod:`barnabas.client.network.tasks`.

Source: Kafka's FindCoordinator; KIP-98 (transactions), KIP-54 (groups).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from barnabas.client.network import cluster_metadata, legacy_requests
from barnabas.client.network.backoff import BACKOFF_MS, RetryBackoff
from barnabas.client.network.channels import ChannelError, Channels
from barnabas.client.network.cluster_metadata import ClusterMetadata
from barnabas.client.network.connection import NO_BOUNDS
from barnabas.client.network.legacy_requests import Newest
from barnabas.client.network.tasks import OnLost, TaskOutcome, Tasks
from barnabas.ports import ClientPorts
from barnabas.security.client_security import OPEN, ClientSecurity
from barnabas.types import Endpoint
from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.find_coordinator_response import FindCoordinatorResponse
from barnabas.wire.schema import Message

T = TypeVar("T")

GROUP, TRANSACTION = 0, 1
"""Kinds of coordinator."""
API_TIMEOUT_MS = 60_000.0
"""default.api.timeout.ms"""
ATTEMPT_TIMEOUT_MS = 30_000.0
SHARE_MS_MIN = 1_000.0
"""The least share of a request that asks in shares, while so much is left."""
FINAL = ("unsupported", "authentication")
"""Kinds of failure that asking again does not change."""


class Trying:
    """A request that the client keeps retrying: what to show a person who waits for it."""

    __slots__ = ("asked", "deadline_ms", "failure")

    def __init__(self, deadline_ms: float) -> None:
        self.deadline_ms = deadline_ms
        """When it gives up."""
        self.asked = ""
        """The last question, and the node that it went to."""
        self.failure: ChannelError | KafkaError | None = None
        """Why the attempt before this one was in vain."""


class Client:
    """The shared part of everything that talks to one cluster."""

    def __init__(
        self,
        ports: ClientPorts,
        bootstrap: Sequence[Endpoint],
        client_id: str = "barnabas",
        *,
        newest: Newest = NO_BOUNDS,
        security: ClientSecurity = OPEN,
        by_purpose: bool = True,
        on_lost: OnLost | None = None,
    ) -> None:
        """`newest` binds versions, by API key, as other libraries are bound. `by_purpose`: see `Channels`.
        `on_lost` gets failures that no task awaits (None: they are logged)."""
        self.ports = ports
        self.now_ms = ports.clock.now_ms
        self.client_id = client_id
        self.tasks = Tasks(ports, on_lost)
        self.newest = newest
        self.channels = Channels(
            ports, client_id, newest=newest, security=security, by_purpose=by_purpose
        )
        self.cluster = ClusterMetadata(ports, self.channels, bootstrap)
        self.fetching: set[str] = set()
        """Purposes of the connections on which consumers fetch: a broker answers one fetch of a connection
        at a time, so that each consumer has its own."""
        self.member_ids = ports.rng("group-member-ids")
        """The source of the ids that members of consumer groups make themselves."""
        self.trying: Trying | None = None
        """While something is asked until it succeeds."""
        self._coordinators: dict[tuple[int, str], int] = {}

    def __repr__(self) -> str:
        return f"Client({self.client_id} brokers={sorted(self.cluster.brokers)})"

    def close(self) -> None:
        """Cancel what is under way and end all connections."""
        self.tasks.close()
        self.channels.close()

    async def send(
        self,
        endpoint: Endpoint,
        request: Message,
        *,
        timeout_ms: float = ATTEMPT_TIMEOUT_MS,
        purpose: str = "",
        version: int | None = None,
        at_most: int | None = None,
    ) -> Any:
        """Ask once. Raises `ChannelError`."""
        return await self._asked(endpoint, request, timeout_ms, purpose, version, at_most)

    def _asked(
        self,
        endpoint: Endpoint,
        request: Message,
        timeout_ms: float,
        purpose: str,
        version: int | None = None,
        at_most: int | None = None,
    ) -> TaskOutcome[Any]:
        """The answer to come. (No coroutine: each fetch and produce request would be one within another.)"""
        outcome: TaskOutcome[Any] = TaskOutcome()
        self.channels.send(
            endpoint,
            request,
            outcome.complete,
            timeout_ms=timeout_ms,
            purpose=purpose,
            version=version,
            at_most=at_most,
        )
        return outcome

    async def ask_node(
        self,
        node: int,
        request: Message,
        *,
        timeout_ms: float = ATTEMPT_TIMEOUT_MS,
        purpose: str = "",
        at_most: int | None = None,
    ) -> Any:
        """Ask the broker `node` once, in no version above `at_most`. Raises `ChannelError`, or `KafkaError`
        where it is not known."""
        endpoint = self.cluster.brokers.get(node)
        if endpoint is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node} is not known")
        return await self._asked(endpoint, request, timeout_ms, purpose, None, at_most)

    async def ask_any(
        self,
        request: Callable[[], Message],
        check: Callable[[Any], None] = lambda response: None,
        *,
        timeout_ms: float = API_TIMEOUT_MS,
        attempt_timeout_ms: float = ATTEMPT_TIMEOUT_MS,
        at_most: int | None = None,
        in_shares: bool = False,
    ) -> Any:
        """Ask brokers in turn, in no version above `at_most`. `request` makes a fresh one per attempt;
        `check` raises the response's `KafkaError`, and a retriable one is tried again until `timeout_ms`
        has passed. With `in_shares` a silent broker takes no more than its share of the time that is left."""
        deadline_ms = self.now_ms() + timeout_ms

        async def attempt() -> Any:
            candidates, message = self.cluster.candidates(), request()
            endpoint = candidates[0]
            if self.trying is not None:
                self.trying.asked = f"{API_SCHEMAS[message.API_KEY].name} of {endpoint}"
            left_ms = max(deadline_ms - self.now_ms(), BACKOFF_MS)
            if in_shares:
                left_ms = max(left_ms / len(candidates), min(SHARE_MS_MIN, left_ms))
            try:
                response = await self.send(
                    endpoint,
                    message,
                    timeout_ms=min(attempt_timeout_ms, left_ms),
                    at_most=at_most,
                )
                check(response)
            except (ChannelError, KafkaError):
                self.cluster.avoid(endpoint)
                raise
            return response

        return await self.retry(attempt, timeout_ms=timeout_ms)

    async def retry(
        self, attempt: Callable[[], Awaitable[T]], *, timeout_ms: float = API_TIMEOUT_MS
    ) -> T:
        """`attempt` until it brings a result, an error that stays, or the deadline."""
        outer, trying = self.trying, Trying(self.now_ms() + timeout_ms)
        self.trying = outer or trying
        try:
            return await self._retry(attempt, trying)
        finally:
            trying.failure = None  # its traceback leads back here
            if outer is None:
                self.trying = None

    async def _retry(self, attempt: Callable[[], Awaitable[T]], trying: Trying) -> T:
        backoff = RetryBackoff()
        while True:
            try:
                return await attempt()
            except (ChannelError, KafkaError) as error:
                trying.failure = error
                if not may_pass(error) or self.now_ms() + backoff.next_ms > trying.deadline_ms:
                    raise
            await self.tasks.sleep(backoff.take())

    # -- coordinators ----------------------------------------------------------------------------

    async def coordinator(self, kind: int, key: str) -> Endpoint:
        """Who coordinates `key` (asked once, until `forget_coordinator`). Raises `KafkaError`."""
        node = self._coordinators.get((kind, key))
        endpoint = None if node is None else self.cluster.brokers.get(node)
        if endpoint is not None:
            return endpoint

        response = await self._find_coordinator(self.cluster.candidates()[0], kind, key)
        for found in legacy_requests.coordinators_of(response, key):
            if found.key == key:
                raise_for(found.error_code, found.error_message)
                self._coordinators[kind, key] = found.node_id
                self.cluster.brokers[found.node_id] = Endpoint(found.host, found.port)
                return Endpoint(found.host, found.port)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no broker named one for {key}")

    async def _find_coordinator(
        self, endpoint: Endpoint, kind: int, key: str
    ) -> FindCoordinatorResponse:
        """Ask one broker; in the form for one key where it serves no other."""
        newest = self.newest
        while True:
            try:
                response: FindCoordinatorResponse = await self.send(
                    endpoint,
                    legacy_requests.find_coordinator(newest, kind, key),
                    timeout_ms=cluster_metadata.ATTEMPT_TIMEOUT_MS,
                    purpose=cluster_metadata.PURPOSE,
                    at_most=newest.get(ApiKey.FIND_COORDINATOR),
                )
            except ChannelError as error:
                if error.kind != "unsupported" or newest is legacy_requests.ONE_KEY:
                    raise
                newest = legacy_requests.ONE_KEY
            else:
                return response

    def coordinator_node(self, key: str, kind: int = TRANSACTION) -> int | None:
        """The broker that was asked about `key` last as its coordinator."""
        return self._coordinators.get((kind, key))

    def forget_coordinator(self, kind: int, key: str) -> None:
        """The coordinator is gone or has moved: the next lookup asks another broker."""
        self._coordinators.pop((kind, key), None)
        self.cluster.avoid(self.cluster.candidates()[0])

    async def ask_coordinator(
        self,
        kind: int,
        key: str,
        request: Callable[[], Message],
        check: Callable[[Any], None],
        *,
        timeout_ms: float = API_TIMEOUT_MS,
        attempt_timeout_ms: float = ATTEMPT_TIMEOUT_MS,
        purpose: str = "coordinator",
        at_most: int | None = None,
    ) -> Any:
        """Ask the coordinator of `key` as `ask_any` asks, in no version above `at_most`; look for it once
        more where it moved or died."""

        async def attempt() -> Any:
            try:
                endpoint = await self.coordinator(kind, key)
            except (ChannelError, KafkaError):
                self.cluster.avoid(self.cluster.candidates()[0])
                raise
            try:
                response = await self.send(
                    endpoint,
                    request(),
                    timeout_ms=attempt_timeout_ms,
                    purpose=purpose,
                    at_most=at_most,
                )
                check(response)
            except ChannelError:
                self.forget_coordinator(kind, key)
                raise
            except KafkaError as error:
                if error.code in COORDINATOR_MOVED:
                    self.forget_coordinator(kind, key)
                raise
            return response

        return await self.retry(attempt, timeout_ms=timeout_ms)


COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


def may_pass(error: Exception) -> bool:
    """Whether asking again may bring another answer."""
    if isinstance(error, KafkaError):
        return error.retriable
    return isinstance(error, ChannelError) and error.kind not in FINAL


def raise_for(code: int, message: str | None = None) -> None:
    """Raise `KafkaError` where `code` is one."""
    if code:
        raise KafkaError(code_of(code), message or "")


def raise_worst(codes: Iterable[int], what: str) -> None:
    """Raise an error that is not retriable if there is one; otherwise one that is."""
    errors = [
        KafkaError(code_of(code), what)
        for code in codes
        if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)
    ]
    if errors:
        raise min(errors, key=lambda error: error.retriable)
