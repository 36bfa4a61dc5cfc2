"""The content that a migration of a cluster on ZooKeeper will copy, and what prevents it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from barnabas.metadata.features import DIRECTORIES_SINCE, ELR_SINCE, metadata_version_name
from barnabas.metadata.image.known_configs import is_kept
from barnabas.zookeeper.layout.cluster_state_znodes import (
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    MIGRATION,
    ClusterIdZnode,
    ControllerZnode,
)
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.layout.config_znodes import resource_of
from barnabas.zookeeper.layout.request_znodes import DELETE_TOPICS, PREFERRED_ELECTION, REASSIGN
from barnabas.zookeeper.layout.topic_ids import without_id
from barnabas.zookeeper.migration.sensitive_values import is_encrypted
from barnabas.zookeeper.operations import NodeData

LAST_OF_3_9 = 21
"""metadata.version 3.9-IV0"""
WHO_GIVES_IDS = (
    "a controller of Barnabas, or of Kafka 2.8 to 3.9, gives them ids when it is elected, and brokers write"
    " them into their logs"
)
FINDINGS_SHOWN_MAX = 5
"""Names in a sentence."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings in the znodes."""

    cluster_id: str
    copied: Mapping[str, int]
    """How much there is of each kind."""
    preventing: tuple[str, ...]
    """A sentence for each reason; none where the migration may begin."""
    notes: tuple[str, ...]
    """The changes for users, a sentence each."""
    is_claimed: bool
    """A copy was begun: no broker on ZooKeeper becomes controller any more."""


class MigrationState(Enum):
    """How far a migration is, by `/controller` and `/migration`."""

    NONE = "the cluster is on ZooKeeper"
    BEGUN = "a KRaft controller has /controller, and the way back is open"
    FINAL = "a KRaft controller has /controller, and there is no way back"
    BROKEN_OFF = "/migration is left of a migration whose claim on /controller is gone"


def find(znodes: Mapping[str, NodeData], *, is_running: bool = False) -> Findings:
    """Find for the copy of a stopped cluster, or the migration of one that `is_running`. Raises
    `MalformedZnode` for a znode that is not Kafka's."""
    layout = ClusterLayout()
    layout.load(znodes)
    cluster = znodes.get(CLUSTER_ID)
    state = state_of(znodes)
    return Findings(
        "" if cluster is None else ClusterIdZnode.decode(CLUSTER_ID, cluster.data).cluster_id,
        _counts(layout),
        tuple(_preventing(layout, znodes, state, is_running)),
        tuple(_notes(layout)),
        state is MigrationState.BEGUN,
    )


def state_of(znodes: Mapping[str, NodeData]) -> MigrationState:
    """`/controller` of a KRaft controller stays when its session ends. Raises `MalformedZnode`."""
    node, is_marked = znodes.get(CONTROLLER), MIGRATION in znodes
    if node is not None:
        holder = ControllerZnode.decode(CONTROLLER, node.data)
        if holder.is_held_by_kraft(node.stat.ephemeral_owner):
            return MigrationState.BEGUN if is_marked else MigrationState.FINAL
    return MigrationState.BROKEN_OFF if is_marked else MigrationState.NONE


def is_claimed(znodes: Mapping[str, NodeData]) -> bool:
    """Whether a copy was begun, from which there is a way back."""
    return state_of(znodes) is MigrationState.BEGUN


def why_no_way_back(znodes: Mapping[str, NodeData]) -> str:
    """A sentence; empty where a migration was begun and is not final. Raises `MalformedZnode`."""
    match state_of(znodes):
        case MigrationState.BEGUN if CONTROLLER_EPOCH in znodes:
            return ""
        case MigrationState.BEGUN:
            return f"{CONTROLLER_EPOCH} is missing, on which every change is conditional: create it again"
        case MigrationState.FINAL:
            return _FINAL
        case MigrationState.BROKEN_OFF:
            return _BROKEN_OFF
        case MigrationState.NONE:
            return "no migration was begun: the brokers rule themselves"


_FINAL = "the migration is final: the cluster is under KRaft, and its znodes are used no more"
_BROKEN_OFF = (
    f"{MIGRATION} is there, but no KRaft controller has {CONTROLLER}: it is left of a migration that was"
    f" broken off; delete it by `zookeeper-shell.sh ... delete {MIGRATION}`"
)


def _counts(layout: ClusterLayout) -> dict[str, int]:
    users = {e for e, c in layout.configs.items() if e.startswith("users/") and c}
    return {
        "topics": len(layout.topics),
        "partitions": sum(len(t.znode.partitions) for t in layout.topics.values()),
        "configured resources": sum(
            1 for entity, config in layout.configs.items() if config and resource_of(entity)
        ),
        "users and their quotas": len(users),
        "other client quotas": sum(
            1
            for entity, config in layout.configs.items()
            if config and entity not in users and resource_of(entity) is None
        ),
        "access control entries": sum(len(rules) for rules in layout.acls.values()),
        "delegation tokens": len(layout.tokens),
    }


