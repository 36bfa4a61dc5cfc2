"""Asks several brokers, or several questions, at once. The answer to one that fails is its error, so that one
silent broker does not hide the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from barnabas.cli.failure import Failure
from barnabas.client.network.connection import ChannelError
from barnabas.host.client import Connected
from barnabas.wire.errors import KafkaError
from barnabas.wire.schema import Message

K = TypeVar("K")
ANSWER_MS = 5_000.0
"""A broker that says nothing for so long is taken for silent."""
EXPECTED = (KafkaError, ChannelError, Failure, ValueError)
"""Errors that asking a cluster raises."""


def gathered(connected: Connected, asked: Mapping[K, Any]) -> dict[K, Any]:
    """The answers to coroutines by key, as by broker. The value of one that fails is its error."""

    async def safely(coroutine: Any) -> Any:
        try:
            return await coroutine
        except EXPECTED as error:
            return error

    async def ask_all() -> list[Any]:
        tasks = connected.client.tasks
        return list(await tasks.gather([safely(coroutine) for coroutine in asked.values()]))

    return dict(zip(asked, connected.call(ask_all()), strict=True))


def ask_brokers(
    connected: Connected,
    request: Callable[[], Message],
    brokers: Iterable[int] | None = None,
    *,
    timeout_ms: float = ANSWER_MS,
) -> dict[int, Any]:
    """The answers of these brokers, or of all that the metadata name."""
    client = connected.client
    chosen = sorted(client.cluster.brokers if brokers is None else brokers)
    return gathered(
        connected,
        {node: client.ask_node(node, request(), timeout_ms=timeout_ms) for node in chosen},
    )
