"""UpdateFeatures: moves finalized levels up or down, if every node supports the new level.

Source: KIP-584, KIP-778, KIP-1022; Kafka's FeatureControlManager. A downgrade of metadata.version
is refused if it would lose records of the levels in between. When ELR is enabled or disabled,
partitions are changed, too, so that no partition has an empty ISR which no replica can enter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.controller.atomic_batch import RECORDS_MAX
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import MIN_ISR, ControllerContext
from barnabas.controller.partitions.failover_reconcile import reconcile
from barnabas.metadata import features as levels
from barnabas.metadata.image.image import BROKER, CLUSTER_DEFAULT
from barnabas.metadata.records.clear_elr_record import ClearElrRecord
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
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
    cluster: ControllerContext, request: UpdateFeaturesRequest, version: int
) -> Decision[UpdateFeaturesResponse]:
    """Change all levels or none: the first update that cannot be made refuses the request. If a feature is
    named twice, the last update counts."""
    names = [update.feature for update in request.feature_updates]
    try:
        records = _records(cluster, request, version)
    except KafkaError as error:
        return Decision(error_response(request, error.code, error.message))
    response = UpdateFeaturesResponse(error_message=None, results=results(request, version))
    reason = "; ".join(
        f"{r.name} goes to {r.feature_level}" for r in records if isinstance(r, FeatureLevelRecord)
    )
    if request.validate_only:
        return Decision(response)
    # ISRs and elections follow other rules with ELR than without it.
    switched = levels.ELR_VERSION in names and records
    work = reconcile(cluster, "who switches ELR") if switched else None
    return Decision(response, records, reason, work)


def results(request: UpdateFeaturesRequest, version: int) -> Sequence[UpdatableFeatureResult]:
    """The result of each feature when all levels were changed, in versions that have such results."""
    if version > 1:
        return ()
    return [
        UpdatableFeatureResult(feature=update.feature, error_message=None)
        for update in request.feature_updates
    ]


def error_response(
    request: UpdateFeaturesRequest, code: int, message: str
) -> UpdateFeaturesResponse:
    """The error for the whole request, and for each feature in versions that have these."""
    return UpdateFeaturesResponse(error_code=code, error_message=message)


def _records(
    cluster: ControllerContext, request: UpdateFeaturesRequest, version: int
) -> list[Message]:
    proposed = dict(cluster.image.features)
    proposed.setdefault(levels.METADATA_VERSION, cluster.image.metadata_version)
    last = {update.feature: update for update in request.feature_updates}
    for name, update in last.items():
        proposed[name] = update.max_version_level
    records: list[Message] = []
    for update in last.values():
        records += _update(cluster, update, proposed, version)
    return records


def _update(
    cluster: ControllerContext, update: FeatureUpdateKey, proposed: Mapping[str, int], version: int
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


def check_kraft_version(cluster: ControllerContext, update: FeatureUpdateKey) -> None:
    """Check a level of kraft.version. The quorum sets it, but does not know all nodes. Raises
    INVALID_UPDATE_VERSION."""
    name, level = update.feature, update.max_version_level
    problem = unsupported(cluster, name, level)
    if problem is None and level > cluster.kraft_version() and update.upgrade_type != UPGRADE:
        problem = "Can't downgrade to a newer version."
    if problem:
        raise _invalid(name, level, problem)


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


def unsupported(cluster: ControllerContext, name: str, level: int) -> str | None:
    """The node that cannot serve the level, as a sentence: this one, a broker or a controller. None if all
    can."""
    own = levels.supported(cluster.image.features).get(name)
    if own is None:
        return f"Local controller {cluster.node_id} does not support this feature."
    lacking = levels.not_served(name, level)
    if level > own[1] and lacking:
        return f"Local controller {cluster.node_id} does not serve {lacking}."
    if not own[0] <= level <= own[1]:
        return f"Local controller {cluster.node_id} only supports versions {own[0]}-{own[1]}."
    for kind, nodes in (
        ("Broker", cluster.image.brokers),
        ("Controller", cluster.image.controllers),
    ):
        for node_id in sorted(nodes):
            if kind == "Controller" and node_id == cluster.node_id:
                continue  # this process, or an earlier one
            offered = nodes[node_id].features.get(name)
            if offered is None:
                if level == 0:
                    continue
                return f"{kind} {node_id} does not support this feature."
            if level not in offered:
                return (
                    f"{kind} {node_id} only supports versions {offered.lowest}-{offered.highest}."
                )
    if cluster.image.metadata_version >= levels.CONTROLLER_REGISTRATION_SINCE:
        for voter in cluster.voters:
            if voter != cluster.node_id and voter not in cluster.image.controllers:
                return f"Controller {voter} has not registered, and may not support this feature."
    return None


def _elr_records(cluster: ControllerContext, name: str, level: int) -> list[Message]:
    """The records that are needed before ELR is enabled, or that remove its state when it is disabled
    (KIP-966)."""
    if name != levels.ELR_VERSION:
        return []
    if level == 0:
        return [*_last_members(cluster), ClearElrRecord(topic_name="")]
    records: list[Message] = []
    if MIN_ISR not in cluster.image.config(BROKER, CLUSTER_DEFAULT):
        value = cluster.properties.get(MIN_ISR) or str(cluster.settings.min_insync_replicas)
        records.append(
            ConfigRecord(
                resource_type=BROKER,
                resource_name=CLUSTER_DEFAULT,
                name=MIN_ISR,
                value=value,
                reason="eligible leader replicas are switched on: the static value is written down",
            )
        )
    records += [
        ConfigRecord(
            resource_type=BROKER,
            resource_name=broker,
            name=MIN_ISR,
            value=None,
            reason="eligible leader replicas are switched on: no broker has a value of its own",
        )
        for kind, broker in sorted(cluster.image.configs)
        if kind == BROKER and broker and MIN_ISR in cluster.image.config(BROKER, broker)
    ]
    return records


def _last_members(cluster: ControllerContext) -> list[Message]:
    """The records after which no ISR is empty, as without ELR. One eligible replica becomes the last
    member, the last leader if it is eligible. Otherwise no replica would be awaited, and the partition
    would have no leader."""
    records: list[Message] = []
    for topic in list(cluster.image.topics_by_id.values()):
        for index, rare in sorted(topic.rare.items()):
            # The last leader may have been a new replica of a reassignment that was cancelled
            # later.
            replicas = topic.replicas[index]
            eligible = [b for b in rare.elr or rare.last_known_elr if b in replicas]
            if topic.isr[index] or not eligible:
                continue
            last = next((b for b in rare.last_known_elr if b in eligible), eligible[0])
            record = PartitionChangeRecord(topic_id=topic.id, partition_id=index)
            record.isr, record.eligible_leader_replicas, record.last_known_elr = (last,), (), ()
            record.reason = f"eligible leader replicas are given up: {last} is waited for"
            records.append(record)
    if len(records) > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{len(records)} partitions have an empty ISR: more than {RECORDS_MAX} at once cannot be"
            " given one. Start their brokers first.",
        )
    return records


def _invalid(name: str, level: int, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {level} for feature {name}. {why}",
    )
