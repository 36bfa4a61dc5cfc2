"""Who votes first in a quorum whose voters stand in its log: options of ``storage format`` (KIP-853)."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.cli.connection.duplicate_quorum_check import find_quorum
from barnabas.cli.failure import Failure
from barnabas.config.node import NodeConfig
from barnabas.host.network import machine_name
from barnabas.metadata.features import KRAFT_VERSION
from barnabas.ports import Disk
from barnabas.raft.bootstrap_snapshot import write_first_snapshot
from barnabas.raft.core.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from barnabas.types import Endpoint, Uuid, is_int32, uuid_from_text

USAGE = 2


class FirstVoters:
    """The voters of the options, checked against the node's file. Raises `Failure`."""

    def __init__(self, config: NodeConfig, standalone: bool, initial: str, none_yet: bool) -> None:
        self._config = config
        self._standalone = standalone
        self._initial = _parse(initial, config.controller_listener_names[0]) if initial else None
        self._is_dynamic = standalone or bool(initial) or none_yet
        chosen = sum((standalone, bool(initial), none_yet))
        if chosen > 1:
            raise Failure("choose one way to say who votes first", USAGE)
        if chosen and config.voters:
            raise Failure("controller.quorum.voters says who votes already", USAGE)
        if config.is_controller and not config.voters and not chosen:
            raise Failure(
                "say who votes first: --standalone, --initial-controllers or"
                " --no-initial-controllers",
                USAGE,
            )
        if (standalone or initial) and not config.is_controller:
            raise Failure("only a controller can vote", USAGE)
        if self._initial is not None and config.node_id not in self._initial.nodes:
            raise Failure(f"--initial-controllers does not name node {config.node_id}", USAGE)

    def check_level(self, features: Mapping[str, int]) -> None:
        """Refuse a level that is not that of the voters, as Kafka does. Raises `Failure`."""
        present = 0 if self._config.voters else 1
        if features.get(KRAFT_VERSION, present) != present:
            why = "without controller.quorum.voters it is 1, with it 0"
            raise Failure(f"{KRAFT_VERSION} follows from who says who votes: {why}", USAGE)

    def check_alone(self, cluster_id: str) -> None:
        """Refuse a second quorum for one cluster, where the first can be seen. Raises `Failure`."""
        if self._standalone:
            own = {spec.endpoint for spec in self._config.controller_listeners}
            own.update(self._reached_at().values())
            others = [at for at in self._config.bootstrap_controllers if at not in own]
            seen = find_quorum(cluster_id, others)
            if seen is not None:
                raise Failure(
                    f"cluster {cluster_id} has a quorum already, {seen}: format with"
                    " --no-initial-controllers and add this controller"
                )

    def other_voters(self) -> dict[int, Endpoint]:
        """The addresses of the quorum's other voters, where this node is to vote in it from the start."""
        config = self._config
        if self._initial is not None:
            listener = config.controller_listener_names[0]
            voters = {node: at.endpoints[listener] for node, at in self._initial.nodes.items()}
        else:
            voters = {int(voter.node_id): voter.endpoint for voter in config.voters}
        own = voters.pop(int(config.node_id), None) if config.is_controller else None
        return voters if own is not None else {}

    def prepare(self, disk: Disk, wall_ms: int, directory: str, directory_id: Uuid) -> Uuid:
        """Write them into a new metadata directory; the id that `directory` has then. Raises ``OSError``."""
        if directory != self._config.metadata_log_dir:
            return directory_id
        voters, node = self._initial, self._config.node_id
        if self._standalone:
            key = ReplicaKey(node, directory_id)
            voters = VoterSet.of(VoterNode(key, self._reached_at(), KRAFT_VERSIONS))
        if voters is None:
            return directory_id
        write_first_snapshot(disk, directory, voters, wall_ms)
        return voters.nodes[node].key.directory_id

    def _reached_at(self) -> dict[str, Endpoint]:
        """The addresses at which others reach this controller, by listener."""
        return self._config.reached_at(self._config.controller_listeners, machine_name)


def _parse(text: str, listener: str) -> VoterSet:
    """``ID@HOST:PORT:DIRECTORY,...``"""
    nodes = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        node, at, rest = item.partition("@")
        address, _, directory = rest.rpartition(":")
        host, _, port = address.rpartition(":")
        if not at or not is_int32(node) or not is_int32(port) or not host:
            raise Failure(
                f"--initial-controllers takes ID@HOST:PORT:DIRECTORY, not {item!r}", USAGE
            )
        try:
            key = ReplicaKey(int(node), Uuid(uuid_from_text(directory)))
        except ValueError as error:
            raise Failure(str(error), USAGE) from error
        endpoint = Endpoint(host.strip("[]"), int(port))
        nodes.append(VoterNode(key, {listener: endpoint}, KRAFT_VERSIONS))
    if len({n.key.id for n in nodes}) != len(nodes):
        raise Failure("--initial-controllers names a node twice", USAGE)
    return VoterSet.of(*nodes)
