"""ShareFetch.

Behaviour: a member of a share group acquires records of the partitions of its share session, and
may acknowledge others with the same request (KIP-932). See
:mod:`barnabas.broker.share.share_fetches`. Epoch 0 begins a session, -1 ends it and releases what
the member holds. With an authorizer, each request checks that the member may read its topics.
UNSUPPORTED_VERSION if ``share.version`` is 0.

Version notes: 1 is the first that Kafka 4.1 and later serve; 2 can bound the number of records
strictly (KIP-1206) and renew locks (KIP-1222).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from barnabas.broker.leader_hints import LEADERSHIP, add_share_leaders
from barnabas.broker.roles import ShareRole
from barnabas.broker.share.share_fetches import Delivered, FetchTerms, Results
from barnabas.broker.share.share_groups import ShareGroups
from barnabas.broker.share.share_partition import Wanted
from barnabas.broker.share.share_sessions import Member, Place, ShareSession
from barnabas.broker.share.told import RENEWS_SINCE, Outcome, check_member, told_of
from barnabas.replication.sessions import FINAL_EPOCH, INITIAL_EPOCH
from barnabas.security.authorization.topic_reader import TopicReader
from barnabas.types import Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_fetch_request import ShareFetchRequest
from barnabas.wire.messages.share_fetch_response import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

error_response = top_level_error(ShareFetchResponse)

API = Api(ApiKey.SHARE_FETCH, ShareFetchRequest, error_response, "group", "read", waits=True)
STRICT = 1
"""The acquire mode in which an answer never has more than `max_records`."""
READ_COMMITTED = "read_committed"


def handle(
    request: ShareFetchRequest, ctx: RequestContext, broker: ShareRole
) -> ShareFetchResponse | Parked:
    shares = broker.shares.open()
    if not shares.is_enabled:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "")
    check_member(request.group_id, request.member_id)
    renews = ctx.api_version >= RENEWS_SINCE and request.is_renew_ack
    if renews:
        _check_renewal(request)
    answer = _Answer(request, ctx, broker, shares)
    has_told = any(p.acknowledgement_batches for t in request.topics for p in t.partitions)
    try:
        places = answer.begin(has_told=has_told)
    except KafkaError as error:
        if error.code != ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            raise
        return answer.refuse_later(error)
    most = partial(shares.fetches.told_most, answer.member)
    told, refused = told_of(request.topics, ctx.api_version, most, renews=renews)
    reader = answer.reader()
    denied = {place: _denial(reader, place) for place in told}
    asked = {place: items for place, items in told.items() if denied[place] is None}
    refused.update({place: denied[place] for place in told if place not in asked})
    shares.fetches.acknowledge(
        answer.member, asked, lambda outcome: answer.on_acknowledged({**refused, **outcome})
    )
    if renews:
        answer.on_delivered({})
    else:
        answer.fetch(places, reader)
    return answer.parked


def _check_renewal(request: ShareFetchRequest) -> None:
    """Raises INVALID_REQUEST if a request that renews locks fetches records, too."""
    given = {
        "maxBytes": request.max_bytes,
        "minBytes": request.min_bytes,
        "maxRecords": request.max_records,
        "maxWaitMs": request.max_wait_ms,
    }
    wrong = [f"{name} must be set to 0" for name, value in given.items() if value]
    if wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{', '.join(wrong)}, if isRenewAck is true.")


def _denial(reader: TopicReader | None, place: Place) -> KafkaError | None:
    try:
        if reader is not None:
            reader.check(place[0])
    except KafkaError as error:
        return error
    return None


class _Answer:
    """The answer to one request: acquired records, and the results of acknowledgements."""

    def __init__(
        self,
        request: ShareFetchRequest,
        ctx: RequestContext,
        broker: ShareRole,
        shares: ShareGroups,
    ) -> None:
        self.request = request
        self.ctx = ctx
        self.broker = broker
        self.shares = shares
        self.member = Member(request.group_id or "", request.member_id or "")
        self.parked = Parked()
        self.session: ShareSession | None = None
        self._delivered: Results | None = None
        self._acknowledged: Outcome | None = None

    def reader(self) -> TopicReader | None:
        authorizer = self.broker.authorizer
        return None if authorizer is None else TopicReader(authorizer, self.ctx)

    def begin(self, *, has_told: bool) -> list[Place]:
        """Begin or continue the session, and return the partitions to fetch. Raises
        ``KafkaError``."""
        request, sessions = self.request, self.shares.fetches.sessions
        epoch = request.share_session_epoch
        named = [(t.topic_id, p.partition_index) for t in request.topics for p in t.partitions]
        if epoch == INITIAL_EPOCH:
            if has_told:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "The first request of a session acknowledges."
                )
            self.session = sessions.begin(self.member, self.ctx.connection_id)
            self.session.update(named, ())
        else:
            self.session = sessions.continue_from(self.member, epoch)
            if epoch == FINAL_EPOCH:
                return []
            forgotten = [
                (topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            ]
            self.session.update(named, forgotten)
        places = list(self.session.places)
        turn = epoch % len(places) if places else 0
        return places[turn:] + places[:turn]

    def refuse_later(self, error: KafkaError) -> Parked:
        """Refuse the request after a delay: there is no room for another session, and the client
        would retry at once."""
        ports = self.broker.ports
        refusal = error_response(self.request, error.code, error.message)

        def refuse() -> None:
            self.parked.complete(refusal)

        ports.wakeups.call_at(ports.clock.now_ms() + max(self.request.max_wait_ms, 0), refuse)
        return self.parked

    def fetch(self, places: Sequence[Place], reader: TopicReader | None) -> None:
        request, image = self.request, self.broker.image
        failed: Results = {}
        wanted: list[Place] = []
        for place in places:
            error = _denial(reader, place)
            topic = image.topics_by_id.get(place[0])
            if topic is None:
                error = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "The topic id is not known.")
            elif error is None and not topic.has(place[1]):
                error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition.")
            if error is None:
                wanted.append(place)
            else:
                failed[place] = Delivered(b"", (), error)
        if not wanted:
            self.on_delivered(failed)
            return
        group_id = self.member.group_id
        isolation = self.broker.groups.cluster.group_value(group_id, "share.isolation.level")
        bytes_max = self._bytes_max()
        asked = FetchTerms(
            self.member,
            Wanted(request.max_records, request.batch_size, request.share_acquire_mode == STRICT),
            bytes_max,
            min(request.min_bytes, bytes_max),
            str(isolation).lower() == READ_COMMITTED,
        )
        self.shares.fetches.fetch(
            asked,
            wanted,
            0 if failed else request.max_wait_ms,
            lambda results: self.on_delivered({**failed, **results}),
            lambda: self.parked.done,
        )

    def _bytes_max(self) -> int:
        bytes_max = min(self.request.max_bytes, self.broker.fetches.response_bytes_max)
        quotas = self.broker.quotas
        if quotas.active:
            limit = quotas.fetch_bytes_max(self.ctx.principal, self.ctx.client_id)
            if limit is not None:
                bytes_max = min(bytes_max, int(limit))
        return bytes_max

    def on_delivered(self, results: Results) -> None:
        self._delivered = results
        self._maybe_complete()

    def on_acknowledged(self, outcome: Outcome) -> None:
        self._acknowledged = outcome
        self._maybe_complete()

    def _maybe_complete(self) -> None:
        if self._delivered is None or self._acknowledged is None:
            return
        response = self._response(self._delivered, self._acknowledged)
        fetches, session = self.shares.fetches, self.session
        if self.request.share_session_epoch == FINAL_EPOCH and session is not None:
            if fetches.sessions.end(session):
                fetches.release(session)
        self.parked.complete(response)

    def _response(self, results: Results, acknowledged: Outcome) -> ShareFetchResponse:
        parts: dict[Place, PartitionData] = {}
        for place, data in results.items():
            is_error = data.error is not None
            if self.session is None or self.session.is_reported(
                place, records=bool(data.acquired), error=is_error
            ):
                parts[place] = _partition(place[1], data)
        for place, error in acknowledged.items():
            part = parts.get(place)
            if part is None:
                part = parts[place] = PartitionData(partition_index=place[1], records=b"")
            if error is not None:
                part.acknowledge_error_code = error.code
                part.acknowledge_error_message = error.message or None
        topics: dict[Uuid, list[Any]] = {}
        for (topic_id, _), part in parts.items():
            topics.setdefault(topic_id, []).append(part)
        response = ShareFetchResponse(
            acquisition_lock_timeout_ms=self.shares.led.limits(self.member.group_id).lock_ms,
            responses=[
                ShareFetchableTopicResponse(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )
        if any(part.error_code in LEADERSHIP for part in parts.values()):
            add_share_leaders(
                self.broker, response, self.ctx.listener, LeaderIdAndEpoch, NodeEndpoint
            )
        return response


def _partition(index: int, data: Delivered) -> PartitionData:
    if data.error is not None:
        return PartitionData(
            partition_index=index,
            error_code=data.error.code,
            error_message=data.error.message or None,
            records=b"",
        )
    return PartitionData(
        partition_index=index,
        records=data.records,
        acquired_records=[
            AcquiredRecords(
                first_offset=part.first, last_offset=part.last, delivery_count=part.deliveries
            )
            for part in data.acquired
        ],
    )
