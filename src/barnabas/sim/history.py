"""What clients saw: every record sent, acknowledged and read; and what is wrong about it.

Anomalies are named as Kafka's users know them: a lost write (acknowledged and not there), a duplicate, a
reordering, a record that no producer wrote; a skip (a consumer jumps over a record), a non-monotonic poll (it
goes back), a record that stays unseen though its group has committed an offset behind it. Where compaction
may take what has a newer value, a key's last acknowledged record stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.sim.offset_commits import Commits


class Violation(AssertionError):
    """An invariant does not hold. The message says which and where."""


class Written(NamedTuple):
    """A record whose delivery was acknowledged."""

    value: bytes
    offset: int


Place = tuple[str, int]
"""Topic and partition."""


class Reading:
    """What one consumer reads between getting its partitions and giving them up."""

    __slots__ = ("group", "last", "names_epochs")

    def __init__(self, group: str, *, names_epochs: bool = True) -> None:
        self.group = group
        self.names_epochs = names_epochs
        """Whether it tells a leader from one of before. A reader that cannot may ask one that was cut
        off, and gets OFFSET_OUT_OF_RANGE, as with Kafka."""
        self.last: dict[Place, int] = {}
        """The last offset taken."""


class Promise(NamedTuple):
    """What a topic's writers were promised; all of it where nothing else is said."""

    keeps: bool = True
    """What was acknowledged stays. Not so with acks below all."""
    once: bool = True
    """Nothing is there twice, and all in the order of sending. Not so without idempotence."""
    settles: bool = True
    """What a consumer has read stays. Not so where a replica outside the ISR may lead."""
    may_be_cut: bool = True
    """Whether operators may delete its old records."""
    expires: bool = False
    """Whether retention takes its old records."""
    compacts: bool = False
    """Whether a record goes when a newer one has its key."""


STRICT = Promise()
NOTHING = Promise(keeps=False, once=False, settles=False, may_be_cut=False)


