"""The use that clients made of their quotas, on one node: it says how long one has to wait.

Follows the image's limits; a changed limit holds from the next request on. Each node counts by itself, as in
Kafka: a limit is per broker. A client that used more than its limit is answered, then waits (KIP-219): the
time is in the answer, and its connection is not read until it has passed.

Source: KIP-13, KIP-124, KIP-599; Kafka's ``ClientQuotaManager``, ``ClientRequestQuotaManager`` and
``ControllerMutationQuotaManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from barnabas.config.broker import BROKER as BROKER_KEYS
from barnabas.metadata.image.image import MetadataImage
from barnabas.security.quotas.quota_table import (
    FETCHED,
    MUTATIONS,
    PRODUCED,
    REQUEST_TIME,
    QuotaTable,
    Share,
)
from barnabas.security.quotas.token_bucket import MS_PER_S, TokenBucket

BUCKETS_MAX = 20_000
"""Clients whose use is known. Of more, the idle are forgotten, and some of the oldest."""
FORGOTTEN_MIN = BUCKETS_MAX // 4
"""So many at least, so that the search for them is rare."""
_LIMITED = (PRODUCED, FETCHED, REQUEST_TIME)
MS_PER_PERCENT = MS_PER_S / 100


class QuotaWindows(NamedTuple):
    """The seconds for which unused quota is kept."""

    bytes_and_time_s: float = 1.0
    """``quota.window.size.seconds``"""
    mutations_s: float = 11.0
    """``controller.quota.window.num`` windows of ``controller.quota.window.size.seconds``"""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> QuotaWindows:
        """The windows of a node's properties. Raises ``ConfigError``."""

        def number(key: str) -> float:
            value = BROKER_KEYS.parse(key, properties.get(key, BROKER_KEYS[key].default))
            return float(cast(int, value))

        windows, size = "controller.quota.window.num", "controller.quota.window.size.seconds"
        return cls(number("quota.window.size.seconds"), number(windows) * number(size))


def user_of(principal: str) -> str:
    """``User:alice`` is the user alice; quotas do not look at the type."""
    return principal.partition(":")[2]


class ClientQuotas:
    """Limits and use of one node's clients. `active` says whether any limit is set."""

    def __init__(
        self,
        image: MetadataImage,
        now_ms: Callable[[], float],
        windows: QuotaWindows = QuotaWindows(),  # noqa: B008 - it does not change
        on_change: Callable[[ClientQuotas], None] = lambda quotas: None,
    ) -> None:
        """`on_change` is called when the limits have changed."""
        self._image = image
        self._now_ms = now_ms
        self._windows = windows
        self._version = -1
        self.table = QuotaTable({})
        self.active = False
        self._on_change = on_change
        self._buckets: dict[tuple[str, str, str], TokenBucket] = {}
        self.waits = 0
        """Answers that made their client wait."""

    def follow(self) -> None:
        """Take the limits of the image over, where they have changed."""
        if self._version == self._image.quota_version:
            return
        self._version = self._image.quota_version
        self.table = QuotaTable(self._image.client_quotas)
        self.active = any(map(self.table.has, _LIMITED))
        self._on_change(self)

    def fetch_bytes_max(self, principal: str, client_id: str | None) -> float | None:
        """How much one fetch may give: what is kept of the quota; None without one."""
        share = self.table.share(FETCHED, user_of(principal), client_id or "")
        return None if share is None else share.limit * self._windows.bytes_and_time_s

    def charge(self, key: str, principal: str, client_id: str | None, amount: float) -> float:
        """Count `amount` (bytes; for `REQUEST_TIME` milliseconds). How long the client has to wait."""
        share = self.table.share(key, user_of(principal), client_id or "")
        if share is None:
            return 0.0
        now_ms = self._now_ms()
        return self._bucket(key, share, now_ms).take(amount, now_ms)

    def connection_rate(self, host: str) -> float | None:
        """How many connections the address `host` may make in a second; None without a limit."""
        return self.table.of_address(host)

    def mutation_wait_ms(self, principal: str, client_id: str | None, more: float = 0.0) -> float:
        """How long the client has to wait before it may change topics, if `more` partitions were charged
        first; 0 if it may do so now."""
        share = self.table.share(MUTATIONS, user_of(principal), client_id or "")
        if share is None:
            return 0.0
        now_ms = self._now_ms()
        return self._bucket(MUTATIONS, share, now_ms).wait_ms(now_ms, more)

    def _bucket(self, key: str, share: Share, now_ms: float) -> TokenBucket:
        limit = share.limit * MS_PER_PERCENT if key == REQUEST_TIME else share.limit
        whose = (key, share.user, share.client_id)
        bucket = self._buckets.get(whose)
        if bucket is None:
            if len(self._buckets) >= BUCKETS_MAX:
                self._forget(now_ms)
            windows = self._windows
            burst_s = windows.mutations_s if key == MUTATIONS else windows.bytes_and_time_s
            bucket = self._buckets[whose] = TokenBucket(limit, burst_s, now_ms)
        elif bucket.limit != limit:
            bucket.change(limit, now_ms)
        return bucket

    def _forget(self, now_ms: float) -> None:
        for whose in [w for w, bucket in self._buckets.items() if bucket.is_full(now_ms)]:
            del self._buckets[whose]
        while len(self._buckets) > BUCKETS_MAX - FORGOTTEN_MIN:
            del self._buckets[next(iter(self._buckets))]

    def __len__(self) -> int:
        """Clients whose use is known."""
        return len(self._buckets)

    def describe(self) -> dict[str, object]:
        return {
            "entities": len(self._image.client_quotas),
            "clients": len(self._buckets),
            "throttled_answers": self.waits,
        }

    def __repr__(self) -> str:
        return f"ClientQuotas(active={self.active}, {len(self._buckets)} clients)"
