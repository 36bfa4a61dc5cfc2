"""A share consumer: takes records of a share group, and says of each what became of it (KIP-932). Sans-IO.

It fetches when the program asks for records and there are none, so that few records wait locked in its
buffer while another member is idle; those whose lock ends there are not handed out. In implicit mode `poll`
and `commit` accept all that was handed out; in explicit mode the program acknowledges each record.
:mod:`~barnabas.client.consumers.share_requests` asks the brokers.

Invariant: a record is in hand from its delivery until it is acknowledged, and then never again by the same
delivery. Source: ``ShareConsumerImpl`` of Apache Kafka's clients 4.3; KIP-932, KIP-1222 (renewal).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from barnabas.client.client import API_TIMEOUT_MS, Client
from barnabas.client.consumers.group_member import GroupMemberSettings
from barnabas.client.consumers.share_member import ShareGroupMember
from barnabas.client.consumers.share_requests import Acknowledged, Failure, ShareRequests
from barnabas.client.consumers.share_runs import Acknowledge, ShareRun
from barnabas.client.consumers.share_session import Holder, ShareFetchSession, ShareFetchSettings
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.offsets import GroupIdentity
from barnabas.client.records import DeliveredRecord
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError

IMPLICIT, EXPLICIT = "implicit", "explicit"
Key = tuple[str, int, int]
"""Topic, partition and offset."""
Outcome = dict[TopicPartition, Failure | None]


@dataclass(frozen=True, slots=True)
class ShareConsumerSettings:
    """Kafka's consumer configuration where it has it."""

    acknowledgement: str = IMPLICIT
    """``share.acknowledgement.mode``"""
    fetch: ShareFetchSettings = field(default_factory=ShareFetchSettings)
    group: GroupMemberSettings = field(default_factory=GroupMemberSettings)

    def __post_init__(self) -> None:
        if self.acknowledgement not in (IMPLICIT, EXPLICIT):
            raise ValueError(f"there is no acknowledgement mode {self.acknowledgement!r}")


