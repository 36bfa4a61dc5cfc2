"""All fetchers of one broker, and the fetcher of each partition.

Partitions of one leader are spread over ``num.replica.fetchers`` fetchers. A fetcher without
partitions is closed. Behaviour: Kafka's AbstractFetcherManager.

A leader keeps a fetch that finds nothing new for half a second, and a partition added meanwhile
would wait that long for its first one: a new topic, or a partition whose leader just died, would
acknowledge nothing. So the partition begins on an *express* fetcher beside the busy regular one,
which takes it over with its next answer. After a broker's death the metadata come in many waves,
more than there are express fetchers. So each request of an express fetcher waits for
`EXPRESS_WAIT_MS` at most, and then the fetcher takes the next wave.

Source: Kafka's ``ReplicaFetcherManager``.
"""

from __future__ import annotations

from barnabas.broker.follower.fetch_plan import Key
from barnabas.broker.follower.fetcher import Fetcher, FetcherContext
from barnabas.broker.partitions.partition import Partition
from barnabas.wire.errors import KafkaError

EXPRESS_MAX = 4
"""Express fetchers per regular fetcher: the waves of new partitions that begin at once."""
EXPRESS_WAIT_MS = 20
"""The longest wait of an express fetcher's request."""


class FetcherPool:
    """All fetchers of one broker."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._express: dict[tuple[int, int], list[Fetcher]] = {}
        self._fetcher_by_key: dict[Key, Fetcher] = {}
        self._dirty: dict[Fetcher, None] = {}
        self.count = max(context.settings.fetchers, 1)
        """Fetchers per leader; `resize` changes it."""
        self._resized: set[tuple[int, int]] = set()

    def resize(self, count: int) -> None:
        """Spread partitions over `count` fetchers per leader: new partitions at once, the others as
        soon as their fetcher has no request under way."""
        if count != self.count:
            self.count = count
            self._resized = set(self._fetchers)

    def _number(self, key: Key) -> int:
        return (key[0][-1] * 31 + key[1]) % self.count

    def follow(self, partition: Partition) -> None:
        """Fetch `partition` from its present leader (another broker). `maybe_fetch` sends."""
        self.stop(partition)
        at = (partition.leader_id, self._number((partition.topic_id, partition.index)))
        fetcher = self._choose(at)
        try:
            fetcher.add(partition)
        except KafkaError:
            return  # its directory has failed
        self._fetcher_by_key[partition.topic_id, partition.index] = fetcher
        self._dirty[fetcher] = None

    def _choose(self, at: tuple[int, int]) -> Fetcher:
        """The fetcher of a new partition: the regular one, unless its request is under way."""
        leader, number = at
        main = self._fetchers.get(at)
        if main is None:
            main = Fetcher(self._context, leader, number, on_answer=lambda: self._take_over(at))
            self._fetchers[at] = main
        if not main.is_in_flight:
            return main
        express = self._express.setdefault(at, [])
        for fetcher in express:
            if not fetcher.is_in_flight:
                return fetcher
        if len(express) == EXPRESS_MAX:
            return min(express, key=lambda fetcher: len(fetcher.followed))
        fetcher = Fetcher(
            self._context,
            leader,
            f"{number}-express-{len(express)}",
            wait_ms_max=lambda: self._express_wait_ms(main),
        )
        express.append(fetcher)
        return fetcher

    def _express_wait_ms(self, main: Fetcher) -> int:
        """A short wait if the regular fetcher will take over; None if the express fetcher may fetch
        alone for long."""
        wait_ms = self._context.settings.fetch_wait_ms_max
        return min(wait_ms, EXPRESS_WAIT_MS) if main.is_in_flight else wait_ms

    def _take_over(self, at: tuple[int, int]) -> None:
        """The regular fetcher plans its next request: it takes over what its express fetchers
        follow."""
        for express in self._express.get(at, ()):
            if express.followed:
                for key in express.hand_over(self._fetchers[at]):
                    self._fetcher_by_key[key] = self._fetchers[at]
        if at in self._resized:
            self._spread(at)
            # Partitions in an express fetcher's request, and delayed ones, are taken over later.
            if not any(self._misplaced(fetcher, at) for fetcher in self._all(at)):
                self._resized.discard(at)

    def _all(self, at: tuple[int, int]) -> list[Fetcher]:
        return [self._fetchers[at], *self._express.get(at, ())]

    def _misplaced(self, fetcher: Fetcher, at: tuple[int, int]) -> list[Key]:
        return [key for key in fetcher.followed if self._number(key) != at[1]]

    def _spread(self, at: tuple[int, int]) -> None:
        """A fetcher's request is answered: hand over partitions that `resize` gave to other
        fetchers."""
        leader, main = at[0], self._fetchers[at]
        for key in self._misplaced(main, at):
            target = self._choose((leader, self._number(key)))
            for moved in main.hand_over(target, [key]):
                self._fetcher_by_key[moved] = target
                self._dirty[target] = None
        self._context.ports.wakeups.call_soon(self.maybe_fetch)

    def stop(self, partition: Partition) -> None:
        """Stop fetching `partition`."""
        key = (partition.topic_id, partition.index)
        fetcher = self._fetcher_by_key.pop(key, None)
        if fetcher is not None:
            fetcher.remove(key)
            self._dirty[fetcher] = None

    def on_flushed(self, partition: Partition) -> None:
        """A sync of the partition ended: a fetch may have waited for it."""
        fetcher = self._fetcher_by_key.get((partition.topic_id, partition.index))
        if fetcher is not None:
            fetcher.on_flushed((partition.topic_id, partition.index))

    def on_start_moved(self, partition: Partition) -> None:
        """Retention deleted the partition's first records."""
        fetcher = self._fetcher_by_key.get((partition.topic_id, partition.index))
        if fetcher is not None:
            fetcher.on_start_moved((partition.topic_id, partition.index))

    def maybe_fetch(self) -> None:
        """Send the requests that changes since the last call need, and drop fetchers without
        partitions."""
        dirty, self._dirty = self._dirty, {}
        for fetcher in dirty:
            if fetcher.followed:
                fetcher.maybe_fetch()
        for at in [at for at, main in self._fetchers.items() if not main.followed]:
            if not any(fetcher.followed for fetcher in self._express.get(at, ())):
                self._close(at)

    def _close(self, at: tuple[int, int]) -> None:
        self._fetchers.pop(at).close()
        for fetcher in self._express.pop(at, ()):
            fetcher.close()

    def on_broker_changed(self, broker: int) -> None:
        """A broker was registered, fenced or unfenced: retry at once what waited for it."""
        for at, main in list(self._fetchers.items()):
            if at[0] == broker:
                for fetcher in (main, *self._express.get(at, ())):
                    fetcher.retry_now()

    def validate(self) -> None:
        """Raises AssertionError if a partition is not followed by the fetcher that the pool names,
        or if a fetcher is inconsistent."""
        for at in self._fetchers:
            for fetcher in self._all(at):
                fetcher.validate()
                for key in fetcher.followed:
                    named = self._fetcher_by_key.get(key)
                    assert named is fetcher, f"{fetcher} has {key}, which {named} follows"

    def close(self) -> None:
        for at in list(self._fetchers):
            self._close(at)
        self._fetcher_by_key.clear()

    def __len__(self) -> int:
        return len(self._fetchers)
