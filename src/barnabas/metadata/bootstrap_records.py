"""The records a new cluster begins with: ``storage format`` writes them, the first leader commits.

Source: Kafka's Formatter and BootstrapMetadata; KIP-778, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.metadata import features as levels
from barnabas.metadata.image.image import BROKER, CLUSTER_DEFAULT
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.schema import Message

MIN_ISR = "min.insync.replicas"


def bootstrap_records(
    metadata_version: int = levels.LATEST_METADATA_VERSION,
    overrides: Mapping[str, int] | None = None,
    *,
    min_insync_replicas: int = 1,
) -> list[Message]:
    """The feature levels of a new cluster, metadata.version first; then, with ELR, the cluster-wide
    ``min.insync.replicas`` that ELR needs set. kraft.version is no metadata record (the quorum
    keeps it) and is never among them. Raises ValueError for unknown names and levels.
    """
    wanted = dict(overrides or {})
    known = levels.supported()
    for name, level in [(levels.METADATA_VERSION, metadata_version), *wanted.items()]:
        if name not in known:
            raise ValueError(f"unknown feature {name}; known are {', '.join(sorted(known))}")
        low, high = known[name]
        lacking = levels.not_served(name, level)
        if lacking:
            raise ValueError(f"{name} stays at {levels.SERVED[name]}: {lacking} are not served")
        if not low <= level <= high:
            raise ValueError(f"{name} supports levels {low} to {high}, not {level}")
    metadata_version = wanted.pop(levels.METADATA_VERSION, metadata_version)
    finalized = {levels.METADATA_VERSION: metadata_version}
    for name in sorted(levels.FEATURES):
        if name != levels.KRAFT_VERSION:
            default = levels.default_level(name, metadata_version)
            finalized[name] = wanted.get(name, min(default, levels.SERVED.get(name, default)))
    for name, level in finalized.items():
        problem = levels.missing_dependency(name, level, finalized)
        if problem:
            raise ValueError(problem)
    records: list[Message] = [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in finalized.items()
        if level > 0
    ]
    return complete_bootstrap(records, min_insync_replicas)


def complete_bootstrap(records: Sequence[Message], min_insync_replicas: int) -> list[Message]:
    """The records that the first leader commits for a formatted directory: the defaults where that
    is nothing, and with ELR always the ``min.insync.replicas`` of the whole cluster (Apache
    Kafka's tool writes the levels only)."""
    if not records:
        return bootstrap_records(min_insync_replicas=min_insync_replicas)
    elr = any(
        isinstance(r, FeatureLevelRecord) and r.name == levels.ELR_VERSION and r.feature_level >= 1
        for r in records
    )
    known = any(
        isinstance(r, ConfigRecord)
        and (r.resource_type, r.resource_name, r.name) == (BROKER, CLUSTER_DEFAULT, MIN_ISR)
        for r in records
    )
    if not elr or known:
        return list(records)
    wanted = ConfigRecord(
        resource_type=BROKER,
        resource_name=CLUSTER_DEFAULT,
        name=MIN_ISR,
        value=str(min_insync_replicas),
    )
    return [*records, wanted]
