"""Who votes in the quorum: ``barnabas quorum add-controller``, ``remove-controller`` and ``recover``.

Adding and removing ask the quorum's leader (KIP-853); recovering works on the directory of a stopped node.
Each can be tried with ``--dry-run``, which changes nothing and says what would happen.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import typer

from barnabas.cli.failure import Failure
from barnabas.cli.reaching import Bootstrap, Data, cluster
from barnabas.cli.storage import load_node_file
from barnabas.client.tasks import Outcome
from barnabas.config.meta_properties import DirectoryError, MetaProperties, read_meta_properties
from barnabas.config.node import NodeConfig
from barnabas.host.client import Connected
from barnabas.host.disk import HostDisk
from barnabas.raft.election_state import QuorumStateError
from barnabas.raft.recovery import RecoveryRefusedError, assess, recover
from barnabas.raft.settings import ReplicaSettings, settings_from_node
from barnabas.raft.snapshots import CorruptSnapshotError
from barnabas.types import METADATA_TOPIC, Endpoint, uuid_from_text, uuid_text
from barnabas.wire.errors import code_of
from barnabas.wire.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from barnabas.wire.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.remove_raft_voter_request import RemoveRaftVoterRequest

CHANGE_TIMEOUT_MS = 60_000
LOCK_FILE = ".lock"
_FILE = typer.Argument(help="The controller's server.properties.")
_DRY = typer.Option(False, "--dry-run", help="Say what would be done, and do nothing.")


def add_controller(
    file: Path = _FILE, bootstrap: Bootstrap = None, data: Data = None, dry_run: bool = _DRY
) -> None:
    """Make a running controller a voter. It must have caught up with the metadata log."""
    config = load_node_file(file)
    meta = _identity(config)
    listeners = config.controller_listeners
    with cluster(bootstrap, data) as connected:
        quorum = _describe(connected)
        where = ", ".join(map(str, listeners))
        print(f"voter to add: {meta.node_id}, directory {uuid_text(meta.directory_id)}, {where}")
        _print_voters(quorum)
        if dry_run:
            return
        request = AddRaftVoterRequest(
            cluster_id=meta.cluster_id,
            timeout_ms=CHANGE_TIMEOUT_MS,
            voter_id=meta.node_id,
            voter_directory_id=meta.directory_id,
            listeners=[Listener(name=s.name, host=s.host, port=s.port) for s in listeners],
        )
        _ask_leader(connected, quorum, request)
    print(f"node {meta.node_id} votes now")


def remove_controller(
    node: int = typer.Argument(help="The voter's node id."),
    directory: str = typer.Option(
        "", "--directory-id", help="Of which incarnation; the present voter's where not given."
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    dry_run: bool = _DRY,
) -> None:
    """Take a voter out of the quorum; it goes on as an observer."""
    with cluster(bootstrap, data) as connected:
        quorum = _describe(connected)
        voters = {v.replica_id: v for v in quorum.topics[0].partitions[0].current_voters}
        if node not in voters:
            raise Failure(f"node {node} does not vote; voters are {sorted(voters)}")
        key = uuid_from_text(directory) if directory else voters[node].replica_directory_id
        print(f"voter to remove: {node}, directory {uuid_text(key)}")
        _print_voters(quorum)
        left = len(voters) - 1
        print(f"{left} voters are left; the quorum then survives the loss of {(left - 1) // 2}")
        if dry_run:
            return
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node, voter_directory_id=key)
        _ask_leader(connected, quorum, request)
    print(f"node {node} votes no longer")


def recover_quorum(
    file: Path = _FILE,
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    dry_run: bool = _DRY,
) -> None:
    """Make one surviving, stopped controller the whole quorum when the majority is lost for good."""
    config = load_node_file(file)
    meta = _identity(config)
    disk = HostDisk()
    if not disk.try_lock(f"{config.metadata_log_dir}/{LOCK_FILE}"):
        raise Failure(f"node {meta.node_id} is running; stop it first")
    settings = _settings(config, meta)
    try:
        found = assess(disk, settings, config.metadata_log_dir)
        for sentence in found.sentences():
            print(sentence)
        print("The other voters' directories must never come back: they are another history.")
        if found.kraft_version < 1:
            own = next(v for v in config.voters if v.node_id == meta.node_id)
            print(
                f"The voters are static: set controller.quorum.voters={own} in every node's file."
            )
        if dry_run:
            return
        if not yes and not typer.confirm("Make this node the whole quorum?"):
            raise Failure("nothing was changed")
        wall_ms = time.time_ns() // 1_000_000
        recover(disk, settings, config.metadata_log_dir, wall_ms, "barnabas quorum recover")
    except (RecoveryRefusedError, QuorumStateError, CorruptSnapshotError) as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}") from error
    print(f"node {meta.node_id} is the quorum from offset {found.end.offset} on; start it")


def _identity(config: NodeConfig) -> MetaProperties:
    try:
        meta = read_meta_properties(HostDisk(), config.metadata_log_dir)
    except (DirectoryError, OSError) as error:
        raise Failure(str(error)) from error
    if meta is None:
        raise Failure(f"{config.metadata_log_dir} is not formatted")
    if not config.is_controller:
        raise Failure(f"node {config.node_id} is no controller")
    return meta


def _settings(config: NodeConfig, meta: MetaProperties) -> ReplicaSettings:
    listeners = {spec.name: Endpoint(spec.host, spec.port) for spec in config.controller_listeners}
    return settings_from_node(config, meta, listeners)


def _describe(connected: Connected) -> Any:
    topic = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData()])
    request = DescribeQuorumRequest(topics=[topic])
    return connected.call(connected.client.ask_any(lambda: request))


def _print_voters(quorum: Any) -> None:
    part = quorum.topics[0].partitions[0]
    for voter in part.current_voters:
        leads = ", leads" if voter.replica_id == part.leader_id else ""
        directory = uuid_text(voter.replica_directory_id)
        print(f"  voter {voter.replica_id}, directory {directory}{leads}")


def _ask_leader(connected: Connected, quorum: Any, request: Any) -> None:
    """Send a change to the leader's controller listener. Raises `Failure`."""
    leader = quorum.topics[0].partitions[0].leader_id
    nodes = {node.node_id: node.listeners for node in quorum.nodes}
    if not nodes.get(leader):
        raise Failure(f"where the leader {leader} listens is not known")
    at = nodes[leader][0]

    async def ask() -> Any:
        outcome: Outcome[Any] = Outcome()
        connected.client.channels.send(
            Endpoint(at.host, at.port), request, outcome.settle, timeout_ms=CHANGE_TIMEOUT_MS
        )
        return await outcome

    response = connected.call(ask())
    if response.error_code:
        name = code_of(response.error_code).name
        raise Failure(f"{name}: {response.error_message or 'the leader refuses'}")
