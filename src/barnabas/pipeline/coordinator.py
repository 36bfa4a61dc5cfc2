"""The coordinator of a transactional id or of a group: found, asked, and found again where it has moved.

Owns one conversation: which broker the coordinator is, and patience with what a moved or loading coordinator
heals. What no waiting heals comes back as :class:`KafkaError`.

Source: Kafka's FindCoordinator; KIP-98 (transactions), KIP-54 (groups).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.cluster_client import TRANSIENT, ClusterClient, Patience
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.find_coordinator_response import FindCoordinatorResponse
from barnabas.wire.schema import Message

M = TypeVar("M", bound=Message)

GROUP = 0
TRANSACTION = 1
"""Types of FindCoordinator's keys."""
ONE_KEY = 3
"""The last version of FindCoordinator that asks for one key."""
MOVED_ERRORS = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
AGAIN = (
    TRANSIENT
    | MOVED_ERRORS
    | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
"""A topic that was just made may not be known to its coordinator yet."""


class Coordinator:
    """The coordinator of `key`: a transactional id or a group id, as `key_type` says."""

    def __init__(
        self, cluster: ClusterClient, key: str, key_type: int, *, patience_ms: float | None = None
    ) -> None:
        """`patience_ms`: instead of the cluster's."""
        self.key = key
        self._patience_ms = cluster.patience_ms if patience_ms is None else patience_ms
        self._cluster = cluster
        self._type = key_type
        self._endpoint: Endpoint | None = None

    def __repr__(self) -> str:
        return f"Coordinator({self.key} at {self._endpoint})"

    def call(
        self,
        request: Message,
        response: type[M],
        codes_of: Callable[[M], Iterable[int]],
        *,
        at_most: int | None = None,
    ) -> M:
        """Ask until the coordinator has done it. Raises `KafkaError` for what no waiting heals,
        `ChannelError` of kind unsupported, `ClusterUnreachableError`."""
        cluster = self._cluster
        patience = Patience(self._patience_ms)
        while True:
            try:
                answer = cluster.connection(self._where()).call(
                    request, response, timeout_ms=cluster.request_timeout_ms, at_most=at_most
                )
            except ChannelError as error:
                if error.kind in ("unsupported", "authentication"):
                    raise
                self._endpoint = None
                patience.wait(f"coordinator of {self.key}: {error}")
                continue
            except KafkaError as error:
                if error.code not in AGAIN:
                    raise
                patience.wait(error)
                continue
            wrong = self._worst(codes_of(answer))
            if wrong is None:
                return answer
            if wrong not in AGAIN:
                raise KafkaError(wrong, self.key)
            if wrong in MOVED_ERRORS:
                self._endpoint = None
            patience.wait(f"coordinator of {self.key}: {wrong.name}")

    @staticmethod
    def _worst(codes: Iterable[int]) -> ErrorCode | None:
        """The error to report: one that no waiting heals goes first."""
        found = [code_of(code) for code in codes if code != ErrorCode.NONE]
        lasting = [code for code in found if code not in AGAIN]
        return next(iter([*lasting, *found]), None)

    def _where(self) -> Endpoint:
        if self._endpoint is None:
            request = FindCoordinatorRequest(key=self.key, key_type=self._type)
            answer = self._cluster.call_any(request, FindCoordinatorResponse, at_most=ONE_KEY)
            if answer.error_code != ErrorCode.NONE:
                raise KafkaError(code_of(answer.error_code), f"coordinator of {self.key}")
            self._endpoint = Endpoint(answer.host, answer.port)
        return self._endpoint
