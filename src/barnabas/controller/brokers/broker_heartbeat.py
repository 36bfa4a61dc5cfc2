"""Broker heartbeats: unfence, fence or shut down a broker; handle its offline and cordoned log directories.

States of a registration: fenced → unfenced → in controlled shutdown → fenced (the process may stop).

Source: KIP-631, KIP-841, KIP-858, KIP-1066; Kafka's BrokerHeartbeatManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.controller.broker_epochs import check_epoch
from barnabas.controller.brokers.broker_sessions import BrokerSessions
from barnabas.controller.brokers.controlled_shutdown import fence_on_request, lose_directories
from barnabas.controller.decision import Decision, Record
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.failover_reconcile import reconcile
from barnabas.controller.partitions.leader_and_isr import (
    isr_updates,
    leaderless,
    leads_any,
    partitions_leaders_first,
)
from barnabas.controller.slicing import in_steps
from barnabas.metadata import features as levels
from barnabas.metadata.image.registrations import BrokerRegistration
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.types import Uuid, uuid_text
from barnabas.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.wire.messages.broker_heartbeat_response import BrokerHeartbeatResponse


def heartbeat(
    cluster: ControllerContext, request: BrokerHeartbeatRequest, sessions: BrokerSessions
) -> Decision[BrokerHeartbeatResponse]:
    """Decide a broker's heartbeat. The request has the broker's metadata offset, and may ask to be
    fenced or to stop.

    The caller updates the broker's session. Raises STALE_BROKER_EPOCH.
    """
    known = check_epoch(cluster, request.broker_id, request.broker_epoch)
    decide = (
        _heartbeat_fenced
        if known.fenced
        else _heartbeat_leaving
        if known.in_controlled_shutdown
        else _heartbeat_active
    )
    decision = decide(cluster, known, request, sessions)
    decision.response.is_caught_up = request.current_metadata_offset >= known.epoch
    _change_directories(cluster, known, request, decision)
    return decision


def _lost_all(known: BrokerRegistration, request: BrokerHeartbeatRequest) -> bool:
    """Whether every registered log directory failed. No record can say that, since an empty list of
    directories means that they did not change."""
    return bool(known.directories) and len(_lost(known, request)) == len(known.directories)


def _lost(known: BrokerRegistration, request: BrokerHeartbeatRequest) -> list[Uuid]:
    """The registered log directories that failed."""
    return [d for d in known.directories if d in request.offline_log_dirs]


def _answer(*, fenced: bool, stop: bool = False) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(is_fenced=fenced, should_shut_down=stop)


def _heartbeat_fenced(
    cluster: ControllerContext,
    known: BrokerRegistration,
    request: BrokerHeartbeatRequest,
    _: BrokerSessions,
) -> Decision[BrokerHeartbeatResponse]:
    if request.want_shut_down:
        return Decision(
            _answer(fenced=True, stop=True), reason=f"fenced broker {known.id} may stop at once"
        )
    if request.want_fence:
        return Decision(_answer(fenced=True), reason=f"broker {known.id} wants to stay fenced")
    if _lost_all(known, request):
        return Decision(
            _answer(fenced=True), reason=f"broker {known.id} has no log directory that works"
        )
    if known.id in cluster.departing:
        why = f"broker {known.id} waits until it has left: {cluster.departing[known.id]}"
        return Decision(_answer(fenced=True), reason=why)
    if request.current_metadata_offset < known.epoch:
        return Decision(
            _answer(fenced=True),
            reason=f"broker {known.id} has replayed {request.current_metadata_offset} and not yet"
            f" its registration at {known.epoch}",
        )
    if _lost(known, request):
        # An election now could choose a replica in them. At the next heartbeat the registration no
        # longer has them.
        why = f"broker {known.id} waits until its lost log directories are forgotten"
        return Decision(_answer(fenced=True), reason=why)
    reason = f"broker {known.id} has caught up with its registration at {known.epoch}"
    records, work = unfence(cluster, known, reason)
    return Decision(_answer(fenced=False), records, reason, work)


def _heartbeat_active(
    cluster: ControllerContext,
    known: BrokerRegistration,
    request: BrokerHeartbeatRequest,
    sessions: BrokerSessions,
) -> Decision[BrokerHeartbeatResponse]:
    if _lost_all(known, request):
        reason = f"broker {known.id} lost all its log directories"
        return fence_on_request(cluster, known, reason, _answer(fenced=True))
    if not request.want_fence and not request.want_shut_down:
        return Decision(_answer(fenced=False))
    if request.want_fence or not leads_any(cluster, known.id):
        wish = "stop" if request.want_shut_down else "be fenced"
        reason = f"broker {known.id} asked to {wish}"
        answer = _answer(fenced=True, stop=request.want_shut_down)
        return fence_on_request(cluster, known, reason, answer)
    reason = f"broker {known.id} begins a controlled shutdown"
    record = BrokerRegistrationChangeRecord(
        broker_id=known.id, broker_epoch=known.epoch, in_controlled_shutdown=1, reason=reason
    )

    def decide(keys: list[int]) -> list[Record]:
        with cluster.leaving([known.id], reason):
            return list(isr_updates(cluster, keys, f"broker {known.id} shuts down"))

    replicas = cluster.image.replicas_on(known.id)
    records, steps = in_steps(
        cluster.bounds, replicas, partitions_leaders_first(cluster, known.id), decide
    )
    work = None if steps is None else tracked(cluster, sessions, [known.id], steps)
    return Decision(_answer(fenced=False), [record, *records], reason, work)


def tracked(
    cluster: ControllerContext,
    sessions: BrokerSessions,
    leaving: Iterable[int],
    steps: Iterator[Decision[None]],
) -> Iterator[Decision[None]]:
    """Pass on `steps`, and note the offset of the newest one in the sessions of the `leaving`
    brokers: they may stop only when all others have replayed it."""
    for step in steps:
        if step.size:
            for session in filter(None, map(sessions.get, leaving)):
                session.shutdown_offset = cluster.next_offset() + step.size - 1
        yield step


def reconciled(cluster: ControllerContext, sessions: BrokerSessions) -> Iterator[Decision[None]]:
    """The changes that a new controller makes to the image. Brokers in controlled shutdown stop
    only when the others have replayed them."""
    leaving = [b.id for b in cluster.image.brokers.values() if b.in_controlled_shutdown]
    return tracked(cluster, sessions, leaving, reconcile(cluster))


def _heartbeat_leaving(
    cluster: ControllerContext,
    known: BrokerRegistration,
    request: BrokerHeartbeatRequest,
    sessions: BrokerSessions,
) -> Decision[BrokerHeartbeatResponse]:
    """Decide whether a leaving broker may stop: once it leads no partition, and every active broker
    has replayed the new leaders."""
    if leads_any(cluster, known.id):
        return Decision(
            _answer(fenced=False),
            reason=f"broker {known.id} still leads partitions that no other broker can lead",
        )
    session = sessions.get(known.id)
    wanted = session.shutdown_offset if session is not None else -1
    behind = [
        s.broker
        for s in sessions
        if s.metadata_offset < wanted and cluster.is_active(s.broker) and s.broker != known.id
    ]
    if behind:
        return Decision(
            _answer(fenced=False),
            reason=f"brokers {behind} have not replayed offset {wanted}, where broker {known.id}"
            " gave up its leaderships",
        )
    reason = f"broker {known.id} leads nothing any more and stops"
    return fence_on_request(cluster, known, reason, _answer(fenced=True, stop=True))


def _change_directories(
    cluster: ControllerContext,
    known: BrokerRegistration,
    request: BrokerHeartbeatRequest,
    decision: Decision[BrokerHeartbeatResponse],
) -> None:
    """Add to `decision` the records for directories that went offline, and for the replicas in them, and for
    directories that were cordoned or uncordoned."""
    if cluster.image.metadata_version < levels.DIRECTORIES_SINCE or _lost_all(known, request):
        return
    lost = _lost(known, request)
    change = BrokerRegistrationChangeRecord(broker_id=known.id, broker_epoch=known.epoch)
    if lost:
        names = ", ".join(uuid_text(d) for d in lost)
        change.reason = f"broker {known.id} lost log directories {names}"
        change.log_dirs = [d for d in known.directories if d not in lost]
    if cluster.image.metadata_version >= levels.CORDONED_SINCE:
        cordoned = request.cordoned_log_dirs
        if cordoned is not None and tuple(sorted(cordoned)) != known.cordoned:
            change.cordoned_log_dirs = sorted(cordoned)
            change.reason = change.reason or f"broker {known.id} changed its cordoned directories"
    if lost:
        lose_directories(cluster, known, lost, change, decision)
    elif change.cordoned_log_dirs is not None:
        decision.records = [*decision.records, change]


def unfence(
    cluster: ControllerContext, known: BrokerRegistration, reason: str
) -> tuple[list[Record], Iterator[Decision[None]] | None]:
    """The records and the work that unfence a broker, and elect it for leaderless partitions that
    it may lead."""
    record = BrokerRegistrationChangeRecord(
        broker_id=known.id, broker_epoch=known.epoch, fenced=-1, reason=reason
    )

    def decide(keys: list[int]) -> list[Record]:
        cluster.arriving = known.id
        try:
            why = f"broker {known.id} is back"
            return list(isr_updates(cluster, keys, why, only_leaderless=True))
        finally:
            cluster.arriving = None

    replicas = cluster.image.replicas_on(known.id)
    records, work = in_steps(cluster.bounds, replicas, leaderless(cluster, known.id), decide)
    return [record, *records], work
