"""The promises of share groups, and what members saw of them (KIP-932).

A record that was written is acknowledged, or archived after so many deliveries, or it is still there. What a
broker acknowledged is kept: no later leader delivers that record again. One leader gives a record to one
member at a time, and counts each delivery.

A response may be late, and a leader that does not know its successor yet may deliver once more; so a
delivery is judged only where the leader that served it is known, from the request to the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from barnabas.client.consumers.share_requests import Acknowledged
from barnabas.client.consumers.share_runs import Acknowledge
from barnabas.client.records import DeliveredRecord
from barnabas.sim.history import Violation, Written

SHARED = "shared"
"""The topic of which share groups are members' only readers."""
FINAL = (Acknowledge.GAP, Acknowledge.ACCEPT, Acknowledge.REJECT)
Place = tuple[str, int, int]
"""Group, partition and offset."""
Server = tuple[int, int]
"""The number of a share partition's life at a leader, and the leader epoch."""
LEAST_OF_LOCK = 0.4
"""The part of a lock's duration that it lasts at least, by a clock that drifts."""


class Fate(NamedTuple):
    """The last word on a record, which a broker acknowledged."""

    kind: int
    deliveries: int
    server: Server | None
    at_ms: float


class SeenDelivery(NamedTuple):
    """One delivery that a member saw."""

    member: str
    deliveries: int
    node: int
    asked_ms: float
    at_ms: float
    server: Server | None
    session: object
    """The broker's session of the member; None where it is over."""


class BrokerView(Protocol):
    """A look at what brokers have."""

    def server_of(self, group: str, partition: int, node: int, since_ms: float) -> Server | None:
        """The leader at `node`, if it has been that since `since_ms`."""

    def session_of(self, group: str, member_id: str, node: int) -> object:
        """The member's session at `node`; None where it has none."""


