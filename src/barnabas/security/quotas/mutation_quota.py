"""The controller mutation quota of one request: partitions that it creates or deletes (KIP-599).

While a client's bucket is in debt, its topics are refused with THROTTLING_QUOTA_EXCEEDED, if its version of
the request knows that error; older versions are served. Both get a throttle time. Deciders only ask
(`admit`), with what the request has asked for before; the bucket is charged once, when the decision is
committed (`charge`). A topic is admitted once, even if its decision is made several times.

Source: Kafka's ``StrictControllerMutationQuota``, ``PermissiveControllerMutationQuota``. Kafka charges
while it decides.
"""

from __future__ import annotations

from math import ceil
from typing import TypeVar

from barnabas.security.quotas.client_quotas import ClientQuotas
from barnabas.security.quotas.quota_table import MUTATIONS
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Parked, RequestContext
from barnabas.wire.schema import Message

M = TypeVar("M", bound=Message)


class MutationQuota:
    """The quota of one request's client."""

    def __init__(self, quotas: ClientQuotas | None, ctx: RequestContext, strict_since: int) -> None:
        """With `quotas` None nothing is counted."""
        if quotas is not None:
            quotas.follow()
        self._quotas = quotas if quotas is not None and quotas.table.has(MUTATIONS) else None
        self._who = (ctx.principal, ctx.client_id)
        self._strict = ctx.api_version >= strict_since
        self._admitted: dict[object, KafkaError | None] = {}
        self._partitions = 0
        """The admitted partitions that the bucket is not charged for yet."""
        self.wait_ms = 0.0

    def admit(self, what: object, partitions: int) -> None:
        """Admit a change of `partitions` of `what` (a topic). Raises THROTTLING_QUOTA_EXCEEDED."""
        if self._quotas is None:
            return
        if what not in self._admitted:
            refusal = self._admitted[what] = self._refusal(self._quotas)
            if refusal is None:
                self._partitions += partitions
        refusal = self._admitted[what]
        if refusal is not None:
            raise refusal

    def _refusal(self, quotas: ClientQuotas) -> KafkaError | None:
        if not self._strict:
            return None
        wait_ms = quotas.mutation_wait_ms(*self._who, self._partitions)
        if wait_ms <= 0:
            return None
        self.wait_ms = max(self.wait_ms, wait_ms)
        text = "The throttling quota has been exceeded."
        return KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)

    def charge(self) -> None:
        """Charge the client's bucket for the admitted partitions: they are decided."""
        if self._quotas is not None:
            partitions, self._partitions = self._partitions, 0
            wait_ms = self._quotas.charge(MUTATIONS, *self._who, partitions)
            if not self._strict:
                self.wait_ms = max(self.wait_ms, wait_ms)

    def with_throttle_time(self, answer: M | Parked) -> M | Parked:
        """The answer, with how long its client has to wait."""

        def set_throttle_time(response: Message) -> Message:
            response.throttle_time_ms = ceil(self.wait_ms)  # type: ignore[attr-defined]
            return response

        if self._quotas is None:
            return answer
        if isinstance(answer, Parked):
            answer.amend(set_throttle_time)  # when it is answered: topics may be decided in slices
        elif self.wait_ms:
            set_throttle_time(answer)
        return answer


UNCOUNTED = MutationQuota(None, RequestContext(api_key=0, api_version=0), 0)
