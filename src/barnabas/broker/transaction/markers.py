"""Sends markers to the partitions of transactions whose end is committed.

The coordinator's broker sends them: one request to a broker at a time, with the markers of all
transactions that wait for partitions which it leads. A marker that fails is sent again, to the
leader at that time, until every partition has its marker or is deleted. Then the coordinator learns
that the transaction is complete. When the coordinator moves, its next shard begins with all
partitions again.

Writing a marker twice is harmless until the transaction is complete. After that it would end the producer's
*next* transaction, where transactions share an epoch (before KIP-890's version 2): nothing is sent for a
partition that has its marker.

A partition counts as deleted when it is missing for `MISSING_MS`: this broker may know of a partition's
creation later than the former coordinator did.

Source: ``TransactionMarkerChannelManager`` and ``TransactionMarkerRequestCompletionHandler`` of
Apache Kafka 4.3. If a leader answers TRANSACTION_COORDINATOR_FENCED, Kafka gives the transaction up
until its coordinator moves; here the marker is sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from barnabas.broker.coordinator.transaction_coordinator import TransactionCoordinators
from barnabas.broker.transaction.peers import Peers
from barnabas.client.network.connection import ChannelError
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.topic import NO_LEADER
from barnabas.ports import Ports, Wakeup, call_all
from barnabas.transaction.outcome import SendMarkers
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.wire.messages.write_txn_markers_response import WriteTxnMarkersResponse
from barnabas.wire.schema import Message

PURPOSE = "transaction-markers"
MARKER_RETRY_MS = 100.0
"""Delay before a marker that failed is sent again."""
MISSING_MS = 1_000.0

_WRITTEN = frozenset(
    {
        ErrorCode.NONE,
        # The partition knows a later epoch of this producer: it has this end, or a later one.
        ErrorCode.INVALID_PRODUCER_EPOCH,
        # Kafka's leaders of partitions in a format that knows no transactions.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


class EndingState(Enum):
    """The state of a transaction whose end is committed."""

    WRITING = "writing markers"
    """At least one partition lacks its marker."""
    COMPLETING = "completing"
    """Every partition has its marker or is deleted; the coordinator writes that the transaction is
    complete."""
    COMPLETION_REFUSED = "completion refused"
    """The coordinator's log refused to write that; the coordinator tries again."""
    COMPLETE = "complete"
    CANCELLED = "cancelled"
    """The coordinator's shard ended, or made another decision."""


ENDING_MOVES: Mapping[EndingState, Mapping[EndingState, str]] = MappingProxyType(
    {
        EndingState.WRITING: {
            EndingState.COMPLETING: "every partition has its marker, or is gone",
            EndingState.CANCELLED: "the coordinator's shard ended, or has other markers",
        },
        EndingState.COMPLETING: {
            EndingState.COMPLETE: "the coordinator has written it",
            EndingState.COMPLETION_REFUSED: "the coordinator's log refused it",
            EndingState.CANCELLED: "the coordinator's shard ended, or has other markers",
        },
        EndingState.COMPLETION_REFUSED: {
            EndingState.COMPLETING: "it is time for another try, or the metadata moved",
            EndingState.CANCELLED: "the coordinator's shard ended, or has other markers",
        },
        EndingState.COMPLETE: {},
        EndingState.CANCELLED: {},
    }
)
OVER = frozenset({EndingState.COMPLETE, EndingState.CANCELLED})
"""States in which an ending is forgotten."""


