"""The outcome of an operation of the share coordinator, and its one kind of effect."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.operation import Outcome
from barnabas.share.record_codec import ShareRecord


class Prune(NamedTuple):
    """Delete the records before `offset`, which are redundant."""

    offset: int


class ShareOutcome(Outcome[ShareRecord, Prune]):
    """The outcome of an operation on one share partition's state."""

    __slots__ = ()
