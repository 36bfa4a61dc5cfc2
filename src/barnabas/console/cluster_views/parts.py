"""Parts of a page. If a user may not see one part, the others are shown all the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from barnabas.cli.connection.connect import sentence
from barnabas.cli.connection.many_brokers import EXPECTED as EXPECTED
from barnabas.client.network.connection import ChannelError
from barnabas.wire.errors import ErrorCode, KafkaError

T = TypeVar("T")
FORBIDDEN = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)


@dataclass(frozen=True)
class Part(Generic[T]):
    """An answer, or a sentence that says why it is missing."""

    value: T
    problem: str = ""


def part(ask: Callable[[], T], otherwise: T) -> Part[T]:
    """The answer of `ask`; with an error `otherwise` and a sentence about it."""
    try:
        return Part(ask())
    except EXPECTED as error:
        return Part(otherwise, explained(error))


def explained(error: Exception) -> str:
    """The error as a sentence."""
    if isinstance(error, KafkaError):
        if error.code in FORBIDDEN:
            return f"Your user may not see or do this ({error.code.name})."
        return sentence(error)
    if isinstance(error, ChannelError):
        if error.kind == "unsupported":
            return f"This cluster does not serve what that needs ({error.message})."
        return f"The cluster does not answer: {error.message}"
    return str(error)