class ShareLedger:
    """All share groups of a run."""

    def __init__(self, deliveries_max: int, lock_ms: float, brokers: BrokerView) -> None:
        self.deliveries_max = deliveries_max
        self._held_ms = lock_ms * LEAST_OF_LOCK
        self.deliveries = 0
        self.is_lost = False
        """Whether committed metadata were given up: nothing is promised any more."""
        self._brokers = brokers
        self._fates: dict[Place, Fate] = {}
        self._last: dict[Place, SeenDelivery] = {}
        self._most: dict[Place, int] = {}
        self._given: dict[tuple[Place, Server], dict[int, str]] = {}
        self._held: dict[tuple[str, Place], SeenDelivery] = {}
        self._said: set[tuple[str, Place]] = set()
        """Members and records of which they have said something since they took them."""
        self._last_words: set[tuple[str, Place]] = set()
        """Members and records of which they have said the last word, sent or about to be."""
        self._doubtful: set[Place] = set()
        """Records of which a last word was sent, and perhaps kept."""
        self._lost_ms: dict[str, list[float]] = {}

    def on_delivered(
        self,
        group: str,
        member: str,
        record: DeliveredRecord,
        origin: tuple[int, float],
        now_ms: float,
    ) -> None:
        """A member took a record. Raises :class:`Violation`."""
        place = (group, record.partition, record.offset)
        node, asked_ms = origin
        server = self._brokers.server_of(group, record.partition, node, asked_ms)
        session = self._brokers.session_of(group, member, node)
        before = self._last.get(place)
        delivered = SeenDelivery(member, record.deliveries, node, asked_ms, now_ms, server, session)
        self.deliveries += 1
        self._held[member, place] = self._last[place] = delivered
        self._said.discard((member, place))
        self._last_words.discard((member, place))
        self._most[place] = max(self._most.get(place, 0), record.deliveries)
        if self.is_lost:
            return
        if not 1 <= record.deliveries <= self.deliveries_max:
            raise Violation(f"{_text(place)} is delivered for the {record.deliveries}th time")
        if server is None:
            return
        given = self._given.setdefault((place, server), {})
        if record.deliveries in given:
            raise Violation(
                f"{_text(place)}: delivery {record.deliveries} went to {given[record.deliveries]} and"
                f" to {member}, by one leader"
            )
        given[record.deliveries] = member
        if (
            before is not None
            and server == before.server
            and member != before.member
            and record.deliveries > before.deliveries
            and self._holds(place, before, now_ms)
        ):
            raise Violation(
                f"{_text(place)} is delivered to {member} after {now_ms - before.asked_ms:.0f} ms, while"
                f" {before.member} holds it"
            )
        fate = self._fates.get(place)
        if fate is None or fate.server is None or server[1] < fate.server[1]:
            return
        if server != fate.server or record.deliveries > fate.deliveries:
            raise Violation(
                f"{_text(place)} is delivered to {member}, though {Acknowledge(fate.kind).name} was"
                f" acknowledged at {fate.at_ms:.0f} ms"
            )

    def _holds(self, place: Place, delivered: SeenDelivery, now_ms: float) -> bool:
        """Whether the member still holds the record: it has not let it go, and its lock has not ended. The
        locks of brokers last by their clocks, which drift."""
        member = delivered.member
        session = self._brokers.session_of(place[0], member, delivered.node)
        return (
            (member, place) not in self._said
            and session is not None
            and session is delivered.session
            and now_ms < delivered.asked_ms + self._held_ms
        )

    def on_said(self, group: str, member: str, partition: int, offset: int) -> None:
        """A member says something of a record."""
        self._said.add((member, (group, partition, offset)))

    def on_last_word(self, group: str, member: str, partition: int, offset: int) -> None:
        """A member says the last word on a record."""
        self._last_words.add((member, (group, partition, offset)))

    def on_vanished(self, group: str, member: str) -> None:
        """A member falls silent: no client receives the answers to what it said last, which may be kept."""
        self._doubtful |= {
            place for who, place in self._last_words if who == member and place[0] == group
        }

    def on_answer(self, group: str, member: str, answer: Acknowledged, now_ms: float) -> None:
        """Acknowledgements are answered. Raises :class:`Violation`."""
        for offset, kind in answer.kinds.items():
            if kind not in FINAL or isinstance(offset, range):
                continue
            place = (group, answer.partition.partition, offset)
            if answer.error is not None:
                self._doubtful.add(place)
                continue
            held = self._held.get((member, place))
            fate = self._fates.get(place)
            server = None
            if held is not None and held.server is not None:
                again = self._brokers.server_of(group, place[1], held.node, held.at_ms)
                server = held.server if again == held.server else None
            last = self._last.get(place)
            if last is not None and server is not None and not self.is_lost:
                other = last.member != member and last.server == server
                if other and self._holds(place, last, now_ms):
                    raise Violation(
                        f"{_text(place)}: {member} could acknowledge it, while {last.member} holds it"
                    )
            if fate is not None and fate.server is not None:
                continue  # a word on records before the start changes nothing, and is no error
            deliveries = self.deliveries_max if held is None else held.deliveries
            self._fates[place] = Fate(kind, deliveries, server, now_ms)

    def on_lost(self, group: str, now_ms: float) -> None:
        """Deliveries to a member of `group` may have been lost on their way."""
        self._lost_ms.setdefault(group, []).append(now_ms)

    def check_final(self, groups: Iterable[str], written: Mapping[int, list[Written]]) -> None:
        """All groups have come to the end of the topic: each record that was written has its fate. Raises
        :class:`Violation`."""
        if self.is_lost:
            return
        for group in groups:
            for partition, records in sorted(written.items()):
                for record in records:
                    if record.offset >= 0:
                        self._check_fate((group, partition, record.offset), record.value)

    def _check_fate(self, place: Place, value: bytes) -> None:
        fate = self._fates.get(place)
        if fate is not None and fate.kind == Acknowledge.GAP:
            raise Violation(f"{_text(place)} was taken for a gap, where {value!r} is")
        if fate is not None or place in self._doubtful:
            return
        count = self._most.get(place, 0)
        last = self._last.get(place)
        since_ms = 0.0 if last is None else last.at_ms
        lost = sum(at_ms >= since_ms for at_ms in self._lost_ms.get(place[0], ()))
        if count + lost < self.deliveries_max:
            raise Violation(
                f"{_text(place)}: {value!r} was delivered {count} times, {lost} may have been lost; it was"
                " never acknowledged, and is gone"
            )


def _text(place: Place) -> str:
    group, partition, offset = place
    return f"{group} in {SHARED}-{partition}, offset {offset}"
