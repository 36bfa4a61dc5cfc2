"""Who votes in the quorum: ``barnabas quorum add-controller``, ``remove-controller`` and ``recover``.

Adding and removing ask the quorum's leader (KIP-853); recovering works on the directory of a stopped node.
Each can be tried with ``--dry-run``, which changes nothing and says what would happen.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import typer

from barnabas.cli.commands.storage import load_node_file
from barnabas.cli.confirming import confirm
from barnabas.cli.connection.connect import USAGE, AsJson, Bootstrap, Data, answer
from barnabas.cli.connection.quorum_client import Controllers, quorum_client
from barnabas.cli.failure import Failure
from barnabas.cli.moments import date_text
from barnabas.cli.plain_text import counted, say
from barnabas.cli.reports.quorum_view import QuorumView, view_of
from barnabas.config.meta_properties import DirectoryError, MetaProperties, read_meta_properties
from barnabas.config.node import NodeConfig
from barnabas.host.disk import HostDisk, sentence_of
from barnabas.host.network import machine_name
from barnabas.log.errors import CorruptLogError
from barnabas.raft.core.election_state import QuorumStateError
from barnabas.raft.quorum_recovery import (
    DAMAGED,
    Assessment,
    RecoveryRefusedError,
    assess,
    recover,
)
from barnabas.raft.settings import ReplicaSettings, settings_from_node
from barnabas.raft.storage.snapshot_files import CorruptSnapshotError
from barnabas.types import Uuid, uuid_from_text, uuid_text
from barnabas.wire.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from barnabas.wire.messages.remove_raft_voter_request import RemoveRaftVoterRequest

CHANGE_TIMEOUT_MS = 60_000
LOCK_FILE = ".lock"
_FILE = typer.Argument(help="The controller's server.properties.")
_DRY = typer.Option(False, "--dry-run", help="Say what would be done, and do nothing.")


def add_controller(
    file: Path = _FILE,
    bootstrap: Bootstrap = None,
    controllers: Controllers = None,
    data: Data = None,
    dry_run: bool = _DRY,
    as_json: AsJson = False,
) -> None:
    """Make a running controller a voter. It must have caught up with the metadata log."""
    config = load_node_file(file)
    meta = _identity(config)
    listeners = config.reached_at(config.controller_listeners, machine_name)
    with quorum_client(bootstrap, controllers, data) as client:
        quorum = client.describe()
        where = [f"{name}://{at}" for name, at in listeners.items()]
        directory_id = uuid_text(meta.directory_id)
        view = view_of(quorum, "")
        if not as_json:
            say(f"voter to add: {meta.node_id}, directory {directory_id}, {', '.join(where)}")
            _print_voters(view)
        change = {
            "dry_run": dry_run,
            "node_id": meta.node_id,
            "directory_id": directory_id,
            "endpoints": where,
            "voters_before": [voter.as_voter() for voter in view.voters],
            "notes": [],
        }
        if dry_run:
            notes = _check_can_join(view, meta)
            answer(as_json, {**change, "notes": notes}, *notes)
            return
        request = AddRaftVoterRequest(
            cluster_id=meta.cluster_id,
            timeout_ms=CHANGE_TIMEOUT_MS,
            voter_id=meta.node_id,
            voter_directory_id=meta.directory_id,
            listeners=[
                Listener(name=name, host=at.host, port=at.port) for name, at in listeners.items()
            ],
        )
        client.ask_leader(quorum, request, CHANGE_TIMEOUT_MS)
    answer(as_json, change, f"node {meta.node_id} votes now")


def remove_controller(
    node: int = typer.Argument(help="The voter's node id."),
    directory: str = typer.Option(
        "", "--directory-id", help="Of which incarnation; the present voter's where not given."
    ),
    bootstrap: Bootstrap = None,
    controllers: Controllers = None,
    data: Data = None,
    dry_run: bool = _DRY,
    as_json: AsJson = False,
) -> None:
    """Take a voter out of the quorum; it continues as an observer."""
    with quorum_client(bootstrap, controllers, data) as client:
        quorum = client.describe()
        voters = {v.replica_id: v for v in quorum.topics[0].partitions[0].current_voters}
        if node not in voters:
            raise Failure(f"node {node} does not vote; voters are {sorted(voters)}")
        key = _directory_of(voters[node], directory)
        view = view_of(quorum, "")
        notes = _who_is_left(view, node)
        if not as_json:
            say(f"voter to remove: {node}, directory {uuid_text(key)}")
            _print_voters(view)
            for sentence in notes:
                say(sentence)
        _check_changeable(view)
        change = {
            "dry_run": dry_run,
            "node_id": node,
            "directory_id": uuid_text(key),
            "voters_before": [voter.as_voter() for voter in view.voters],
            "notes": notes,
        }
        if dry_run:
            answer(as_json, change)
            return
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node, voter_directory_id=key)
        client.ask_leader(quorum, request, CHANGE_TIMEOUT_MS)
    answer(
        as_json,
        change,
        f"node {node} was taken out of the voters and continues as an observer",
        "with controller.quorum.auto.join.enable=true it joins them again, unless its process ends first",
    )


def recover_quorum(
    file: Path = _FILE,
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    cut: bool = typer.Option(False, "--cut", help="Give up what a damaged metadata log lacks."),
    dry_run: bool = _DRY,
    as_json: AsJson = False,
) -> None:
    """Make one surviving, stopped controller the whole quorum when the majority is lost for good."""
    config = load_node_file(file)
    meta = _identity(config)
    disk = HostDisk()
    if not disk.try_lock(f"{config.metadata_log_dir}/{LOCK_FILE}"):
        raise Failure(f"node {meta.node_id} is running; stop it first")
    settings = _settings(config, meta)
    from barnabas.node.recovered_metadata import beyond_what_was_lost

    try:
        found = assess(disk, settings, config.metadata_log_dir, beyond_what_was_lost)
        notes = _notes_of(found, config)
        for sentence in notes:
            say(sentence, err=as_json)  # beside the question, or the reason of a refusal
        recovery = {
            "dry_run": dry_run,
            "node_id": meta.node_id,
            "end_offset": found.end.offset,
            "is_damaged": found.is_damaged,
            "notes": notes,
        }
        if found.is_damaged and not cut:
            raise RecoveryRefusedError(f"the log {DAMAGED}")
        if dry_run:
            answer(as_json, recovery)
            return
        confirm("Make this node the whole quorum?", yes)
        recover(
            disk,
            settings,
            config.metadata_log_dir,
            time.time_ns() // 1_000_000,
            "barnabas quorum recover",
            beyond_what_was_lost,
            cut_damage=cut,
        )
    except QuorumStateError as error:
        raise Failure(f"{error}; to recover without it, which loses nothing, remove it") from error
    except CorruptSnapshotError as error:
        raise Failure(f"{error}; to recover from an older one and the log, remove it") from error
    except (RecoveryRefusedError, CorruptLogError) as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(sentence_of(error)) from error
    answer(
        as_json,
        recovery,
        f"node {meta.node_id} is the quorum from offset {found.end.offset} on; start it",
    )


def _notes_of(found: Assessment, config: NodeConfig) -> list[str]:
    """Sentences that an operator must know before this node becomes the whole quorum."""
    notes = found.sentences()
    if found.last_timestamp_ms >= 0:
        last = date_text(found.last_timestamp_ms)
        notes.append(f"The last record here was written at {last} UTC.")
    notes.append("The other voters' directories must never come back: they are another history.")
    if found.kraft_version < 1:
        own = next(v for v in config.voters if v.node_id == config.node_id)
        notes.append(
            f"The voters are static: set controller.quorum.voters={own} in every node's file."
        )
    return notes


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
    listeners = config.reached_at(config.controller_listeners, machine_name)
    return settings_from_node(config, meta, listeners)


def _print_voters(view: QuorumView) -> None:
    for voter in view.voters:
        leads = ", leads" if voter.node_id == view.leader_id else ""
        say(f"  voter {voter.identity}{leads}")


def _directory_of(voter: Any, wanted: str) -> Uuid:
    """The directory id of the voter to remove; the one asked for must be the present one's."""
    present: Uuid = voter.replica_directory_id
    if not wanted:
        return present
    try:
        asked = uuid_from_text(wanted)
    except ValueError as error:
        raise Failure(str(error), USAGE) from error
    if asked != present:
        raise Failure(
            f"node {voter.replica_id} votes with directory {uuid_text(present)}, not with {wanted}"
        )
    return asked


