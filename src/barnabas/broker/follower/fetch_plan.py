"""Plans a follower's requests: a request names the partitions whose fetch offset the leader's
session does not know. The plan owns the follower's half of a fetch session.

It does not know logs, time or connections. Source: KIP-227.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.config.settings import ReplicationSettings
from barnabas.replication.sessions import ClientSession, WantedPartition
from barnabas.types import Uuid, by_topic
from barnabas.wire.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

Key = tuple[Uuid, int]


class FetchPlan:
    """The requests of one fetcher. `named` has the partitions that the request under way names."""

    def __init__(self, settings: ReplicationSettings, named_max: int) -> None:
        """One request names `named_max` new partitions at most."""
        self.named: frozenset[Any] = frozenset()
        self.wanted: dict[Any, WantedPartition] = {}
        self._settings = settings
        self._named_max = named_max
        self._changed: dict[Key, None] = {}
        self._session = ClientSession()
        self.asked = self._session.asked
        """The last request's fetch position of each partition."""

    def add(self, key: Key, wanted: WantedPartition) -> None:
        self.wanted[key] = wanted
        self._changed[key] = None

    def remove(self, key: Key) -> None:
        if self.wanted.pop(key, None) is not None:
            self._changed[key] = None

    def next_request(self, node_id: int, broker_epoch: int, wait_ms_max: int) -> FetchRequest:
        """A request that names the partitions that moved. If it has no room for all, the leader
        must not let it wait: the next request names the rest."""
        named, forgotten, self._changed = self._session.plan(
            self.wanted, self._changed, self._named_max
        )
        self.named = frozenset(named)
        settings = self._settings
        return FetchRequest(
            replica_state=ReplicaState(replica_id=node_id, replica_epoch=broker_epoch),
            max_wait_ms=0 if self._changed else wait_ms_max,
            min_bytes=settings.fetch_bytes_min,
            max_bytes=settings.fetch_response_bytes_max,
            session_id=self._session.id,
            session_epoch=self._session.epoch,
            topics=_topics(named, settings.fetch_bytes_max),
            forgotten_topics_data=_forgotten(forgotten) if forgotten else [],
        )

    def on_answer(self, session_id: int) -> None:
        """The leader answered without a session error."""
        self._session.on_response(session_id)

    def end_round(self) -> None:
        """The request is over: none is under way."""
        self.named = frozenset()

    def reset(self) -> None:
        """Send a full request next, which ends the present session."""
        self._session.reset()

    def forget(self) -> None:
        """Forget the session: the leader or its session is gone."""
        self._session.forget()


def _topics(named: dict[Any, WantedPartition], bytes_max: int) -> list[FetchTopic]:
    topics = by_topic(
        (
            topic_id,
            FetchPartition(
                partition=index,
                current_leader_epoch=want.leader_epoch,
                fetch_offset=want.fetch_offset,
                last_fetched_epoch=want.last_fetched_epoch,
                log_start_offset=want.log_start_offset,
                partition_max_bytes=bytes_max,
            ),
        )
        for (topic_id, index), want in named.items()
    )
    return [FetchTopic(topic_id=key, partitions=value) for key, value in topics.items()]


def _forgotten(keys: Iterable[Any]) -> list[ForgottenTopic]:
    gone = by_topic(keys)
    return [ForgottenTopic(topic_id=key, partitions=value) for key, value in gone.items()]
