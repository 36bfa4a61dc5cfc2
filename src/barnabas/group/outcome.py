"""The outcome of an operation of the group machine, and the client that asked for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Never

from barnabas.group.record_codec import GroupRecord
from barnabas.operation import Outcome


class Caller(NamedTuple):
    """The client that sent a request."""

    client_id: str = ""
    client_host: str = ""
    """The client's address in Kafka's form: ``/127.0.0.1``."""
    api_version: int = 0
    may_describe: Callable[[str], bool] | None = None
    """Whether this caller may describe the topic of that name; None if there is no authorizer."""


class GroupOutcome(Outcome[GroupRecord, Never]):
    """The outcome of an operation on a group: replies and records, and no other effects."""

    __slots__ = ()
