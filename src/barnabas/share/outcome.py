"""The outcome of an operation of the share coordinator, and the one effect that it has."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.operation import Outcome
from barnabas.share.record_codec import ShareRecord


class Prune(NamedTuple):
    """Records before `offset` are redundant: delete them."""

    offset: int


class ShareOutcome(Outcome[ShareRecord, Prune]):
    """The outcome of an operation on one share partition's state."""

    __slots__ = ()