class ShareConsumer:
    """One member of a share group."""

    def __init__(
        self,
        client: Client,
        group_id: str,
        settings: ShareConsumerSettings = ShareConsumerSettings(),
        *,
        on_data: Callable[[], None] = lambda: None,
        on_outcome: Callable[[Acknowledged], None] = lambda outcome: None,
    ) -> None:
        """`on_data`: something can be taken, or no more will come. `on_outcome` gets the answers to
        acknowledgements."""
        self.settings = settings
        self.failure: Failure | None = None
        """Why no more will come (not authorized, no share groups, ...)."""
        self.lost = 0
        """How often deliveries were lost before the program took them, at most: sessions that ended, locks
        that ended in the buffer, records that were released from it."""
        self._client = client
        self._group_id = group_id
        self._on_data = on_data
        self._on_outcome = on_outcome
        self._member: ShareGroupMember | None = None
        self._runs: deque[tuple[Holder, ShareRun]] = deque()
        self._held: dict[Key, Holder] = {}
        """Records that were handed out, of which the program has said nothing yet."""
        self._renewed: dict[Key, Holder] = {}
        """Records that the program keeps longer."""
        self._waiters: list[_Waiter] = []
        free = (f"share-{number}" for number in itertools.count())
        self._purpose = next(name for name in free if name not in client.fetching)
        client.fetching.add(self._purpose)
        self._requests = ShareRequests(client, self._who, settings.fetch, self._purpose, self)

    def __repr__(self) -> str:
        return f"ShareConsumer(group={self._group_id} {self._requests!r})"

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics; for these instead, where it is a member already."""
        if self._member is not None and self._member.failure is None:
            self._member.subscribe(topics)
            return
        self._member = ShareGroupMember(
            self._client, self._group_id, topics, self.settings.group,
            on_assigned=self._requests.own, on_revoked=self._requests.disown,
            on_failed=self.on_refused, purpose=f"group of {self._purpose}",
        )  # fmt: skip
        self._member.start()

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._requests.owned

    @property
    def member_id(self) -> str:
        """The id by which brokers know it; empty before it subscribes."""
        return "" if self._member is None else self._member.identity.member_id

    @property
    def is_stable(self) -> bool:
        """Whether its group has given it its partitions."""
        return self._member is not None and self._member.is_stable

    @property
    def is_settled(self) -> bool:
        """Whether no record is in hand, and all that was said is answered."""
        return not (self._held or self._renewed or self._runs) and self._requests.is_settled

    @property
    def lock_ms(self) -> int:
        """How long it may hold a record; 0 until a broker has said it."""
        return self._requests.lock_ms

    def _who(self) -> GroupIdentity:
        assert self._member is not None
        return self._member.identity

    # -- taking and acknowledging ----------------------------------------------------------------

    def poll(self, records_max: int | None = None) -> list[DeliveredRecord]:
        """The records that are there now; perhaps none, and then they are fetched. Raises `ValueError` in
        explicit mode while records are not acknowledged."""
        self._accept_all()
        most = self.settings.fetch.records_max if records_max is None else records_max
        taken: list[DeliveredRecord] = []
        now_ms = self._client.now_ms()
        while self._runs and len(taken) < most:
            holder, run = self._runs[0]
            if now_ms >= run.until_ms:
                self._client.ports.log(
                    "debug", "share.locks_ended", group=self._group_id, partition=str(run.partition)
                )
                self._runs.popleft()
                self.lost += 1
                continue
            found = run.take(most - len(taken))
            if run.said:
                self._requests.tell(holder, run.said)
                run.said = {}
            for record in found:
                self._held[record[:3]] = holder
                self._renewed.pop(record[:3], None)
            taken += found
            if len(taken) < most:
                self._runs.popleft()
        self._requests.wants = not taken
        self._requests.schedule()
        return taken

    def origin(self, record: DeliveredRecord) -> tuple[int, float] | None:
        """The broker that delivered a record in hand, and when it was asked; None where it is not in
        hand."""
        holder = self._held.get(record[:3]) or self._renewed.get(record[:3])
        return None if holder is None else (holder.session.node, holder.asked_ms)

    def acknowledge(self, record: DeliveredRecord, kind: Acknowledge = Acknowledge.ACCEPT) -> None:
        """Say what became of a record, in explicit mode. It is sent soon; `commit` waits for the answer. A
        record that is renewed stays in hand. Raises `ValueError` for one that is not in hand."""
        if self.settings.acknowledgement != EXPLICIT:
            raise ValueError("in the implicit mode, poll acknowledges records")
        if kind is Acknowledge.GAP:
            raise ValueError("a record is no gap")
        key = record[:3]
        holder = self._held.pop(key, None) or self._renewed.pop(key, None)
        if holder is None:
            raise ValueError(f"{key} is not in hand")
        if kind is Acknowledge.RENEW and not holder.session.is_over:
            self._renewed[key] = holder
        self._requests.tell(holder, {record.offset: int(kind)})

    def _accept_all(self) -> None:
        if not self._held:
            return
        if self.settings.acknowledgement == EXPLICIT:
            raise ValueError("all records must be acknowledged before the next are taken")
        held, self._held = self._held, {}
        for (_, _, offset), holder in held.items():
            self._requests.tell(holder, {offset: int(Acknowledge.ACCEPT)})

    async def commit(self, timeout_ms: float = API_TIMEOUT_MS) -> Outcome:
        """Send what was said (in implicit mode all that was handed out is accepted) and wait for the
        answers: the first error of each partition, or None."""
        waiter = _Waiter()
        self._waiters.append(waiter)
        try:
            if self.settings.acknowledgement == IMPLICIT:
                self._accept_all()
            await self._settle(waiter, timeout_ms)
        finally:
            self._waiters.remove(waiter)
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "acknowledgements are not answered")
        for session in self._requests.sessions.values():
            for place in [*session.told, *session.sent]:
                waiter.outcome.setdefault(session.names[place], late)
        return waiter.outcome

    async def _settle(self, waiter: _Waiter, timeout_ms: float) -> None:
        if self._requests.is_settled:
            return
        self._requests.schedule()
        until_ms = self._client.now_ms() + timeout_ms
        wakeup = self._client.ports.wakeups.call_at(until_ms, waiter.end)
        try:
            await waiter.settled
        finally:
            wakeup.cancel()

    async def close(self, timeout_ms: float = API_TIMEOUT_MS) -> None:
        """Send what was said, release what is in hand, and leave the group."""
        release = int(Acknowledge.RELEASE)
        for (_, _, offset), holder in [*self._held.items(), *self._renewed.items()]:
            self._requests.tell(holder, {offset: release})
        self.lost += len(self._runs)
        for holder, run in self._runs:
            self._requests.tell(holder, dict.fromkeys(run.rest(), release))
        self._held, self._renewed = {}, {}
        self._runs.clear()
        self._requests.ends = True
        waiter = _Waiter()
        self._waiters.append(waiter)
        try:
            if self._requests.sessions:
                await self._settle_sessions(waiter, timeout_ms)
        finally:
            self._waiters.remove(waiter)
            self._requests.drop()
            try:
                if self._member is not None:
                    await self._member.leave()
            finally:
                self._client.fetching.discard(self._purpose)

    async def _settle_sessions(self, waiter: _Waiter, timeout_ms: float) -> None:
        """Wait until each session has ended with its last acknowledgements."""
        until_ms = self._client.now_ms() + timeout_ms
        wakeup = self._client.ports.wakeups.call_at(until_ms, waiter.end)
        self._requests.schedule()
        try:
            while self._requests.sessions and not waiter.is_late:
                waiter.settled = TaskOutcome()
                await waiter.settled
        finally:
            wakeup.cancel()

    # -- what the requests report ----------------------------------------------------------------

    def has_records_of(self, session: ShareFetchSession) -> bool:
        """Whether records of the session are not acknowledged yet."""
        holders = (*self._held.values(), *self._renewed.values(), *(of for of, _ in self._runs))
        return any(holder.session is session for holder in holders)

    def on_run(self, holder: Holder, run: ShareRun) -> None:
        """Records were acquired."""
        self._runs.append((holder, run))
        self._notify_data()

    def on_lost(self, session: ShareFetchSession) -> None:
        """The session is over: its records are another's."""
        self.lost += 1
        self._runs = deque(item for item in self._runs if item[0].session is not session)
        self._renewed = {k: of for k, of in self._renewed.items() if of.session is not session}

    def on_acknowledged(self, answer: Acknowledged) -> None:
        """A broker answered, or never will."""
        if answer.error is not None:
            for offset in answer.kinds:
                if isinstance(offset, int):
                    self._renewed.pop((*answer.partition, offset), None)
        for waiter in self._waiters:
            before = waiter.outcome.get(answer.partition)
            waiter.outcome[answer.partition] = before or answer.error
        self._call(partial(self._on_outcome, answer))

    def on_settled(self) -> None:
        """All that was said is answered, or all sessions are over."""
        for waiter in list(self._waiters):
            waiter.settle()

    def on_refused(self, error: Failure) -> None:
        """No records will come."""
        if self.failure is None:
            self.failure = error
            self._requests.ends = True
            self._requests.schedule()
        self._notify_data()

    def _notify_data(self) -> None:
        self._call(self._on_data)

    def _call(self, programs: Callable[[], None]) -> None:
        try:
            programs()
        except Exception as fault:  # noqa: BLE001 - the program's: what else there is comes all the same
            self._client.tasks.on_lost(fault)


class _Waiter:
    """Who waits for answers."""

    __slots__ = ("is_late", "outcome", "settled")

    def __init__(self) -> None:
        self.outcome: Outcome = {}
        self.settled: TaskOutcome[None] = TaskOutcome()
        self.is_late = False

    def settle(self) -> None:
        if not self.settled.done:
            self.settled.resolve(None)

    def end(self) -> None:
        """Its time is over."""
        self.is_late = True
        self.settle()
