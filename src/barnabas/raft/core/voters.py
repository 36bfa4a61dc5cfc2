"""Who votes: voter sets as values, and how they change along the log.

A static set (``controller.quorum.voters``, kraft.version 0) knows ids and endpoints only; a dynamic one
(VotersRecord, kraft.version 1, KIP-853) knows each voter's directory id too, so that a node which
lost its disk is another replica. A set holds from the moment its record is *appended*, committed or
not; truncation takes it back (`VoterHistory`).

Source: Kafka's ``VoterSet``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from barnabas.types import ZERO_UUID, Endpoint, Uuid, uuid_text
from barnabas.wire.messages import voters_record as wire

KRAFT_VERSIONS = (0, 1)
"""Levels of the feature kraft.version that this program supports."""


class ReplicaKey(NamedTuple):
    """A replica: its node id and the id of its metadata directory (zero where that is not known)."""

    id: int
    directory_id: Uuid = ZERO_UUID

    def matches(self, other: ReplicaKey) -> bool:
        """Whether `other` may be this replica, an unknown directory being any."""
        return self.id == other.id and (
            self.directory_id == other.directory_id
            or self.directory_id == ZERO_UUID
            or other.directory_id == ZERO_UUID
        )

    def admits(self, other: ReplicaKey) -> bool:
        """Whether `other` counts as this replica: the ids are equal, and so are the directory ids, unless
        this replica's directory id is unknown."""
        return self.id == other.id and self.directory_id in (other.directory_id, ZERO_UUID)

    def __str__(self) -> str:
        if self.directory_id == ZERO_UUID:
            return str(self.id)
        return f"{self.id}-{uuid_text(self.directory_id)}"


@dataclass(frozen=True, slots=True)
class VoterNode:
    """One voter. `endpoints` by listener name; `versions` is its range of kraft.version."""

    key: ReplicaKey
    endpoints: Mapping[str, Endpoint]
    versions: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """Voters by node id, ascending. Never changes: each change is a new set."""

    nodes: Mapping[int, VoterNode]

    @classmethod
    def of(cls, *nodes: VoterNode) -> VoterSet:
        return cls({node.key.id: node for node in sorted(nodes, key=lambda n: n.key)})

    @classmethod
    def static(cls, endpoints: Mapping[int, Endpoint], listener: str) -> VoterSet:
        return cls.of(
            *(VoterNode(ReplicaKey(node), {listener: at}) for node, at in endpoints.items())
        )

    @classmethod
    def from_record(cls, record: wire.VotersRecord) -> VoterSet:
        return cls.of(
            *(
                VoterNode(
                    ReplicaKey(voter.voter_id, voter.voter_directory_id),
                    {e.name: Endpoint(e.host, e.port) for e in voter.endpoints},
                    (
                        voter.k_raft_version_feature.min_supported_version,
                        voter.k_raft_version_feature.max_supported_version,
                    ),
                )
                for voter in record.voters
            )
        )

    def to_record(self) -> wire.VotersRecord:
        return wire.VotersRecord(
            version=0,
            voters=[
                wire.Voter(
                    voter_id=node.key.id,
                    voter_directory_id=node.key.directory_id,
                    endpoints=[
                        wire.Endpoint(name=name, host=at.host, port=at.port)
                        for name, at in node.endpoints.items()
                    ],
                    k_raft_version_feature=wire.KRaftVersionFeature(
                        min_supported_version=node.versions[0],
                        max_supported_version=node.versions[1],
                    ),
                )
                for node in self.nodes.values()
            ],
        )

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[int]:
        return iter(self.nodes)

    def __contains__(self, key: object) -> bool:
        """Whether `key` (a `ReplicaKey`) votes."""
        if not isinstance(key, ReplicaKey):
            return False
        node = self.nodes.get(key.id)
        return node is not None and node.key.admits(key)

    def key(self, node_id: int) -> ReplicaKey:
        node = self.nodes.get(node_id)
        return node.key if node is not None else ReplicaKey(node_id)

    def endpoint(self, node_id: int, listener: str) -> Endpoint | None:
        node = self.nodes.get(node_id)
        return node.endpoints.get(listener) if node is not None else None

    def with_voter(self, node: VoterNode) -> VoterSet:
        """Added, or put in the place of the one with the same id."""
        return VoterSet.of(*(n for n in self.nodes.values() if n.key.id != node.key.id), node)

    def without(self, node_id: int) -> VoterSet:
        return VoterSet.of(*(n for n in self.nodes.values() if n.key.id != node_id))

    def updated(
        self, node_id: int, endpoints: Mapping[str, Endpoint], versions: tuple[int, int]
    ) -> VoterSet:
        node = self.nodes[node_id]
        return self.with_voter(replace(node, endpoints=dict(endpoints), versions=versions))

    def __str__(self) -> str:
        return "{" + ", ".join(str(node.key) for node in self.nodes.values()) + "}"


class VoterHistory:
    """The voter sets and kraft.version levels of a log by the offset of their record.

    Invariant: offsets ascend. The set of a static configuration, or the empty set, has an entry below
    every offset.
    """

    __slots__ = ("_sets", "_static", "_versions", "voters")

    def __init__(self, static: VoterSet) -> None:
        self._static = static
        self._sets: list[tuple[int, VoterSet]] = []
        self._versions: list[tuple[int, int]] = []
        self.voters = static
        """The set that holds now."""

    @property
    def voters_offset(self) -> int | None:
        """Offset of its record; -1 where a snapshot at offset 0 holds it, None for a static set."""
        return self._sets[-1][0] if self._sets else None

    @property
    def kraft_version(self) -> int:
        return self._versions[-1][1] if self._versions else 0

    def may_stand(self, key: ReplicaKey, high_watermark: int) -> bool:
        """Whether `key` votes now, or did before a change that is not known to be committed: a leader
        that removed itself may be the only one that has the record, and must be able to finish."""
        if key in self.voters:
            return True
        if not self._sets or self._sets[-1][0] < high_watermark:
            return False
        before = self._sets[-2][1] if len(self._sets) > 1 else self._static
        return key in before

    def at(self, end_offset: int) -> tuple[VoterSet, int]:
        """The set of voters and the kraft.version that hold before `end_offset`."""
        voters = next((s for o, s in reversed(self._sets) if o < end_offset), self._static)
        version = next((v for o, v in reversed(self._versions) if o < end_offset), 0)
        return voters, version

    def add_voters(self, offset: int, voters: VoterSet) -> None:
        self._sets.append((offset, voters))
        self.voters = voters

    def add_version(self, offset: int, version: int) -> None:
        self._versions.append((offset, version))

    def truncate_to(self, end_offset: int) -> None:
        """Forget the entries at `end_offset` and after."""
        self._sets = [entry for entry in self._sets if entry[0] < end_offset]
        self._versions = [entry for entry in self._versions if entry[0] < end_offset]
        self.voters = self._sets[-1][1] if self._sets else self._static

    def clear(self) -> None:
        """A snapshot replaces everything."""
        self._sets.clear()
        self._versions.clear()
        self.voters = self._static
