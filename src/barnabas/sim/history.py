"""The view of clients in a run, every record sent, acknowledged and read, and the checks of it.

Anomalies have the names that Kafka's users know:

- lost write: a record was acknowledged, and is not in the log
- a duplicate, a reordering, a record that no producer wrote
- skip: a consumer passed over a record
- non-monotonic poll: a consumer went back
- unseen record: a group committed a later offset, and none of its members received the record

Compaction may remove a record whose key has a newer one. The last acknowledged record of a key stays.
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
    """The records that one consumer reads between getting its partitions and giving them up."""

    __slots__ = ("group", "last", "names_epochs")

    def __init__(self, group: str, *, names_epochs: bool = True) -> None:
        self.group = group
        self.names_epochs = names_epochs
        """Whether its fetches name leader epochs. A reader without them may fetch from a deposed leader that
        was cut off, and receives OFFSET_OUT_OF_RANGE, as with Kafka."""
        self.last: dict[Place, int] = {}
        """The last offset taken."""


class Promise(NamedTuple):
    """The guarantees of a topic to its clients; a topic without an entry guarantees everything (`STRICT`)."""

    keeps: bool = True
    """Acknowledged records stay. False with acks below all."""
    once: bool = True
    """No record is duplicated, and all are in the order of sending. False without idempotence."""
    settles: bool = True
    """Records that a consumer has read stay. False where a replica outside the ISR may lead."""
    may_be_cut: bool = True
    """Whether operators may delete its old records."""
    expires: bool = False
    """Whether retention takes its old records."""
    compacts: bool = False
    """Whether a record goes when a newer one has its key."""


STRICT = Promise()
NOTHING = Promise(keeps=False, once=False, settles=False, may_be_cut=False)


class History:
    """The acts and views of clients in a run. Some checks are made at once, `check_final` at the end."""

    def __init__(self) -> None:
        self.sent: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        """Partition → the values sent to it, in the order of sending."""
        self.acknowledged: dict[tuple[str, int], list[Written]] = defaultdict(list)
        self.failed: set[bytes] = set()
        """Values whose send ended in an error: the log may hold them or not."""
        self.read: dict[tuple[str, int], dict[int, bytes]] = defaultdict(dict)
        """Partition → offset → the last value that a consumer saw there."""
        self.gaps: dict[Place, set[tuple[int, int]]] = defaultdict(set)
        """Partition → (last offset, next offset) where a consumer skipped offsets."""
        self.seen: dict[tuple[str, Place], set[int]] = defaultdict(set)
        """Group and partition → the offsets that the group's members took."""
        self.is_lost = False
        """Whether an operator gave up committed metadata: nothing is promised any more."""
        self.operations = 0
        """Acknowledged operations of clients."""
        self.promises: dict[str, Promise] = {}
        """The promises of topics that promise less than `STRICT`."""
        self.cut_before: dict[tuple[str, int], int] = defaultdict(int)
        """Partition → the highest offset before which a client asked to delete records, granted or not."""
        self.topics: dict[str, int] = {}
        """Topics whose creation was acknowledged, with their partitions; no client asked to delete them."""
        self.commits = Commits()
        """The commits for which members of groups asked."""
        self.levels_asked: set[tuple[str, int]] = set()
        """Feature and level that a client asked for, granted or not."""
        self.tried: set[str] = set()
        """Topics that clients asked to validate, not to create."""
        self.producer_ids: set[int] = set()
        self.forgotten: set[Place] = set()
        """Partitions whose leader may have forgotten a producer, and so may have accepted a duplicate."""
        self.keys: dict[bytes, bytes] = {}
        """Value → key, of topics that compact."""
        self.groups_are_gone = False
        """Whether a client deleted the offsets topic: the groups' generations count from 1 again."""
        self.owners: dict[tuple[str, int], dict[Place, str]] = defaultdict(dict)
        """Group and generation → partition → the member that it was assigned to."""
        self.coordinated: set[str] = set()
        """Groups of the consumer protocol. Each member has an epoch of its own; a commit of an older epoch is
        valid where the member had the partition in that epoch (KIP-1251)."""
        self.holders: dict[tuple[str, Place], tuple[int, str]] = {}
        """Group and partition → the newest epoch in which it was assigned to a member, and that member."""
        self.expired: set[str] = set()
        """Groups that their coordinator forgot at least once. A member may receive an old assignment when a
        new group of the same name is in the same generation: so assignments of these groups are not compared
        here. Checkers judge the coordinators all along."""
        self.offsets_expired: dict[str, int] = defaultdict(int)
        """Group → how often its offsets expired, or were about to."""
        self.generations: dict[str, int] = defaultdict(lambda: -1)
        """Group → the newest generation that a member received."""

    def promise(self, topic: str) -> Promise:
        return NOTHING if self.is_lost else self.promises.get(topic, STRICT)

    def on_lost(self) -> None:
        """An operator gave up committed metadata, and so all promises that depend on them."""
        self.is_lost = True
        self.topics.clear()

    def on_producer_id(self, producer_id: int) -> None:
        """A client received this id. Raises :class:`Violation` if another client has it."""
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
        """The coordinator forgot `group`: a group of this name begins with the first generation again."""
        self.expired.add(group)
        for key in [key for key in self.owners if key[0] == group]:
            del self.owners[key]
        self.generations.pop(group, None)
        self._forget_holders(group)

    def _forget_holders(self, group: str) -> None:
        for key in [key for key in self.holders if key[0] == group]:
            del self.holders[key]

    def may_have_restarted(self, group: str) -> bool:
        """Whether the coordinator may have forgotten the group. If so, a member that was replaced in it may
        join the new group as any other member may."""
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
        """A consumer received `value`, the next one of its `reading`. Raises :class:`Violation` if another
        value was seen at `offset`, or if the reading had reached or passed `offset` before."""
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
        """Check one partition at the end of a run. `final`: offset → value of the whole partition after all
        faults are healed. Raises :class:`Violation`."""
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
        """Check that no consumer skipped a record, and that groups have seen all that they committed."""
        name = f"{place[0]}-{place[1]}"
        # Deleted records may return after a crash: log start offsets are written once a minute, as in Kafka.
        cut = self.cut_before[place]
        # The replica that was read may have compacted records that the last leader still has.
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
        """Whether compaction may have removed the record: it is gone, and its key has a newer record."""
        return offset not in final and newest.get(self.keys.get(value, b""), -1) > offset


def _is_deleted(offset: int, final: dict[int, bytes], start: int, cut: int) -> bool:
    """Whether the record at `offset` may be deleted: it is before the log's start, or a client asked to
    delete it and it is gone (deletion during the last read, seed 10676)."""
    return offset < start or (offset < cut and offset not in final)
