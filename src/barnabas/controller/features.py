"""UpdateFeatures: moving a finalized level up or down, where every node can follow.

Source: KIP-584, KIP-778, KIP-1022; Kafka's FeatureControlManager. Going down in metadata.version is
refused where records of the levels between would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.controller.cluster import MIN_ISR, Cluster
from barnabas.controller.decision import Decision
from barnabas.metadata import features as levels
from barnabas.metadata.image import BROKER, CLUSTER_DEFAULT
from barnabas.metadata.records.clear_elr_record import ClearElrRecord
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.update_features_request import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from barnabas.wire.messages.update_features_response import (
    UpdatableFeatureResult,
    UpdateFeaturesResponse,
)
from barnabas.wire.schema import Message

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def update_features(
    cluster: Cluster, request: UpdateFeaturesRequest, version: int
) -> Decision[UpdateFeaturesResponse]:
    """All or nothing: the first update that cannot be made refuses the request."""
    names = [update.feature for update in request.feature_updates]
    try:
        if len(set(names)) != len(names):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A feature is named twice.")
        records = _records(cluster, request, version)
    except KafkaError as error:
        return Decision(error_response(request, error.code, error.message))
    results = [UpdatableFeatureResult(feature=n, error_message=None) for n in names]
    response = UpdateFeaturesResponse(error_message=None, results=results if version <= 1 else ())
    reason = "; ".join(
        f"{r.name} goes to {r.feature_level}" for r in records if isinstance(r, FeatureLevelRecord)
    )
    return Decision(response, [] if request.validate_only else records, reason)


def error_response(
    request: UpdateFeaturesRequest, code: int, message: str
) -> UpdateFeaturesResponse:
    """The error for the whole request, and for each feature in versions that have these."""
    return UpdateFeaturesResponse(error_code=code, error_message=message)


def _records(cluster: Cluster, request: UpdateFeaturesRequest, version: int) -> list[Message]:
    proposed = dict(cluster.image.features)
    proposed.setdefault(levels.METADATA_VERSION, cluster.image.metadata_version)
    for update in request.feature_updates:
        proposed[update.feature] = update.max_version_level
    records: list[Message] = []
    for update in request.feature_updates:
        records += _update(cluster, update, proposed, version)
    return records


def _update(
    cluster: Cluster, update: FeatureUpdateKey, proposed: Mapping[str, int], version: int
) -> list[Message]:
    name, level = update.feature, update.max_version_level
    present = (
        cluster.image.metadata_version
        if name == levels.METADATA_VERSION
        else cluster.image.features.get(name, 0)
    )
    kind = update.upgrade_type
    if version == 0:
        kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(name, level, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(name, level, "A feature version cannot be less than 0.")
    problem = unsupported(cluster, name, level) or levels.missing_dependency(
        name, level, dict(proposed)
    )
    if problem:
        raise _invalid(name, level, problem)
    if level < present and kind == UPGRADE:
        raise _invalid(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either"
            " safe or unsafe downgrade.",
        )
    if level > present and kind != UPGRADE:
        raise _invalid(name, level, "Can't downgrade to a newer version.")
    if level == present:
        return []
    if name == levels.METADATA_VERSION:
        _check_metadata_version(present, level, kind)
    record: Message = FeatureLevelRecord(name=name, feature_level=level)
    return [*_elr_records(cluster, name, level), record]


def _check_metadata_version(present: int, level: int, kind: int) -> None:
    if level >= present or not levels.loses_metadata(present, level):
        return
    why = (
        "Unsafe metadata downgrade is not supported in this version."
        if kind == UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata"
        " information."
    )
    raise KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Unsupported metadata.version downgrade from {levels.metadata_version_name(present)} to"
        f" {levels.metadata_version_name(level)}. {why}",
    )


def unsupported(cluster: Cluster, name: str, level: int) -> str | None:
    """Which node cannot serve the level, or None: this one, a broker, a controller."""
    own = levels.supported().get(name)
    if own is None or name == levels.KRAFT_VERSION:
        return f"Local controller {cluster.node_id} does not support this feature."
    if not own[0] <= level <= own[1]:
        return f"Local controller {cluster.node_id} only supports versions {own[0]}-{own[1]}."
    for kind, nodes in (
        ("Broker", cluster.image.brokers),
        ("Controller", cluster.image.controllers),
    ):
        for node_id in sorted(nodes):
            offered = nodes[node_id].features.get(name)
            if offered is None:
                if level == 0 or kind == "Controller":
                    continue
                return f"{kind} {node_id} does not support this feature."
            if level not in offered:
                return (
                    f"{kind} {node_id} only supports versions {offered.lowest}-{offered.highest}."
                )
    return None


def _elr_records(cluster: Cluster, name: str, level: int) -> list[Message]:
    """What must hold before ELR is on, and what must be gone once it is off (KIP-966)."""
    if name != levels.ELR_VERSION:
        return []
    if level == 0:
        return [ClearElrRecord(topic_name="")]
    records: list[Message] = []
    if MIN_ISR not in cluster.image.config(BROKER, CLUSTER_DEFAULT):
        value = cluster.properties.get(MIN_ISR) or str(cluster.settings.min_insync_replicas)
        records.append(
            ConfigRecord(
                resource_type=BROKER, resource_name=CLUSTER_DEFAULT, name=MIN_ISR, value=value
            )
        )
    records += [
        ConfigRecord(resource_type=BROKER, resource_name=broker, name=MIN_ISR, value=None)
        for kind, broker in sorted(cluster.image.configs)
        if kind == BROKER and broker and MIN_ISR in cluster.image.config(BROKER, broker)
    ]
    return records


def _invalid(name: str, level: int, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {level} for feature {name}. {why}",
    )