def notes_of_level(level: int) -> Iterator[str]:
    """The content that the log has under a metadata.version and znodes cannot hold: a sentence each."""
    name = metadata_version_name(level)
    if level > LAST_OF_3_9:
        last = metadata_version_name(LAST_OF_3_9)
        yield (
            f"metadata.version {name}: brokers of Apache Kafka 3.9 know none above {last}, and could not"
            f" register; with them it is --metadata-version {last}"
        )
    if level >= ELR_SINCE:
        yield (
            f"metadata.version {name} has eligible leader replicas, which znodes cannot say: a partition with"
            " an empty ISR gets them as its ISR there"
        )
    if level >= DIRECTORIES_SINCE:
        yield (
            f"metadata.version {name} says in which log directory a replica is: the log alone has it, and"
            " brokers report it again after a way back"
        )
    yield (
        "configurations of groups and of client metrics, and feature levels, are in the log alone: a way back"
        " loses them"
    )


def _preventing(
    layout: ClusterLayout, znodes: Mapping[str, NodeData], state: MigrationState, is_running: bool
) -> Iterator[str]:
    if CLUSTER_ID not in znodes:
        yield f"{CLUSTER_ID} is missing: this is no cluster that ever ran"
    if CONTROLLER_EPOCH not in znodes:
        yield (
            f"{CONTROLLER_EPOCH} is missing: no broker was ever elected controller here; let the brokers"
            " start once, and stop them"
        )
    if state is MigrationState.FINAL:
        yield _FINAL
    elif state is MigrationState.BROKEN_OFF:
        yield _BROKEN_OFF
    if not is_running:
        yield from _still_running(layout, znodes, state)
    nameless = [topic.znode.topic for topic in without_id(layout.topics.values())]
    if nameless:
        how = (
            WHO_GIVES_IDS
            if is_running
            else f"let the brokers run once, and stop them: {WHO_GIVES_IDS}"
        )
        yield f"topics {some_of(nameless)} have no id: {how}"


def _still_running(
    layout: ClusterLayout, znodes: Mapping[str, NodeData], state: MigrationState
) -> Iterator[str]:
    """Brokers that still run, and what they have to finish before they are stopped."""
    if layout.brokers:
        yield (
            f"brokers {some_of(layout.brokers)} are registered: stop them (a killed broker stays until its"
            " session ends)"
        )
    elif CONTROLLER in znodes and state in (MigrationState.NONE, MigrationState.BROKEN_OFF):
        yield f"{CONTROLLER} is there: a controller runs, or its session has not ended yet"
    deleting = [path for path in znodes if path.startswith(f"{DELETE_TOPICS}/")]
    if deleting:
        names = [path.rpartition("/")[2] for path in deleting]
        yield f"topics {some_of(names)} are being deleted: let the brokers finish, or create them again"
    for path, what in ((REASSIGN, "a reassignment"), (PREFERRED_ELECTION, "an election")):
        if path in znodes:
            yield f"{what} was asked for by {path} and is not finished: let the brokers finish it"


def _notes(layout: ClusterLayout) -> Iterator[str]:
    secret = [
        f"{entity}: {key}"
        for entity, config in layout.configs.items()
        for key in config
        if is_encrypted(entity, key)
    ]
    if secret:
        yield (
            f"{some_of(secret)} may be encrypted by password.encoder.secret, which KRaft does not use: set"
            " them again"
        )
    unknown = [
        f"{entity}: {key}"
        for entity, config in layout.configs.items()
        for key in config
        if (resource := resource_of(entity)) is not None and not is_kept(resource[0], key)
    ]
    if unknown:
        yield f"{some_of(unknown)} are no configurations under KRaft: they stay in the znodes alone"
    if layout.tokens:
        yield (
            f"{len(layout.tokens)} delegation tokens are used under KRaft where the controllers have the"
            " brokers' delegation.token.secret.key"
        )
    moving = [
        f"{name}-{number}"
        for name, topic in layout.topics.items()
        for number, assignment in topic.znode.partitions.items()
        if assignment.adding or assignment.removing
    ]
    if moving:
        yield f"reassignments of {some_of(moving)} continue under KRaft"


def some_of(names: Iterable[object]) -> str:
    """The first of `names`, sorted as text, and how many more there are."""
    found = sorted(map(str, names))
    shown = ", ".join(found[:FINDINGS_SHOWN_MAX])
    more = len(found) - FINDINGS_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
