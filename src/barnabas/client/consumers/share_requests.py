"""A share consumer asks brokers: it fetches and acknowledges in one session with each. Sans-IO.

It fetches while the program waits for records. What is said of records goes with the next fetch of the same
broker, or at once where none is due, and where locks are prolonged.

A session that ends (its connection broke, the broker restarted or knows it no longer) takes its records
along: they are delivered again, and what was said of them is answered with the error. An acknowledgement
whose failure passes is sent again; one of a partition whose leader changed is not, for the next leader
knows nothing of the delivery.

Invariant: one request to a broker is under way at most. Source: ``ShareConsumeRequestManager`` of Apache
Kafka's clients 4.3; KIP-932, KIP-1206 (strict number of records), KIP-1222 (renewal).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from barnabas.client.client import FINAL, Client, raise_for
from barnabas.client.consumers.share_runs import Acknowledge, AcquiredRange, ShareRun
from barnabas.client.consumers.share_session import (
    Holder,
    Place,
    ShareFetchSession,
    ShareFetchSettings,
    Told,
)
from barnabas.client.network.channels import ChannelError
from barnabas.client.offsets import GroupIdentity
from barnabas.types import Endpoint, TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.share_fetch_request import ShareFetchRequest

SHARE_RETRY_MS = 50.0
TOLD_AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors of an acknowledgement after which the member still holds the records."""
REFUSED = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_CONFIG,
    }
)
"""Errors that asking again does not change."""
LEADER_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
Failure = KafkaError | ChannelError


class Acknowledged(NamedTuple):
    """The answer to acknowledgements of one partition."""

    partition: TopicPartition
    kinds: Told
    """The kind of each offset. Many offsets of which the program has no record are one range."""
    error: Failure | None
    """None: it is kept. After a `ChannelError` it may be."""


class ShareProgram(Protocol):
    """Who takes the records."""

    def has_records_of(self, session: ShareFetchSession) -> bool:
        """Whether records of the session are not acknowledged yet."""

    def on_run(self, holder: Holder, run: ShareRun) -> None:
        """Records were acquired."""

    def on_lost(self, session: ShareFetchSession) -> None:
        """The session is over: its records are another's."""

    def on_acknowledged(self, answer: Acknowledged) -> None:
        """A broker answered, or never will."""

    def on_settled(self) -> None:
        """All that was said is answered, or all sessions are over."""

    def on_refused(self, error: Failure) -> None:
        """No records will come."""


