"""One topic's partitions as parallel columns, and the view of one partition.

A column holds one value per partition, indexed by partition id. Numbers are kept in arrays, replica
lists as tuples that the image interns, so that a million partitions share a few thousand of
them. Values that are nearly always empty (ELR, a reassignment under way, an unclean recovery) are
kept beside the columns in `rare`, by partition.

A row with no replicas does not exist: records may arrive in any order of partition ids, so a
hole is filled when its record comes.

Source: PartitionRecord, PartitionChangeRecord; KIP-631, KIP-858 (directories), KIP-966 (ELR).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from barnabas.types import Uuid, new_tuple

if TYPE_CHECKING:
    from barnabas.metadata.image.bulk_partition_records import Rows

Replicas = tuple[int, ...]

RECOVERED = 0
RECOVERING = 1
"""Leader recovery states: the leader was elected uncleanly and has not said yet that it is well."""
NO_LEADER = -1
LEADER_UNCHANGED = -2
"""In a PartitionChangeRecord: the leader and its epoch stay."""


class Rare(NamedTuple):
    """The columns that are empty for almost every partition."""

    elr: Replicas
    last_known_elr: Replicas
    adding: Replicas
    removing: Replicas
    recovery: int


ORDINARY = Rare((), (), (), (), RECOVERED)


class PartitionState(NamedTuple):
    """One partition as the metadata log has it. `directories` runs parallel to `replicas`."""

    topic_id: Uuid
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: Replicas
    isr: Replicas
    directories: tuple[Uuid, ...]
    elr: Replicas
    last_known_elr: Replicas
    adding: Replicas
    removing: Replicas
    recovery: int

    @property
    def preferred(self) -> int:
        """The replica that should lead: the first assigned one."""
        return self.replicas[0]

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    def directory_of(self, broker: int) -> Uuid:
        """The log directory that holds `broker`'s replica. Raises ValueError where it has none."""
        return self.directories[self.replicas.index(broker)]

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Topic:
    """One topic: its identity and its partitions' columns. Only replay writes here."""

    __slots__ = (
        "directories",
        "id",
        "isr",
        "leader",
        "leader_epoch",
        "name",
        "partition_epoch",
        "rare",
        "replicas",
        "slot",
    )

    def __init__(self, topic_id: Uuid, name: str, slot: int) -> None:
        self.id = topic_id
        self.name = name
        self.slot = slot
        """Position in the image's list of topics; with the index it is a partition's key."""
        self.leader = array("i")
        self.leader_epoch = array("i")
        self.partition_epoch = array("i")
        self.replicas: list[Replicas] = []
        self.isr: list[Replicas] = []
        self.directories: list[tuple[Uuid, ...]] = []
        self.rare: dict[int, Rare] = {}

    def __len__(self) -> int:
        """Rows, which is the number of partitions once all records of a creation are replayed."""
        return len(self.replicas)

    def validate(self) -> None:
        """A leader is in the ISR, the ISR within the replicas. Raises AssertionError."""
        for index, replicas in enumerate(self.replicas):
            if not replicas:
                continue
            where, isr, leader = f"{self.name}-{index}", self.isr[index], self.leader[index]
            assert len(set(replicas)) == len(replicas), f"{where}: replicas {replicas}"
            assert set(isr) <= set(replicas), f"{where}: ISR {isr} of {replicas}"
            assert leader == NO_LEADER or leader in isr, f"{where}: leader {leader}, ISR {isr}"
            assert len(self.directories[index]) == len(replicas), where
            rare = self.rare.get(index)
            if rare is not None:
                assert set(rare.elr).isdisjoint(isr), f"{where}: ELR {rare.elr}, ISR {isr}"
                assert {*rare.elr, *rare.adding, *rare.removing} <= set(replicas), (
                    f"{where}: {rare}"
                )
                assert set(rare.adding).isdisjoint(rare.removing), f"{where}: {rare}"

    def has(self, index: int) -> bool:
        return 0 <= index < len(self.replicas) and bool(self.replicas[index])

    def partition(self, index: int) -> PartitionState:
        """The partition's state. Raises IndexError where it does not exist."""
        if not (0 <= index < len(self.replicas) and self.replicas[index]):
            raise IndexError(f"{self.name} has no partition {index}")
        return new_tuple(
            PartitionState,
            (
                self.id,
                self.name,
                index,
                self.leader[index],
                self.leader_epoch[index],
                self.partition_epoch[index],
                self.replicas[index],
                self.isr[index],
                self.directories[index],
                *self.rare.get(index, ORDINARY),
            ),
        )

    def partitions(self) -> list[PartitionState]:
        """Every partition in order of its index."""
        return [self.partition(i) for i in range(len(self.replicas)) if self.replicas[i]]

    def copy(self) -> Topic:
        """The topic as it is now, whatever becomes of this object."""
        other = Topic(self.id, self.name, self.slot)
        other.leader = self.leader[:]
        other.leader_epoch = self.leader_epoch[:]
        other.partition_epoch = self.partition_epoch[:]
        other.replicas = self.replicas[:]
        other.isr = self.isr[:]
        other.directories = self.directories[:]
        other.rare = dict(self.rare)
        return other

    def append(
        self,
        leader: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Replicas,
        isr: Replicas,
        directories: tuple[Uuid, ...],
    ) -> None:
        """One more row."""
        self.leader.append(leader)
        self.leader_epoch.append(leader_epoch)
        self.partition_epoch.append(partition_epoch)
        self.replicas.append(replicas)
        self.isr.append(isr)
        self.directories.append(directories)

    def extend(self, rows: Rows) -> None:
        """Many more rows."""
        self.leader.extend(rows.leader)
        self.leader_epoch.extend(rows.leader_epoch)
        self.partition_epoch.extend(rows.partition_epoch)
        self.replicas.extend(rows.replicas)
        self.isr.extend(rows.isr)
        self.directories.extend(rows.directories)

    def grow(self, rows: int) -> None:
        """Fill up to `rows` rows with ones that do not exist yet."""
        missing = rows - len(self.replicas)
        self.leader.extend([NO_LEADER] * missing)
        self.leader_epoch.extend([-1] * missing)
        self.partition_epoch.extend([-1] * missing)
        self.replicas.extend([()] * missing)
        self.isr.extend([()] * missing)
        self.directories.extend([()] * missing)

    def shrink(self, rows: int) -> None:
        """Forget the rows from `rows` on (undoing their creation)."""
        for column in (self.leader, self.leader_epoch, self.partition_epoch):
            del column[rows:]
        for listed in (self.replicas, self.isr, self.directories):
            del listed[rows:]

    def __repr__(self) -> str:
        return f"Topic({self.name!r}, partitions={len(self)})"
