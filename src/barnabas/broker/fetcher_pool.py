"""All fetchers of one broker: which partition is followed by which.

Partitions of one leader are spread over `num.replica.fetchers` fetchers; one that follows nothing any
more is closed. Behaviour: Kafka's AbstractFetcherManager.
"""

from __future__ import annotations

from barnabas.broker.fetcher import Fetcher, FetcherContext, Key
from barnabas.broker.partition import Partition
from barnabas.wire.errors import KafkaError


class FetcherPool:
    """All fetchers of one broker."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._home: dict[Key, Fetcher] = {}
        self._dirty: dict[Fetcher, None] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch `partition` from its present leader (another broker). `pump` sends."""
        self.stop(partition)
        number = (partition.topic_id[-1] * 31 + partition.index) % max(
            self._context.settings.fetchers, 1
        )
        at = (partition.leader_id, number)
        fetcher = self._fetchers.get(at)
        if fetcher is None:
            fetcher = self._fetchers[at] = Fetcher(self._context, *at)
        try:
            fetcher.add(partition)
        except KafkaError:
            return  # its directory failed just now
        self._home[partition.topic_id, partition.index] = fetcher
        self._dirty[fetcher] = None

    def stop(self, partition: Partition) -> None:
        """Fetch `partition` from nobody."""
        key = (partition.topic_id, partition.index)
        fetcher = self._home.pop(key, None)
        if fetcher is not None:
            fetcher.remove(key)
            self._dirty[fetcher] = None

    def pump(self) -> None:
        """Send what the changes since the last call ask for; drop fetchers that follow nothing."""
        dirty, self._dirty = self._dirty, {}
        for fetcher in dirty:
            if fetcher.followed:
                fetcher.pump()
            else:
                fetcher.close()
                self._fetchers = {at: f for at, f in self._fetchers.items() if f is not fetcher}

    def on_broker_changed(self, broker: int) -> None:
        """A broker was registered, fenced or unfenced: what waited for it tries again."""
        for (leader, _), fetcher in self._fetchers.items():
            if leader == broker:
                fetcher.retry_now()

    def close(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._home.clear()

    def __len__(self) -> int:
        return len(self._fetchers)
