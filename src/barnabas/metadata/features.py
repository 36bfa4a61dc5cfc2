"""Feature levels of Kafka 4.4: metadata.version and its companions, and what each level means.

A level decides which version of each record is written, never what replay understands: replay
reads every version. Levels, names and dependencies are those of Apache Kafka 4.4.0
(MetadataVersion, Feature; KIP-584, KIP-778, KIP-1022).

Source: Kafka's ``MetadataVersion``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from barnabas.wire.api_table import ApiKey

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"

MINIMUM_METADATA_VERSION: Final = 7
LATEST_METADATA_VERSION: Final = 33

METADATA_VERSION_NAMES: Final[dict[int, str]] = {
    7: "3.3-IV3", 8: "3.4-IV0", 9: "3.5-IV0", 10: "3.5-IV1", 11: "3.5-IV2", 12: "3.6-IV0",
    13: "3.6-IV1", 14: "3.6-IV2", 15: "3.7-IV0", 16: "3.7-IV1", 17: "3.7-IV2", 18: "3.7-IV3",
    19: "3.7-IV4", 20: "3.8-IV0", 21: "3.9-IV0", 22: "4.0-IV0", 23: "4.0-IV1", 24: "4.0-IV2",
    25: "4.0-IV3", 26: "4.1-IV0", 27: "4.1-IV1", 28: "4.2-IV0", 29: "4.2-IV1", 30: "4.3-IV0",
    31: "4.4-IV0", 32: "4.4-IV1", 33: "4.4-IV2",
}  # fmt: skip
METADATA_CHANGED_AT: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33})
"""Levels that brought a new record or record version: going below one loses metadata."""

CONTROLLER_REGISTRATION_SINCE: Final = 15
DIRECTORIES_SINCE: Final = 17
"""Assignment to log directories (KIP-858)."""
ELR_SINCE: Final = 23
CORDONED_SINCE: Final = 30
"""Cordoned log directories (KIP-1066)."""
NETWORKS_IN_ACLS_SINCE: Final = 32
"""ACLs whose host is a network (KIP-1276)."""
CONTROLLERS_LEAVE_SINCE: Final = 33
"""Unregistration of controllers."""
NO_EPOCH_BUMP_ON_SHRINK_SINCE: Final = 12
"""Before, shrinking an ISR had to bump the leader epoch."""


class FeatureLevel(NamedTuple):
    """One level of a feature: the metadata.version whose release made it the default, and the
    levels of other features without which it cannot be."""

    default_since: int
    needs: tuple[tuple[str, int], ...] = ()


FEATURES: Final[dict[str, tuple[FeatureLevel, ...]]] = {
    KRAFT_VERSION: (FeatureLevel(7), FeatureLevel(21)),
    TRANSACTION_VERSION: (FeatureLevel(7), FeatureLevel(24), FeatureLevel(24)),
    GROUP_VERSION: (FeatureLevel(7), FeatureLevel(22)),
    ELR_VERSION: (FeatureLevel(7), FeatureLevel(26, ((METADATA_VERSION, ELR_SINCE),))),
    SHARE_VERSION: (FeatureLevel(7), FeatureLevel(28), FeatureLevel(31)),
    STREAMS_VERSION: (FeatureLevel(7), FeatureLevel(29)),
}
"""Levels 0, 1, ... of every feature beside metadata.version."""

DEAD_LETTERS_SINCE: Final = 2
"""The level of ``share.version`` at which share groups may have dead-letter topics (KIP-1191)."""
SERVED: Final[dict[str, int]] = {}
"""The highest level that is served, where that is not the highest there is. A cluster that Apache Kafka
formatted has higher ones finalized: a node lives with any level, and never asks for one above. The APIs of
each level are in `APIS_OF_LEVEL`; a test compares them with those that brokers serve."""
KINDS_OF_GROUPS: Final = {SHARE_VERSION: "share groups"}
APIS_OF_LEVEL: Final[dict[tuple[str, int], frozenset[ApiKey]]] = {
    (SHARE_VERSION, 1): frozenset(
        {
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_DESCRIBE,
            ApiKey.SHARE_FETCH,
            ApiKey.SHARE_ACKNOWLEDGE,
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        }
    ),
    (STREAMS_VERSION, 1): frozenset(
        {
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            ApiKey.STREAMS_GROUP_DESCRIBE,
            ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        }
    ),
}
"""The APIs without which a level of a feature means nothing."""

_ACCEPTED = {
    METADATA_VERSION: (MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION),
    **{name: (0, len(steps) - 1) for name, steps in FEATURES.items()},
}


def accepted() -> dict[str, tuple[int, int]]:
    """The levels a node can live with, by feature: (lowest, highest). Nodes claim these when they register,
    since Kafka's controller refuses a node that does not name every finalized level."""
    return dict(_ACCEPTED)