class _Ending:
    """One transaction whose markers are being written."""

    __slots__ = (
        "coordinator_epoch",
        "markers",
        "missing_since_ms",
        "partition",
        "remaining",
        "state",
    )

    def __init__(self, partition: int, coordinator_epoch: int, markers: SendMarkers) -> None:
        self.state = EndingState.WRITING
        self.partition = partition
        """The partition of ``__transaction_state``."""
        self.coordinator_epoch = coordinator_epoch
        self.markers = markers
        self.remaining = dict(markers.ending.partitions)
        """The partitions without their marker; empty in every state after WRITING."""
        self.missing_since_ms: dict[TopicPartition, float] = {}

    def enter(self, state: EndingState) -> None:
        """Make a move of `ENDING_MOVES`."""
        assert state in ENDING_MOVES[self.state], f"{self} may not become {state.value}"
        self.state = state

    def __repr__(self) -> str:
        return (
            f"_Ending({self.markers.transactional_id}, {self.state.value},"
            f" {len(self.remaining)} remaining)"
        )

    def marker(self, places: Iterable[TopicPartition]) -> WritableTxnMarker:
        return WritableTxnMarker(
            producer_id=self.markers.ending.producer_id,
            producer_epoch=self.markers.ending.producer_epoch,
            transaction_result=self.markers.commit,
            topics=[
                WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                for name, indexes in by_topic(places).items()
            ],
            coordinator_epoch=self.coordinator_epoch,
            transaction_version=self.markers.ending.client_version,
        )


Places = dict[TopicPartition, None]


class MarkerCounts(NamedTuple):
    """The markers that wait to be written."""

    transactions: int
    markers: int
    """Partitions that lack the marker of a transaction."""
    tried_again: int
    """Partitions among them whose leader is unknown, or did not write the marker."""
    completions_tried_again: int
    """Transactions with all markers whose completion the log refused."""


