"""The state of elections that a replica must not forget, and its file ``quorum-state``.

Version 0 (static voters) and version 1 (with the directory id of the replica voted for, KIP-853) of
Kafka's JSON file. Unknown versions are refused rather than guessed at.

Source: Kafka's ``FileQuorumStateStore``.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from barnabas.raft.core.voters import ReplicaKey
from barnabas.types import ZERO_UUID, uuid_from_text, uuid_text

FILE_NAME = "quorum-state"
NO_LEADER = -1


class QuorumStateError(ValueError):
    """The file cannot be understood; starting without it could break a promise."""


class ElectionState(NamedTuple):
    """The epoch, whom this replica voted for in it, and who leads it as far as known."""

    epoch: int = 0
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None

    def to_json(self, kraft_version: int, voter_ids: list[int]) -> bytes:
        """The file's content in the version that goes with `kraft_version`."""
        voted_id = self.voted.id if self.voted else NO_LEADER
        fields: dict[str, object]
        if kraft_version == 0:
            fields = {
                "clusterId": "",
                "leaderId": self.leader_id,
                "leaderEpoch": self.epoch,
                "votedId": voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in voter_ids],
                "data_version": 0,
            }
        else:
            directory = self.voted.directory_id if self.voted else ZERO_UUID
            fields = {
                "leaderId": self.leader_id,
                "leaderEpoch": self.epoch,
                "votedId": voted_id,
                "votedDirectoryId": uuid_text(directory),
                "data_version": 1,
            }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> ElectionState:
        """Raises :class:`QuorumStateError`."""
        try:
            fields = json.loads(data)
            version = fields.get("data_version")
            if version not in (0, 1):
                raise QuorumStateError(f"data_version is {version!r}, not 0 or 1")
            voted_id = int(fields.get("votedId", NO_LEADER))
            directory = fields.get("votedDirectoryId")
            key = ReplicaKey(voted_id, uuid_from_text(directory) if directory else ZERO_UUID)
            return cls(
                epoch=int(fields["leaderEpoch"]),
                leader_id=int(fields.get("leaderId", NO_LEADER)),
                voted=key if voted_id >= 0 else None,
            )
        except QuorumStateError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise QuorumStateError(f"it cannot be read ({error})") from error
