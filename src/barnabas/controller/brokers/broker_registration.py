"""Registers a broker at each start of its process, and unregisters one that will not return.

Source: KIP-631, KIP-841, KIP-858, KIP-966; Kafka's ClusterControlManager. One difference to Kafka: if the
connection of the previous incarnation is closed, a new incarnation replaces it at once (docs/divergence.md).
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.controller.decision import Decision, Record
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.migration_state import check_mode
from barnabas.controller.partitions.leader_and_isr import (
    isr_updates,
    partitions_leaders_first,
)
from barnabas.controller.slicing import in_steps
from barnabas.metadata import features as levels
from barnabas.metadata.image.registrations import BrokerRegistration, holder_of_broker_id
from barnabas.metadata.records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from barnabas.metadata.records.unregister_broker_record import UnregisterBrokerRecord
from barnabas.types import DIRECTORIES_RESERVED, Uuid, uuid_text
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.broker_registration_request import BrokerRegistrationRequest
from barnabas.wire.messages.broker_registration_response import BrokerRegistrationResponse
from barnabas.wire.messages.unregister_broker_response import UnregisterBrokerResponse


class BrokerStanding(NamedTuple):
    """The facts on which a registration depends beside the image."""

    cluster_id: str
    session_valid: bool
    """The registered incarnation sent a heartbeat within the session time-out."""
    connection_open: bool
    """The registered incarnation's heartbeat connection is open."""
    wall_ms: int = -1
    """The current time."""


# -- registration --------------------------------------------------------------------------------


def register(
    cluster: ControllerContext, request: BrokerRegistrationRequest, standing: BrokerStanding
) -> Decision[BrokerRegistrationResponse]:
    """Register a broker process. With the same incarnation its epoch and state stay the same.

    Raises INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, UNSUPPORTED_VERSION,
    INVALID_REGISTRATION, BROKER_ID_NOT_REGISTERED.
    """
    _check_registration(cluster, request, standing)
    broker = request.broker_id
    known = cluster.image.brokers.get(broker)
    reason = _registration_reason(cluster, known, request)
    record = _registration_record(cluster, request, cluster.next_offset(), reason)
    record.registered_ms = standing.wall_ms
    response = BrokerRegistrationResponse(broker_epoch=record.broker_epoch)
    if known is not None and known.incarnation == request.incarnation_id:
        record.broker_epoch = response.broker_epoch = known.epoch
        record.fenced = known.fenced
        record.registered_ms = known.registered_ms
        record.in_controlled_shutdown = known.in_controlled_shutdown
    elif known is not None or cluster.image.replicas_on(broker):
        return _replace(cluster, known, request, record, reason)
    return Decision(response, [record], reason)


def _check_registration(
    cluster: ControllerContext, request: BrokerRegistrationRequest, standing: BrokerStanding
) -> None:
    if request.cluster_id != standing.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {standing.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    broker = request.broker_id
    known = cluster.image.brokers.get(broker)
    if known is not None and known.incarnation != request.incarnation_id:
        if standing.session_valid and standing.connection_open and not known.fenced:
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"Another broker is registered with that broker id: broker {broker} with"
                f" incarnation {uuid_text(known.incarnation)} is connected and sends heartbeats"
                f" ({holder_of_broker_id(known)})",
            )
    check_mode(cluster.image, broker, on_zookeeper=request.is_migrating_zk_broker)
    _check_listeners(request)
    _check_features(cluster, request)
    _check_directories(cluster, request)


def _check_listeners(request: BrokerRegistrationRequest) -> None:
    if not request.listeners:
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION, f"broker {request.broker_id} names no listener"
        )


def _check_features(cluster: ControllerContext, request: BrokerRegistrationRequest) -> None:
    """The broker must support every finalized feature level (KIP-584), also 0, which means none."""
    ranges = {f.name: f for f in request.features}
    if levels.METADATA_VERSION not in ranges:
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'"
        )
    finalized = {**dict.fromkeys(ranges, 0), **cluster.image.features}
    finalized[levels.METADATA_VERSION] = cluster.image.metadata_version
    finalized[levels.KRAFT_VERSION] = cluster.kraft_version()
    for name, level in sorted(finalized.items()):
        offered = ranges.get(name)
        if offered is None:
            if level > 0:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"Unable to register because the broker does not support finalized version"
                    f" {level} of {name}. The broker does not name that feature.",
                )
        elif not offered.min_supported_version <= level <= offered.max_supported_version:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level}"
                f" of {name}. The broker wants a version between {offered.min_supported_version}"
                f" and {offered.max_supported_version}, inclusive.",
            )


def _check_directories(cluster: ControllerContext, request: BrokerRegistrationRequest) -> None:
    """A broker has at least one log directory, none twice, and none of another broker (KIP-858)."""
    named = [Uuid(d) for d in request.log_dirs]
    if not named:
        named_later = request.is_migrating_zk_broker  # by the process that replaces it under KRaft
        if cluster.image.metadata_version >= levels.DIRECTORIES_SINCE and not named_later:
            raise KafkaError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
        return
    if len(set(named)) != len(named):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "A log directory is named twice")
    if any(int.from_bytes(d, "big") < DIRECTORIES_RESERVED for d in named):
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request: no directory has it"
        )
    for other in cluster.image.brokers.values():
        if other.id == request.broker_id:
            continue
        for directory in other.directories:
            if directory in named:
                raise KafkaError(
                    ErrorCode.INVALID_REGISTRATION,
                    f"Broker {other.id} is already registered with directory"
                    f" {uuid_text(directory)}",
                )