class History:
    """Collected while a seed runs; `check` at its end."""

    def __init__(self) -> None:
        self.sent: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        """Per partition and in the order of sending."""
        self.acknowledged: dict[tuple[str, int], list[Written]] = defaultdict(list)
        self.failed: set[bytes] = set()
        """Sends that ended in an error: they may be there or not."""
        self.read: dict[tuple[str, int], dict[int, bytes]] = defaultdict(dict)
        """Whatever any consumer saw at an offset."""
        self.gaps: dict[Place, set[tuple[int, int]]] = defaultdict(set)
        """(last offset, next offset) where a consumer went on further than to the next one."""
        self.seen: dict[tuple[str, Place], set[int]] = defaultdict(set)
        """Offsets that members of a group took."""
        self.is_lost = False
        """Nothing is promised any more."""
        self.operations = 0
        """Acknowledged operations of clients."""
        self.promises: dict[str, Promise] = {}
        """Of topics that promise less than everything."""
        self.cut_before: dict[tuple[str, int], int] = defaultdict(int)
        """The highest offset before which a client asked to delete, granted or not."""
        self.topics: dict[str, int] = {}
        """Topics whose creation was acknowledged, with their partitions; no client asked to delete them."""
        self.commits = Commits()
        """What members of groups asked to commit."""
        self.levels_asked: set[tuple[str, int]] = set()
        """Feature and level that a client asked for, granted or not."""
        self.tried: set[str] = set()
        """Topics that were only to be validated."""
        self.producer_ids: set[int] = set()
        self.forgotten: set[Place] = set()
        """Where a leader may have forgotten a producer, and took what else it would not have taken."""
        self.keys: dict[bytes, bytes] = {}
        """Value → key, of topics that compact."""
        self.groups_are_gone = False
        """Whether a client deleted the offsets topic: the groups' generations count from 1 again."""
        self.owners: dict[tuple[str, int], dict[Place, str]] = defaultdict(dict)
        """Group and generation → which member was given what."""
        self.coordinated: set[str] = set()
        """Groups with members of the consumer protocol: each is at an epoch of its own, and commits of an
        older one count where it had the partition then (KIP-1251)."""
        self.holders: dict[tuple[str, Place], tuple[int, str]] = {}
        """Group and partition → the newest epoch in which a member was given it, and that member."""
        self.expired: set[str] = set()
        """Groups that were forgotten once. What a member was given before that it may learn when the next one
        of the name is in the same generation; coordinators are judged by themselves all along."""
        self.offsets_expired: dict[str, int] = defaultdict(int)
        """How often offsets of a group expired, or were about to."""
        self.generations: dict[str, int] = defaultdict(lambda: -1)
        """The newest one of each group that a member learned of."""

    def promise(self, topic: str) -> Promise:
        return NOTHING if self.is_lost else self.promises.get(topic, STRICT)

    def on_lost(self) -> None:
        """Committed metadata were given up, and with them what rests on them."""
        self.is_lost = True
        self.topics.clear()

    def on_producer_id(self, producer_id: int) -> None:
        """A client was given this id. Raises :class:`Violation` where another one has it."""
        if producer_id in self.producer_ids and not self.is_lost:
            raise Violation(f"two clients were given the producer id {producer_id}")
        self.producer_ids.add(producer_id)

    def on_groups_gone(self) -> None:
        """A client deletes the offsets topic."""
        self.groups_are_gone = True
        self.owners.clear()
        self.holders.clear()
        self.generations.clear()

    def on_assigned(
        self, group: str, generation: int, member: str, places: Iterable[Place]
    ) -> None:
        """A member received its assignment. Raises :class:`Violation` where another member of the same
        generation received one of the partitions, too."""
        if self.groups_are_gone:
            return
        self.generations[group] = max(self.generations[group], generation)
        owners = self.owners[group, generation]
        for place in places:
            if generation >= self.holders.get((group, place), (-1, ""))[0]:
                self.holders[group, place] = (generation, member)
            other = owners.setdefault(place, member)
            if other != member and not self.is_lost and group not in self.expired:
                raise Violation(
                    f"group {group}, generation {generation}: {other} and {member} were both given"
                    f" {place[0]}-{place[1]}"
                )

    def on_group_expired(self, group: str) -> None:
        """One of its name begins with the first generation again."""
        self.expired.add(group)
        for key in [key for key in self.owners if key[0] == group]:
            del self.owners[key]
        self.generations.pop(group, None)
        self._forget_holders(group)

    def _forget_holders(self, group: str) -> None:
        for key in [key for key in self.holders if key[0] == group]:
            del self.holders[key]

    def may_have_restarted(self, group: str) -> bool:
        """Whether the group may have been forgotten: a member that was replaced in it may then join the new
        group, like any other member."""
        return self.groups_are_gone or self.is_lost or group in self.expired

    def on_cut(self, topic: str, partition: int, offset: int) -> None:
        """A client asks to delete the records before `offset`."""
        cut = self.cut_before
        cut[topic, partition] = max(cut[topic, partition], offset)

    def on_sent(self, topic: str, partition: int, value: bytes) -> None:
        self.sent[topic, partition].append(value)

    def on_acknowledged(self, topic: str, partition: int, value: bytes, offset: int) -> None:
        self.operations += 1
        self.acknowledged[topic, partition].append(Written(value, offset))

    def on_read(
        self, topic: str, partition: int, offset: int, value: bytes, reading: Reading | None = None
    ) -> None:
        """A consumer got `value`, the next one of its `reading`. Raises :class:`Violation` where another
        value was seen there, or where it has been there before."""
        place = (topic, partition)
        known = self.read[place].setdefault(offset, value)
        if known != value:
            if self.promise(topic).settles:
                raise Violation(
                    f"{topic}-{partition} offset {offset} was read as {known!r} and as {value!r}"
                )
            self.read[place][offset] = value
        if reading is None:
            return
        last = reading.last.get(place)
        if last is not None and offset != last + 1:
            if offset > last:
                self.gaps[place].add((last, offset))
            elif reading.names_epochs and self.promise(topic).settles:
                raise Violation(
                    f"{topic}-{partition}: a non-monotonic poll: a consumer of {reading.group} took"
                    f" offset {offset} after {last}"
                )
        reading.last[place] = offset
        self.seen[reading.group, place].add(offset)

    def check_final(self, topic: str, partition: int, final: dict[int, bytes]) -> None:
        """`final` is the whole partition after everything healed, by offset."""
        promise = self.promise(topic)
        name = f"{topic}-{partition}"
        values = [final[offset] for offset in sorted(final)]
        known = set(self.sent[topic, partition])
        for value in values:
            if value not in known:
                raise Violation(f"{name}: no client wrote {value!r}")
        if promise.once and (topic, partition) not in self.forgotten:
            self._check_once(name, values, self.sent[topic, partition])
        start = 0 if promise.compacts else min(final, default=0)
        if start > self.cut_before[topic, partition] and not self.is_lost:
            raise Violation(f"{name} begins at {start}, where no client asked to delete so much")
        if promise.keeps:
            self._check_kept(topic, partition, final)
        if promise.settles:
            cut = self.cut_before[topic, partition]
            newest = self._newest(final)
            for offset, value in self.read[topic, partition].items():
                if _is_deleted(offset, final, start, cut) or self._is_outdated(
                    offset, value, final, newest
                ):
                    continue
                if final.get(offset) != value:
                    raise Violation(
                        f"{name}: a consumer read {value!r} at offset {offset}, where now"
                        f" {final.get(offset)!r} is"
                    )

        if promise.settles:
            self._check_seen((topic, partition), final)

    def _check_seen(self, place: Place, final: dict[int, bytes]) -> None:
        """No consumer skipped a record, and groups took what they have committed."""
        name = f"{place[0]}-{place[1]}"
        # What was to be deleted may be back after a crash: a log's start is noted every minute, as in Kafka.
        cut = self.cut_before[place]
        # The replica that was read may have compacted what the one that leads in the end still has.
        newest, key_of = self._newest(final), self.keys.get
        there = {o for o, v in final.items() if newest.get(key_of(v, b""), o) <= o}
        for last, following in sorted(self.gaps[place]):
            for offset in range(max(last + 1, cut), following):
                if offset in there:
                    raise Violation(f"{name}: a consumer skipped offset {offset}, after {last}")
        for group, committed in self.commits.acknowledged(place):
            unseen = {o for o in there if cut <= o < committed} - self.seen[group, place]
            if unseen:
                raise Violation(
                    f"{name}: {group} has committed {committed}, and none of its members saw {min(unseen)}"
                )

    @staticmethod
    def _check_once(name: str, values: list[bytes], sent: list[bytes]) -> None:
        if len(values) != len(set(values)):
            twice = sorted({value for value in values if values.count(value) > 1})
            raise Violation(f"{name}: written once, there twice: {twice[:3]}")
        position = {value: index for index, value in enumerate(values)}
        order = [position[value] for value in sent if value in position]
        if order != sorted(order):
            raise Violation(f"{name}: an idempotent producer's records changed their order")

    def _check_kept(self, topic: str, partition: int, final: dict[int, bytes]) -> None:
        name = f"{topic}-{partition}"
        cut = self.cut_before[topic, partition]
        start = 0 if self.promise(topic).compacts else min(final, default=cut)
        there, newest = set(final.values()), self._newest(final)
        for written in self.acknowledged[topic, partition]:
            if written.offset >= 0 and (
                _is_deleted(written.offset, final, start, cut)
                or self._is_outdated(written.offset, written.value, final, newest)
            ):
                continue
            if written.value not in there and (written.offset >= 0 or start == cut == 0):
                raise Violation(
                    f"{name}: acknowledged at offset {written.offset} and lost: {written.value!r}"
                )
            if written.offset >= 0 and final.get(written.offset) != written.value:
                raise Violation(
                    f"{name}: {written.value!r} was acknowledged at offset {written.offset},"
                    f" where {final.get(written.offset)!r} is"
                )

    def _newest(self, final: dict[int, bytes]) -> dict[bytes, int]:
        """Key → the offset of its last record, where compaction looks at keys."""
        keys = self.keys
        return {keys[final[offset]]: offset for offset in sorted(final) if final[offset] in keys}

    def _is_outdated(
        self, offset: int, value: bytes, final: dict[int, bytes], newest: dict[bytes, int]
    ) -> bool:
        """Whether compaction may have taken it: it is gone, and its key has a newer record."""
        return offset not in final and newest.get(self.keys.get(value, b""), -1) > offset


def _is_deleted(offset: int, final: dict[int, bytes], start: int, cut: int) -> bool:
    """Before where a whole read began, or deleted while it went on (seed 10676)."""
    return offset < start or (offset < cut and offset not in final)
