"""A share consumer's session with one broker: its partitions, and acknowledgements on their way. Sans-IO.

The first request of a session begins it and names all partitions; the next ones name what changed. When the
connection ends the broker ends the session, and what the member held of it is delivered again; so a session
that is over is never continued.

Invariant: one request of a session is under way at most, so that epochs follow one another. Source: KIP-932;
``ShareSessionHandler`` of Apache Kafka's clients 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from barnabas.client.consumers.share_runs import Acknowledge, Offsets
from barnabas.client.offsets import GroupIdentity
from barnabas.types import TopicPartition, Uuid, by_topic
from barnabas.wire.messages import share_acknowledge_request as acknowledging
from barnabas.wire.messages import share_fetch_request as fetching

FIRST_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1
STRICT = 1

Place = tuple[Uuid, int]
"""Topic id and partition."""
Told = dict[Offsets, int]
"""The kind of each offset."""


@dataclass(frozen=True, slots=True)
class ShareFetchSettings:
    """Kafka's consumer configuration where it has it."""

    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 50 * 1024 * 1024
    records_max: int = 500
    """``max.poll.records``: how many records one fetch acquires, or up to the end of their batch."""
    strict: bool = False
    """``share.acquire.mode=record_limit``: never more than `records_max` (KIP-1206)."""
    request_timeout_ms: float = 30_000.0


class Holder(NamedTuple):
    """The delivery of which records are in hand."""

    session: ShareFetchSession
    place: Place
    asked_ms: float
    """When the broker was asked for them: their locks are not older."""


class ShareFetchSession:
    """One session."""

    __slots__ = (
        "_told", "busy", "epoch", "is_over", "names", "node", "places", "retry_at_ms", "sent",
    )  # fmt: skip

    def __init__(self, node: int) -> None:
        self.node = node
        self.epoch = FIRST_EPOCH
        """The epoch of the next request."""
        self.places: dict[Place, None] = {}
        """The partitions that the broker fetches for it."""
        self.names: dict[Place, TopicPartition] = {}
        self.busy = False
        self.is_over = False
        self.retry_at_ms = 0.0
        self.sent: dict[Place, Told] = {}
        """The acknowledgements of the request under way."""
        self._told: dict[Place, Told] = {}

    def __repr__(self) -> str:
        return f"ShareFetchSession(node {self.node}, epoch {self.epoch}, {len(self.places)} partitions)"

    def tell(self, place: Place, told: Told) -> None:
        """Have this sent; the newest word on an offset holds."""
        if told:
            self._told.setdefault(place, {}).update(told)

    @property
    def told(self) -> Mapping[Place, Told]:
        """Acknowledgements that wait to be sent."""
        return self._told

    @property
    def is_settled(self) -> bool:
        """Whether all that was said is answered."""
        return not self._told and not self.sent

    @property
    def renews(self) -> bool:
        """Whether a lock is to be prolonged: such a request fetches nothing."""
        return any(Acknowledge.RENEW in told.values() for told in self._told.values())

    def tell_again(self, place: Place, told: Told) -> None:
        """Have this sent once more, where nothing newer is said."""
        self._told[place] = told | self._told.get(place, {})

    def succeed(self) -> None:
        """The broker took the request."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def take_all(self) -> dict[Place, Told]:
        """All that was said and is not answered: it never will be."""
        lost = self.sent
        for place, told in self._told.items():
            lost.setdefault(place, {}).update(told)
        self.sent, self._told = {}, {}
        return lost

    # Requests

    def fetch_request(
        self, who: GroupIdentity, wanted: Mapping[Place, TopicPartition], terms: ShareFetchSettings
    ) -> fetching.ShareFetchRequest:
        """Acquire of the `wanted` partitions, and send what was said, which is of these."""
        added = {place: None for place in wanted if place not in self.places}
        gone = [place for place in self.places if place not in wanted]
        told = self._send()
        named = dict.fromkeys([*added, *told])
        self.places = dict.fromkeys(wanted)
        self.names.update(wanted)
        return fetching.ShareFetchRequest(
            group_id=who.group_id,
            member_id=who.member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=terms.wait_ms_max,
            min_bytes=terms.bytes_min,
            max_bytes=terms.bytes_max,
            max_records=terms.records_max,
            batch_size=terms.records_max,
            share_acquire_mode=STRICT if terms.strict else 0,
            topics=_topics(
                named, told, fetching.FetchTopic, fetching.FetchPartition,
                fetching.AcknowledgementBatch,
            ),
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic(gone).items()
            ],
        )  # fmt: skip

    def acknowledge_request(
        self, who: GroupIdentity, *, ends: bool = False
    ) -> acknowledging.ShareAcknowledgeRequest:
        """Send what was said; where it `ends` the broker gives what is left to others."""
        renews = self.renews
        told = self._send()
        return acknowledging.ShareAcknowledgeRequest(
            group_id=who.group_id,
            member_id=who.member_id,
            share_session_epoch=FINAL_EPOCH if ends else self.epoch,
            is_renew_ack=renews,
            topics=_topics(
                told, told, acknowledging.AcknowledgeTopic, acknowledging.AcknowledgePartition,
                acknowledging.AcknowledgementBatch,
            ),
        )  # fmt: skip

    def _send(self) -> dict[Place, Told]:
        assert not self.sent, f"a request is under way: {self!r}"
        self.sent, self._told = self._told, {}
        return self.sent


def _topics(
    places: Iterable[Place], told: Mapping[Place, Told], topic: Any, partition: Any, batch: Any
) -> list[Any]:
    parts = by_topic(
        (
            topic_id,
            partition(
                partition_index=index,
                acknowledgement_batches=[
                    batch(first_offset=first, last_offset=last, acknowledge_types=kinds)
                    for first, last, kinds in batches_of(told.get((topic_id, index), {}))
                ],
            ),
        )
        for topic_id, index in places
    )
    return [topic(topic_id=topic_id, partitions=found) for topic_id, found in parts.items()]


def batches_of(told: Told) -> list[tuple[int, int, list[int]]]:
    """Offsets that follow one another, with the kind of each; with one kind where all have the same. A range
    is a batch of its own."""
    batches: list[tuple[int, int, list[int]]] = []
    before, joins = -1, False
    for offsets in sorted(told, key=_first):
        first, last = max(_first(offsets), before + 1), _last(offsets)
        if first > last:
            continue
        single = isinstance(offsets, int)
        if joins and single and before == first - 1:
            begin, _, kinds = batches[-1]
            kinds.append(told[offsets])
            batches[-1] = (begin, last, kinds)
        else:
            batches.append((first, last, [told[offsets]]))
        before, joins = last, single
    return [
        (first, last, kinds[:1] if len(set(kinds)) == 1 else kinds)
        for first, last, kinds in batches
    ]


def _first(offsets: Offsets) -> int:
    return offsets if isinstance(offsets, int) else offsets.start


def _last(offsets: Offsets) -> int:
    return offsets if isinstance(offsets, int) else offsets.stop - 1
