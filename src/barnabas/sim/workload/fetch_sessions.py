"""A consumer's half of a fetch session, as Apache Kafka's clients have it (KIP-227), and what a broker may
answer to it.

A full request names every partition and begins a session; the following requests name the partitions that are
new or whose position moved, and those that the client no longer wants. A full response names every partition
of its request; an incremental one names no partition outside of the session. A client receives an error only
where it errs in the epoch, or continues with names a session that began with ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.replication.sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, next_epoch
from barnabas.sim.history import Violation
from barnabas.types import TopicPartition, Uuid, by_topic
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from barnabas.wire.messages.fetch_response import FetchResponse

IDS_SINCE = 13
EPOCHS_SINCE = 9
"""From this version on a fetch says in which leader it believes."""


class AskedPartition(NamedTuple):
    """The question about one partition."""

    topic_id: Uuid
    offset: int
    leader_epoch: int
    max_bytes: int


class ReaderSession:
    """The knowledge that one broker has of one reader."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.known: dict[TopicPartition, AskedPartition] = {}

    def __repr__(self) -> str:
        return f"ReaderSession({self.id}@{self.epoch} v{self.version} of {sorted(self.known)})"

    @property
    def is_full(self) -> bool:
        return self.epoch == INITIAL_EPOCH

    def begin_again(self) -> None:
        """With a full request; what the broker still has of this session ends with it."""
        self.epoch = INITIAL_EPOCH

    def request(self, wanted: Mapping[TopicPartition, AskedPartition]) -> FetchRequest:
        """The next one, for just these partitions."""
        known, forgotten = self.known, list[tuple[TopicPartition, Uuid]]()
        if self.is_full:
            known.clear()
        for tp, former in list(known.items()):
            now = wanted.get(tp)
            by_id = self.version >= IDS_SINCE
            if now is None or (by_id and now.topic_id != former.topic_id):
                del known[tp]
                forgotten.append((tp, former.topic_id))
        named = {tp: want for tp, want in wanted.items() if known.get(tp) != want}
        known.update(named)
        topics = by_topic(
            (
                (tp.topic, want.topic_id),
                FetchPartition(
                    partition=tp.partition,
                    current_leader_epoch=want.leader_epoch,
                    fetch_offset=want.offset,
                    partition_max_bytes=want.max_bytes,
                ),
            )
            for tp, want in named.items()
        )
        return FetchRequest(
            session_id=self.id,
            session_epoch=self.epoch,
            topics=[
                FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)
                for (topic, topic_id), partitions in topics.items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic=tp.topic, topic_id=topic_id, partitions=[tp.partition])
                for tp, topic_id in forgotten
            ],
        )

    def end(self) -> FetchRequest:
        """The request that says that there will be no more."""
        request = FetchRequest(session_id=self.id, session_epoch=FINAL_EPOCH)
        self.id, self.epoch = NO_SESSION, INITIAL_EPOCH
        return request

    def name_of(self, topic: str, topic_id: Uuid) -> str:
        if self.version < IDS_SINCE:
            return topic
        found = [tp.topic for tp, want in self.known.items() if want.topic_id == topic_id]
        return found[0] if found else f"with id {topic_id.hex()}"

    def on_response(self, who: str, response: FetchResponse) -> bool:
        """Whether it counts. Raises :class:`Violation` where a broker may not answer so."""
        code = response.error_code
        if code:
            if code in (
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
            ):
                raise Violation(f"{who}: {self} was refused with error {code}, without any reason")
            if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.id = NO_SESSION
            self.begin_again()
            return False
        reported = [
            TopicPartition(self.name_of(t.topic, t.topic_id), p.partition_index)
            for t in response.responses
            for p in t.partitions
        ]
        if len(reported) != len(set(reported)):
            raise Violation(f"{who}: {self} received a partition twice: {reported}")
        if not self.known.keys() >= set(reported):
            raise Violation(f"{who}: {self} received {reported}, which are not all of it")
        # A session that goes while its request waits makes room, and has an answer that says nothing.
        if self.is_full and reported and len(reported) < len(self.known):
            raise Violation(f"{who}: a full answer to {self} has but {reported}")
        if response.session_id == NO_SESSION:
            self.id, self.epoch = NO_SESSION, INITIAL_EPOCH
        elif self.is_full:
            self.id, self.epoch = response.session_id, next_epoch(INITIAL_EPOCH)
        elif response.session_id != self.id:
            raise Violation(f"{who}: {self} was answered as session {response.session_id}")
        else:
            self.epoch = next_epoch(self.epoch)
        return True