class ShareRequests:
    """The sessions of one member."""

    def __init__(
        self,
        client: Client,
        who: Callable[[], GroupIdentity],
        settings: ShareFetchSettings,
        purpose: str,
        program: ShareProgram,
    ) -> None:
        """`purpose` names connections of its own: a fetch that waits holds up all responses behind it."""
        self.sessions: dict[int, ShareFetchSession] = {}
        """The sessions by broker."""
        self.lock_ms = 0
        """How long brokers let a member hold a record; 0 until one has said it."""
        self.wants = False
        """Whether the program waits for records."""
        self.ends = False
        """Whether each session ends with its next request."""
        self._client = client
        self._who = who
        self._settings = settings
        self._purpose = purpose
        self._program = program
        self._owned: dict[TopicPartition, float] = {}
        """Assigned partitions, and when to ask for each of them again."""
        self._turn = 0
        self._pump_due = self._refreshing = False

    def __repr__(self) -> str:
        return f"ShareRequests({list(self.sessions.values())})"

    @property
    def owned(self) -> list[TopicPartition]:
        return list(self._owned)

    @property
    def is_settled(self) -> bool:
        """Whether all that was said is answered."""
        return all(session.is_settled for session in self.sessions.values())

    def own(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these, too."""
        self._owned.update(dict.fromkeys(partitions, 0.0))
        self.schedule()

    def disown(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these no longer; what is held of them can still be acknowledged."""
        for tp in partitions:
            self._owned.pop(tp, None)
        self.schedule()

    def tell(self, holder: Holder, told: Told) -> None:
        """Send what became of these offsets; where the session is over, that is the answer."""
        session, place = holder.session, holder.place
        if session.is_over:
            self._program.on_acknowledged(Acknowledged(session.names[place], told, _over()))
        else:
            session.tell(place, told)
            self.schedule()

    def drop(self) -> None:
        """End all sessions without a word."""
        for session in list(self.sessions.values()):
            self._lose(session, _over())

    # -- what to ask -----------------------------------------------------------------------------

    def schedule(self) -> None:
        if not self._pump_due:
            self._pump_due = True
            self._client.ports.wakeups.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_due = False
        now_ms = self._client.now_ms()
        led = {} if self.ends else self._led()
        for node in led:
            if node not in self.sessions:
                self.sessions[node] = ShareFetchSession(node)
        chosen = self._choose(led) if self._settings.strict else None
        for node, session in sorted(self.sessions.items()):
            if session.busy or (session.retry_at_ms > now_ms and not self.ends):
                continue
            if not led.get(node) and self._maybe_end(session):
                continue
            wanted = {
                place: tp for place, tp in led.get(node, {}).items() if self._owned[tp] <= now_ms
            }
            fetches = self.wants and bool(wanted) and chosen in (None, node)
            request = self._next_request(session, wanted, fetches)
            if request is not None:
                self._start(session, request)
        if self.is_settled:
            self._program.on_settled()

    def _led(self) -> dict[int, dict[Place, TopicPartition]]:
        """The assigned partitions by leader. Topics of which one has none that is known are looked up."""
        by_node: dict[int, dict[Place, TopicPartition]] = {}
        unknown: dict[str, None] = {}
        cluster = self._client.cluster
        for tp in self._owned:
            leader = cluster.leader(tp)
            if leader is None:
                unknown[tp.topic] = None
            else:
                place = (cluster.topic_id(tp.topic), tp.partition)
                by_node.setdefault(leader, {})[place] = tp
        self._refresh(unknown)
        return by_node

    def _choose(self, nodes: Iterable[int]) -> int:
        """The broker to fetch from in strict mode; -1 while a request is under way."""
        if any(session.busy for session in self.sessions.values()):
            return -1
        self._turn += 1
        known = sorted(nodes)
        return known[self._turn % len(known)] if known else -1

    def _maybe_end(self, session: ShareFetchSession) -> bool:
        """End the session with a broker that leads nothing of interest; whether it ends."""
        if not self.ends and (session.told or self._program.has_records_of(session)):
            return False
        if session.epoch > 0:
            self._start(session, session.acknowledge_request(self._who(), ends=True), ends=True)
        else:
            self._lose(session, _over())
        return True

    def _next_request(
        self, session: ShareFetchSession, wanted: dict[Place, TopicPartition], fetches: bool
    ) -> Any:
        """The next request to the broker of the session; None where there is none."""
        told, who = session.told, self._who()
        apart = any(place not in wanted or place not in session.places for place in told)
        if told and (apart or session.renews or not fetches):
            return session.acknowledge_request(who)
        return session.fetch_request(who, wanted, self._settings) if fetches else None

    def _start(self, session: ShareFetchSession, request: Any, *, ends: bool = False) -> None:
        session.busy = True
        self._client.tasks.start(self._exchange(session, request, ends))

    async def _exchange(self, session: ShareFetchSession, request: Any, ends: bool) -> None:
        """One request of a session, and what follows from its answer."""
        began_ms, settings = self._client.now_ms(), self._settings
        waits_ms = settings.wait_ms_max if isinstance(request, ShareFetchRequest) else 0
        try:
            answer = await self._client.ask_node(
                session.node, request,
                timeout_ms=settings.request_timeout_ms + waits_ms, purpose=self._purpose,
            )  # fmt: skip
            raise_for(answer.error_code, answer.error_message)
        except (ChannelError, KafkaError) as error:
            session.busy = False
            self._on_refused(session, error)
        else:
            session.busy = False
            if not session.is_over:
                session.succeed()
                self._on_answer(session, request, answer, began_ms)
                if ends:
                    self._lose(session, _over())
        self.schedule()

    # -- what goes wrong -------------------------------------------------------------------------

    def _on_refused(self, session: ShareFetchSession, error: Failure) -> None:
        """The session is over. Another one begins soon, where asking again may help."""
        self._lose(session, error)
        self._client.ports.log("debug", "share.session_over", node=session.node, error=str(error))
        if error.kind in FINAL if isinstance(error, ChannelError) else error.code in REFUSED:
            self._program.on_refused(error)
            return
        self._put_off(session.names.values())
        self._refresh(dict.fromkeys(tp.topic for tp in self._owned))

    def _lose(self, session: ShareFetchSession, error: Failure) -> None:
        """The session is over, and its records are delivered again."""
        session.is_over = True
        if self.sessions.get(session.node) is session:
            del self.sessions[session.node]
        self._program.on_lost(session)
        for place, told in session.take_all().items():
            self._program.on_acknowledged(Acknowledged(session.names[place], told, error))

    def _put_off(self, partitions: Iterable[TopicPartition]) -> None:
        retry_at_ms = self._client.now_ms() + SHARE_RETRY_MS
        self._owned.update({tp: retry_at_ms for tp in partitions if tp in self._owned})
        self._client.ports.wakeups.call_at(retry_at_ms, self.schedule)

    def _refresh(self, topics: Iterable[str]) -> None:
        wanted = list(topics)
        if wanted and not self._refreshing:
            self._refreshing = True
            self._client.tasks.start(self._refresh_soon(wanted))

    async def _refresh_soon(self, topics: list[str]) -> None:
        try:
            await self._client.cluster.refresh(topics)
        except ChannelError as error:
            self._client.ports.log("debug", "share.no_metadata", error=str(error))
        await self._client.tasks.sleep(SHARE_RETRY_MS)
        self._refreshing = False
        self.schedule()

    # -- answers ---------------------------------------------------------------------------------

    def _on_answer(
        self, session: ShareFetchSession, request: Any, answer: Any, began_ms: float
    ) -> None:
        self.lock_ms = answer.acquisition_lock_timeout_ms or self.lock_ms
        fetched = isinstance(request, ShareFetchRequest)
        sent, session.sent = session.sent, {}
        endpoints = {n.node_id: Endpoint(n.host, n.port) for n in answer.node_endpoints}
        for topic in answer.responses:
            for part in topic.partitions:
                place = (topic.topic_id, part.partition_index)
                if place not in session.names:
                    continue
                code = part.acknowledge_error_code if fetched else part.error_code
                if place in sent:
                    why = part.acknowledge_error_message if fetched else part.error_message
                    error = KafkaError(code_of(code), why or "") if code else None
                    self._on_told(session, place, sent.pop(place), error)
                if {code, part.error_code} & LEADER_MOVED or (fetched and part.error_code):
                    self._on_partition_error(session.names[place], part, endpoints, fetched)
                if fetched and part.acquired_records:
                    self._on_records(Holder(session, place, began_ms), part)
        for place, told in sent.items():
            unanswered = KafkaError(ErrorCode.INVALID_RECORD_STATE, "the broker did not answer")
            self._on_told(session, place, told, unanswered)

    def _on_told(
        self, session: ShareFetchSession, place: Place, told: Told, error: KafkaError | None
    ) -> None:
        if error is not None and error.code in TOLD_AGAIN and not self.ends:
            session.tell_again(place, told)
            session.retry_at_ms = self._client.now_ms() + SHARE_RETRY_MS
            self._client.ports.wakeups.call_at(session.retry_at_ms, self.schedule)
        else:
            self._program.on_acknowledged(Acknowledged(session.names[place], told, error))

    def _on_partition_error(
        self, tp: TopicPartition, part: Any, endpoints: dict[int, Endpoint], fetched: bool
    ) -> None:
        if fetched and part.error_code in REFUSED:
            self._program.on_refused(KafkaError(code_of(part.error_code), part.error_message or ""))
            return
        news = part.current_leader
        endpoint = endpoints.get(news.leader_id)
        cluster = self._client.cluster
        if not cluster.learn_leader(tp, news.leader_id, news.leader_epoch, endpoint):
            self._put_off([tp])
            self._refresh([tp.topic])

    def _on_records(self, holder: Holder, part: Any) -> None:
        acquired = [
            AcquiredRange(a.first_offset, a.last_offset, a.delivery_count)
            for a in part.acquired_records
        ]
        until_ms = holder.asked_ms + self.lock_ms if self.lock_ms else math.inf
        tp = holder.session.names[holder.place]
        run = ShareRun(tp, acquired, part.records or b"", until_ms)
        if tp in self._owned and not self.ends:
            self.wants = False
            self._program.on_run(holder, run)
        else:  # given up while it was on its way
            self.tell(holder, dict.fromkeys(run.rest(), int(Acknowledge.RELEASE)))


def _over() -> KafkaError:
    return KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, "the share session is over")