def supported(finalized: Mapping[str, int] | None = None) -> dict[str, tuple[int, int]]:
    """The levels that clients are offered, by feature: (lowest, highest). A feature has no level that is not
    served, but for those up to the level which the cluster has `finalized`."""
    present = finalized or {}
    return {
        name: (low, min(high, max(SERVED.get(name, high), present.get(name, 0))))
        for name, (low, high) in _ACCEPTED.items()
    }


def not_served(name: str, level: int) -> str | None:
    """The kind of groups that `level` of a feature takes and that no node here serves, or None."""
    return KINDS_OF_GROUPS[name] if level > SERVED.get(name, level) else None


def default_level(name: str, metadata_version: int) -> int:
    """The level a feature has in a new cluster of that metadata.version that Apache Kafka formats. Our own
    clusters have the levels that are `SERVED`, at most."""
    if name == METADATA_VERSION:
        return metadata_version
    level = 0
    for number, step in enumerate(FEATURES[name]):
        if step.default_since <= metadata_version:
            level = number
    return level


def missing_dependency(name: str, level: int, finalized: dict[str, int]) -> str | None:
    """A sentence on what `level` of `name` needs and does not find, or None."""
    steps = FEATURES.get(name)
    if steps is None or not 0 <= level < len(steps):
        return None
    for other, least in steps[level].needs:
        if finalized.get(other, 0) < least:
            return f"{name} could not be set to {level} because it depends on {other} level {least}"
    return None


def loses_metadata(old: int, new: int) -> bool:
    """Whether going down from metadata.version `old` to `new` loses what records hold."""
    return any(new < level <= old for level in METADATA_CHANGED_AT)


def metadata_version_name(level: int) -> str:
    """The name that people read: 33 is 4.4-IV2."""
    return METADATA_VERSION_NAMES.get(level, str(level))


def metadata_version_from_name(name: str) -> int:
    """Inverse; a release such as ``4.4`` or ``4.4.0`` means its last level. Raises ValueError."""
    for level, known in METADATA_VERSION_NAMES.items():
        if known == name:
            return level
    release = ".".join(name.split(".")[:2])
    found = [at for at, known in METADATA_VERSION_NAMES.items() if known.split("-")[0] == release]
    if not found:
        raise ValueError(
            f"{name!r} is no metadata.version; known are"
            f" {METADATA_VERSION_NAMES[MINIMUM_METADATA_VERSION]} to"
            f" {METADATA_VERSION_NAMES[LATEST_METADATA_VERSION]}"
        )
    return max(found)


class RecordVersions(NamedTuple):
    """Which version of the records that have several is written at one metadata.version."""

    register_broker: int
    broker_registration_change: int
    partition: int
    partition_change: int


@cache
def record_versions(metadata_version: int) -> RecordVersions:
    """Versions as Kafka's MetadataVersion gives them."""
    directories = metadata_version >= DIRECTORIES_SINCE
    elr = metadata_version >= ELR_SINCE
    cordoned = metadata_version >= CORDONED_SINCE
    return RecordVersions(
        register_broker=4 if cordoned else 3 if directories else 2 if metadata_version >= 8 else 1,
        broker_registration_change=3 if cordoned else 2 if directories else 1,
        partition=2 if elr else 1 if directories else 0,
        partition_change=2 if elr else 1 if directories else 0,
    )