def _check_changeable(view: QuorumView) -> None:
    """Raises `Failure` where the leader would refuse every change."""
    if view.is_static:
        raise Failure(
            "the voters are static (controller.quorum.voters, kraft.version 0): it would be refused"
        )


def _check_can_join(view: QuorumView, meta: MetaProperties) -> list[str]:
    """Refuse what the leader would refuse, as far as it can be seen beforehand; else what there is to know.
    Raises `Failure`."""
    _check_changeable(view)
    if any(voter.node_id == meta.node_id for voter in view.voters):
        raise Failure(f"node {meta.node_id} is a voter already: it would be refused")
    own = uuid_text(meta.directory_id)
    rows = [o for o in view.observers if (o.node_id, o.directory_id) == (meta.node_id, own)]
    notes = [
        f"it is {counted(row.lag, 'record')} behind the leader; it must have caught up to be added"
        for row in rows
    ]
    if not rows:
        notes.append(
            "it does not fetch from the leader yet: start it, or the leader would wait for it"
        )
    count = len(view.voters) + 1
    return [*notes, f"{counted(count, 'voter')} would survive the loss of {(count - 1) // 2}"]


def _who_is_left(view: QuorumView, node: int) -> list[str]:
    """Sentences on what the quorum is like without `node`. Raises `Failure` where none is left."""
    left = {voter.node_id for voter in view.voters} - {node}
    if not left:
        raise Failure(f"node {node} is the last voter; a quorum has at least one")
    survived = (len(left) - 1) // 2
    notes = [f"{len(left)} voters are left; the quorum then survives the loss of {survived}"]
    following = left & view.following()
    if len(following) <= len(left) // 2:
        silent = sorted(left - following)
        notes.append(f"voters {silent} do not fetch: until they are back it would be refused")
    return notes