class Markers:
    """The markers that this broker's coordinators have to send."""

    def __init__(
        self,
        ports: Ports,
        peers: Peers,
        image: MetadataImage,
        coordinators: TransactionCoordinators,
    ) -> None:
        self._ports = ports
        self._peers = peers
        self._image = image
        self._coordinators = coordinators
        self._endings: dict[int, dict[str, _Ending]] = {}
        """All and only endings that are not `OVER`, by partition of ``__transaction_state`` and transactional
        id."""
        self._queued: dict[int, dict[_Ending, Places]] = {}
        """The content of the next request to each broker: only endings in state WRITING. A broker
        without a request under way has none."""
        self._asking: dict[int, dict[_Ending, Places]] = {}
        """The content of the request to each broker that is under way. Its endings may be in any state."""
        self._later: dict[_Ending, Places] = {}
        """The content of the next retry: endings in state WRITING with partitions, and all endings
        in state COMPLETION_REFUSED without."""
        self._wakeup: Wakeup | None = None
        """Set while `_later` is not empty."""

    def validate(self) -> None:
        """Raises AssertionError if a collection does not have exactly the endings that its
        docstring says, or if a missing marker is neither queued, asked for nor retried. For tests
        and the simulator, between two turns of the loop."""
        known = {e: None for endings in self._endings.values() for e in endings.values()}
        for ending in known:
            is_writing = ending.state is EndingState.WRITING
            assert ending.state not in OVER, f"{ending} is known"
            assert is_writing == bool(ending.remaining), f"{ending} in the wrong state"
            refused = ending.state is EndingState.COMPLETION_REFUSED
            assert not refused or ending in self._later, f"{ending} is not tried again"
            if is_writing:
                self._validate_remaining(ending)
        for ending in self._later:
            tried_again = (EndingState.WRITING, EndingState.COMPLETION_REFUSED)
            assert ending in known and ending.state in tried_again, f"{ending} is tried again"
        assert self._wakeup is not None or not self._later, "the next try has no wake-up"
        for broker, queued in self._queued.items():
            assert broker in self._asking or not queued, f"nothing is sent to {broker}"
            for ending in queued:
                assert ending in known and ending.state is EndingState.WRITING, f"{ending} queued"

    def _validate_remaining(self, ending: _Ending) -> None:
        """Raises AssertionError unless each partition without its marker is asked for, queued or
        retried."""
        ways = (*self._queued.values(), *self._asking.values(), self._later)
        on_its_way = {place for way in ways for place in way.get(ending, ())}
        lost = ending.remaining.keys() - on_its_way
        assert not lost, f"no broker is asked for the markers of {ending} in {sorted(lost)}"

    def __repr__(self) -> str:
        count = sum(len(endings) for endings in self._endings.values())
        return f"Markers({count} transactions, {len(self._asking)} requests under way)"

    def pending(self) -> list[tuple[str, str, list[TopicPartition]]]:
        """Every transaction that waits for markers: its transactional id, its producer's id and epoch, the
        partitions without their marker."""
        return [
            (
                ending.markers.transactional_id,
                f"{ending.markers.ending.producer_id}/{ending.markers.ending.producer_epoch}",
                list(ending.remaining),
            )
            for endings in self._endings.values()
            for ending in endings.values()
            if ending.remaining
        ]

    def asked(self) -> Iterator[tuple[int, SendMarkers]]:
        """All markers that are not written, each with its partition of ``__transaction_state``."""
        for partition, endings in self._endings.items():
            for ending in endings.values():
                yield partition, ending.markers

    def counts(self) -> MarkerCounts:
        """The number of markers and completions that wait now."""
        endings = [ending for some in self._endings.values() for ending in some.values()]
        later = self._later.values()
        return MarkerCounts(
            len(endings),
            sum(len(ending.remaining) for ending in endings),
            sum(map(len, later)),
            sum(not places for places in later),
        )

    def describe(self) -> dict[str, object]:
        """The markers' state, for tools and failing tests."""
        return {name: [str(place) for place in places] for name, _, places in self.pending()}

    def add(self, partition: int, coordinator_epoch: int, markers: SendMarkers) -> None:
        """Send `markers` for the shard of `partition` in `coordinator_epoch`."""
        ending = _Ending(partition, coordinator_epoch, markers)
        former = self._endings.setdefault(partition, {}).get(markers.transactional_id)
        if former is not None:
            self._cancel(former)
        self._endings[partition][markers.transactional_id] = ending
        self._send_all(self._route(ending, ending.remaining))

    def cancel(self, partition: int) -> None:
        """The shard of `partition` ended: forget its endings."""
        for ending in self._endings.pop(partition, {}).values():
            self._cancel(ending)

    def _cancel(self, ending: _Ending) -> None:
        ending.enter(EndingState.CANCELLED)
        self._stop_asking(ending)

    def _stop_asking(self, ending: _Ending) -> None:
        """Take the ending out of every request but those under way."""
        self._later.pop(ending, None)
        for queued in self._queued.values():
            queued.pop(ending, None)

    def on_metadata_change(self) -> None:
        """Send again what waits for a retry, and what brokers were asked that no longer lead: they
        may take long to answer."""
        self._leave_former_leaders()
        if self._later:
            later, self._later = self._later, {}
            brokers: dict[int, None] = {}
            for ending, places in later.items():
                if ending.state not in OVER:
                    brokers |= self._route(ending, places)
            self._send_all(brokers)

    def _leave_former_leaders(self) -> None:
        for broker, asked in self._asking.items():
            for ending, places in asked.items():
                for place in places:
                    if place in ending.remaining and self._leader_of(place) not in (broker, None):
                        self._later.setdefault(ending, {})[place] = None

    def close(self) -> None:
        """The node stops."""
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        call_all(partial(self.cancel, partition) for partition in list(self._endings))
        self._later.clear()
        self._queued.clear()

    # The partitions' leaders

    def _route(self, ending: _Ending, places: Places) -> dict[int, None]:
        """Queue those of `places` that have no marker at their leaders, and return the leaders."""
        brokers: dict[int, None] = {}
        for place in [place for place in places if place in ending.remaining]:
            leader = self._leader_of(place)
            if leader is None:
                self._on_missing(ending, place)
            elif leader == NO_LEADER:
                self._try_later(ending, {place: None})
            elif place not in self._asking.get(leader, {}).get(ending, {}):
                self._queued.setdefault(leader, {}).setdefault(ending, {})[place] = None
                brokers[leader] = None
        if not ending.remaining:
            self._complete(ending)
        return brokers

    def _leader_of(self, place: TopicPartition) -> int | None:
        """None if the cluster has no such partition."""
        topic = self._image.topics_by_name.get(place.topic)
        if topic is None or not topic.has(place.partition):
            return None
        leader: int = topic.leader[place.partition]
        return leader

    def _on_missing(self, ending: _Ending, place: TopicPartition) -> None:
        now_ms = self._ports.clock.now_ms()
        if now_ms - ending.missing_since_ms.setdefault(place, now_ms) >= MISSING_MS:
            ending.remaining.pop(place, None)
        else:
            self._try_later(ending, {place: None})

    def _try_later(self, ending: _Ending, places: Places) -> None:
        self._later.setdefault(ending, {}).update(places)
        if self._wakeup is None:
            when_ms = self._ports.clock.now_ms() + MARKER_RETRY_MS
            self._wakeup = self._ports.wakeups.call_at(when_ms, self._on_wakeup)

    def _on_wakeup(self) -> None:
        self._wakeup = None
        self.on_metadata_change()

    # Requests

    def _send_all(self, brokers: Iterable[int]) -> None:
        for broker in brokers:
            self._send(broker)

    def _send(self, broker: int) -> None:
        if broker in self._asking:
            return
        queued = self._queued.pop(broker, {})
        asked: dict[_Ending, Places] = {}
        producers: set[int] = set()
        for ending, wanted in queued.items():
            places = {place: None for place in wanted if place in ending.remaining}
            if not places:
                continue
            if (
                ending.markers.ending.producer_id in producers
            ):  # the answer identifies a marker by its producer id
                self._queued.setdefault(broker, {})[ending] = places
                continue
            producers.add(ending.markers.ending.producer_id)
            asked[ending] = places
        if not asked:
            return
        self._asking[broker] = asked
        request = WriteTxnMarkersRequest(
            markers=[ending.marker(places) for ending, places in asked.items()]
        )
        self._peers.send(broker, request, partial(self._on_response, broker), purpose=PURPOSE)

    def _on_response(self, broker: int, response: Any) -> None:
        asked = self._asking.pop(broker)
        try:
            answers = _answers_of(response)
            call_all(
                partial(self._on_answers, broker, ending, places, answers)
                for ending, places in asked.items()
                if ending.state is EndingState.WRITING
            )
        finally:
            self._send(broker)

    def _on_answers(
        self,
        broker: int,
        ending: _Ending,
        places: Places,
        answers: dict[tuple[int, str, int], ErrorCode],
    ) -> None:
        failed: Places = {}
        for place in places:
            code = answers.get(
                (ending.markers.ending.producer_id, *place), ErrorCode.NETWORK_EXCEPTION
            )
            if code in _WRITTEN:
                ending.remaining.pop(place, None)
            elif place in ending.remaining:  # else another leader has written it meanwhile
                failed[place] = None
            if code not in (ErrorCode.NONE, ErrorCode.NETWORK_EXCEPTION):
                self._ports.log(
                    "info", "transaction.marker_refused", partition=str(place), broker=broker,
                    transactional_id=ending.markers.transactional_id, why=code.name,
                )  # fmt: skip
        if failed:
            self._try_later(ending, failed)
        elif not ending.remaining:
            self._complete(ending)

    # The completion

    def _complete(self, ending: _Ending) -> None:
        transactional_id, decided = ending.markers
        ending.enter(EndingState.COMPLETING)
        self._stop_asking(ending)

        def done(result: Message | KafkaError | None) -> None:
            if ending.state is EndingState.CANCELLED:
                return
            if isinstance(result, KafkaError):
                ending.enter(EndingState.COMPLETION_REFUSED)
                self._try_later(ending, {})
                return
            ending.enter(EndingState.COMPLETE)
            del self._endings[ending.partition][transactional_id]

        self._coordinators.write_in(
            ending.partition,
            lambda machine, at: machine.complete(transactional_id, decided, at),
            done,
        )


def _answers_of(response: Any) -> dict[tuple[int, str, int], ErrorCode]:
    """The errors by producer id, topic and partition. Empty if there is no answer."""
    if isinstance(response, ChannelError):
        return {}
    assert isinstance(response, WriteTxnMarkersResponse)
    return {
        (marker.producer_id, topic.name, partition.partition_index): code_of(partition.error_code)
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
