"""The last append that a replica refused although the producer may send it again.

A producer has several batches on their way. A broker that becomes the leader between two of them has refused
the first, and finds a gap before the second. The second gets the code of that refusal, so that the producer
sends all of them again in their order. A refusal of the sequence would make librdkafka begin a new epoch, and
write again under new sequences what the former leader had replicated (its issue 4953).
"""

from __future__ import annotations

import math

from barnabas.wire.errors import ErrorCode, KafkaError

PIPELINE_MS = 1_000.0
"""How long after a refused batch those may still come that its producer had sent behind it."""


class LastRefusal:
    """The time and the code of the last refusal."""

    __slots__ = ("_at_ms", "_code")

    def __init__(self) -> None:
        self._at_ms = -math.inf
        self._code = ErrorCode.NONE

    def keep(self, error: KafkaError, now_ms: float) -> KafkaError:
        """Remember `error`, with which a batch is refused now. Returns it."""
        self._at_ms, self._code = now_ms, error.code
        return error

    def of_batch_behind(self, error: KafkaError, now_ms: float) -> KafkaError:
        """The refusal of a batch that the log refuses with `error`: the last one, if the batch is out of
        order and may have been sent behind the batch of that one."""
        is_gap = error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if not is_gap or now_ms - self._at_ms > PIPELINE_MS:
            return error
        return KafkaError(
            self._code, f"{error.message}; a batch before it was refused a moment ago"
        )