def _registration_reason(
    cluster: ControllerContext, known: BrokerRegistration | None, request: BrokerRegistrationRequest
) -> str:
    if known is None:
        if cluster.image.replicas_on(request.broker_id):
            return f"broker {request.broker_id} registers after it was unregistered"
        return f"broker {request.broker_id} registers for the first time"
    if known.incarnation == request.incarnation_id:
        return f"broker {request.broker_id} registers again with the same incarnation"
    clean = request.previous_broker_epoch == known.epoch
    return (
        f"broker {request.broker_id} was started again after"
        f" {'a clean' if clean else 'an unclean'} shutdown"
    )


def _registration_record(
    cluster: ControllerContext, request: BrokerRegistrationRequest, epoch: int, reason: str
) -> RegisterBrokerRecord:
    with_directories = cluster.image.metadata_version >= levels.DIRECTORIES_SINCE
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        broker_epoch=epoch,
        incarnation_id=request.incarnation_id,
        end_points=[
            BrokerEndpoint(
                name=at.name, host=at.host, port=at.port, security_protocol=at.security_protocol
            )
            for at in request.listeners
        ],
        features=[
            BrokerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in sorted(request.features, key=lambda f: f.name)
        ],
        rack=request.rack,
        fenced=True,
        in_controlled_shutdown=False,
        is_migrating_zk_broker=request.is_migrating_zk_broker,
        log_dirs=sorted(request.log_dirs) if with_directories else (),
        reason=reason,
    )


def _replace(
    cluster: ControllerContext,
    known: BrokerRegistration | None,
    request: BrokerRegistrationRequest,
    record: RegisterBrokerRecord,
    reason: str,
) -> Decision[BrokerRegistrationResponse]:
    """Remove the previous incarnation from the ISRs, and after an unclean shutdown from the ELRs (KIP-966);
    then register the new one. The same holds if the previous one was unregistered: a broker that comes under
    its id may have none of its records. Many partitions take several slices. If the controller changes
    meanwhile, the broker registers again, with the same result."""
    broker = request.broker_id
    unclean = known is None or request.previous_broker_epoch != known.epoch
    gone = broker if unclean and cluster.image.metadata_version >= levels.ELR_SINCE else None

    def decide(keys: list[int]) -> list[Record]:
        if _other_than(cluster, broker, known) is not None:
            return []
        with cluster.leaving([broker], reason):
            return list(isr_updates(cluster, keys, reason, unclean_shutdown=gone))

    response = BrokerRegistrationResponse(broker_epoch=record.broker_epoch)
    replicas = cluster.image.replicas_on(broker)
    records, work = in_steps(
        cluster.bounds, replicas, partitions_leaders_first(cluster, broker), decide
    )
    if work is None:
        return Decision(response, [record, *records], reason)
    cluster.departing[broker] = reason

    def register_now(at: ControllerContext) -> Decision[BrokerRegistrationResponse]:
        at.departing.pop(broker, None)
        other = _other_than(at, broker, known)
        if other is not None:
            return _registered_meanwhile(other, request)
        _check_features(at, request)
        _check_directories(at, request)
        epoch = response.broker_epoch = at.next_offset()
        later = _registration_record(at, request, epoch, reason)
        later.registered_ms = record.registered_ms
        return Decision(response, [later], reason)

    return Decision(response, records, reason, work, register_now)


def _other_than(
    cluster: ControllerContext, broker: int, known: BrokerRegistration | None
) -> BrokerRegistration | None:
    """The broker's registration if it is not `known` any more, the one from before the slices."""
    now = cluster.image.brokers.get(broker)
    return now if now is not None and (known is None or now.epoch != known.epoch) else None


def _registered_meanwhile(
    now: BrokerRegistration, request: BrokerRegistrationRequest
) -> Decision[BrokerRegistrationResponse]:
    """Answer a request that another one overtook: with the registration if it is of the same process. Raises
    DUPLICATE_BROKER_REGISTRATION if it is of another."""
    if now.incarnation == request.incarnation_id:
        return Decision(BrokerRegistrationResponse(broker_epoch=now.epoch))
    raise KafkaError(
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        f"Another process has registered as broker {now.id} meanwhile",
    )


# -- unregistration -------------------------------------------------------------------------------


def unregister(cluster: ControllerContext, broker: int) -> Decision[UnregisterBrokerResponse]:
    """Remove a broker that will not return. Raises BROKER_ID_NOT_REGISTERED."""
    known = cluster.image.brokers.get(broker)
    if known is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker} is not currently registered"
        )
    reason = f"broker {broker} was unregistered"
    response = UnregisterBrokerResponse(error_message=None)
    last = UnregisterBrokerRecord(broker_id=broker, broker_epoch=known.epoch, reason=reason)

    def decide(keys: list[int]) -> list[Record]:
        if _other_than(cluster, broker, known) is not None:
            return []  # the broker has registered again: the request was not about that incarnation
        with cluster.leaving([broker], reason):
            return list(isr_updates(cluster, keys, reason))

    replicas = cluster.image.replicas_on(broker)
    records, work = in_steps(
        cluster.bounds, replicas, partitions_leaders_first(cluster, broker), decide
    )
    if work is None:
        return Decision(response, [*records, last], reason)
    cluster.departing[broker] = reason

    def forget(at: ControllerContext) -> Decision[UnregisterBrokerResponse]:
        at.departing.pop(broker, None)
        now = at.image.brokers.get(broker)  # another request may have overtaken this one
        same = now is not None and now.epoch == known.epoch
        return Decision(response, [last] if same else [], reason)

    return Decision(response, records, reason, work, forget)
