"""Unclean recovery: ask the live replicas for their log ends, wait for a deadline, elect the
furthest.

It serves partitions whose ISR and ELR cannot lead and whose topic prefers any leader to none
(``unclean.recovery.strategy=aggressive``, KIP-966). The answers are last epoch and log end offset;
the greatest (epoch, offset) loses least, ties go by the order of assignment. The reason names the
replicas that did not answer in time. A partition that gets a leader meanwhile drops out. The state
here ends with the controller's activity: the next controller starts again.

Replicas are asked by ListOffsets as a debugging replica (id -2, timestamp latest): Apache Kafka
brokers answer that from a follower with log end offset and epoch, while they answer
OffsetForLeaderEpoch as leaders only. The epoch in their answer is the partition's in the metadata, not their
log's, and would beat a replica that answers with its log's. In a partition without a leader no record was
ever written in that epoch, which identifies such an answer. Among such answers the offset alone decides.

The question names the partition's leader epoch, so that a broker with older metadata answers
UNKNOWN_LEADER_EPOCH and is asked again: it may not know that its replica was removed and added
again, which makes it another replica with an empty log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.duties import DutyController
from barnabas.controller.partitions.elections import Elected, Electorate, offline
from barnabas.controller.partitions.log_ends import BEHIND, LogEndQuery, Position, most_advanced
from barnabas.controller.partitions.partition_change import PartitionChangeBuilder
from barnabas.metadata.image.registrations import BrokerRegistration
from barnabas.metadata.image.topic import NO_LEADER, ORDINARY, Topic
from barnabas.types import DEBUGGING_REPLICA, Endpoint, by_topic
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.list_offsets_response import ListOffsetsResponse
from barnabas.wire.schema import Message

DEADLINE_MS = 1500.0
"""How long the controller waits for the answers, from the first question."""
BEHIND_MS = 50.0
"""How long the controller waits before it asks a broker again that did not know a partition's leader epoch
yet."""
INQUIRY_RETRY_MS = 1000.0
"""How long the controller waits before it asks a partition's replicas again if none has answered."""
BALANCED_WAIT_MS = 30_000.0
"""How long a balanced recovery waits for absent replicas, before it chooses among the last known leader
and the other replicas that answered."""
LATEST = -1
ASKING = -1
"""Takes the place of a partition's key in a survey while questions are being sent, so that no early
answer ends the survey."""


class QuerySender(Protocol):
    """The part of `Channels` that sends the questions."""

    def send(
        self,
        target: Endpoint,
        request: Message,
        on_done: Callable[[Any], None],
        *,
        timeout_ms: float | None = None,
        purpose: str = "",
    ) -> None: ...


def elect_most_advanced(cluster: ControllerContext, inquiry: LogEndQuery) -> Decision[None] | None:
    """The record that makes the furthest replica lead; None if the partition needs no change."""
    at = cluster.image.at(inquiry.key)
    if at is None or at[0].leader[at[1]] != NO_LEADER:
        return None

    def strategy(electorate: Electorate) -> Elected:
        """Elect by the present rules and ISR: both may have changed since the replicas were asked."""
        now = offline(electorate)
        if now.recover or now.unclean:
            told_epochs = not inquiry.untold
            found = most_advanced(
                inquiry.answers, inquiry.asked, electorate, told_epochs=told_epochs
            )
            if found.lossless:
                change.reason = "all replicas were asked"
            return found
        return now

    change = PartitionChangeBuilder(cluster, at[0], at[1], "unclean recovery", strategy)
    record = change.build()
    return None if record is None else Decision(None, [record], record.reason or "")


class UncleanRecovery:
    """The partitions under recovery, of the active controller."""

    def __init__(
        self,
        controller: DutyController,
        sender: QuerySender,
        endpoint_of: Callable[[BrokerRegistration], Endpoint | None],
    ) -> None:
        self._controller = controller
        self._endpoint_of = endpoint_of
        self._sender = sender
        self._inquiries: dict[int, LogEndQuery] = {}
        self._behind: list[tuple[float, int, list[LogEndQuery]]] = []
        """The brokers whose metadata were older: when each is asked again, and about which
        partitions."""
        self._retry: dict[int, float] = {}
        """The time at which a partition's replicas are asked again, by key."""
        self._since: dict[int, float] = {}
        """The time of the first question of a balanced recovery, by partition key."""

    def on_activation(self) -> None:
        """Do nothing: no replica is asked before a partition needs it."""

    def clear(self) -> None:
        """This controller is not active any more: ask no replica, and let the callers that waited for a
        survey continue."""
        ended = [inquiry for inquiry in self._inquiries.values() if inquiry.then is not None]
        self._inquiries.clear()
        self._behind.clear()
        self._retry.clear()
        self._since.clear()
        for inquiry in ended:
            assert inquiry.then is not None
            inquiry.then(inquiry)

    def __contains__(self, key: int) -> bool:
        return key in self._inquiries

    @property
    def under_way(self) -> Mapping[int, LogEndQuery]:
        """The callers that wait for answers."""
        return self._inquiries

    def survey(
        self, keys: Iterable[int], on_done: Callable[[dict[int, LogEndQuery]], None]
    ) -> None:
        """Ask the live replicas of partitions for their log ends, without an election. `on_done`
        gets the inquiries, once, when all have ended. The survey joins inquiries that are under way
        already."""
        found: dict[int, LogEndQuery] = {}
        missing = dict.fromkeys((ASKING, *keys))

        def end(key: int) -> None:
            del missing[key]
            if not missing:
                on_done(found)

        def then(inquiry: LogEndQuery) -> None:
            found[inquiry.key] = inquiry
            end(inquiry.key)

        wanted = list(missing)[1:]
        for inquiry in [self._inquiries[key] for key in wanted if key in self._inquiries]:
            self._join(inquiry, then)
        self.begin(wanted, then)
        for key in [key for key in wanted if key in missing and key not in self._inquiries]:
            end(key)  # no replica to ask
        end(ASKING)

    def _join(self, inquiry: LogEndQuery, then: Callable[[LogEndQuery], None]) -> None:
        """Let `then` get the result of an inquiry under way, too. The inquiry no longer elects a
        leader by itself: the caller decides. If the caller elects none, the inquiry is retried."""
        if inquiry.then is None:
            self._retry[inquiry.key] = self._controller.now_ms() + INQUIRY_RETRY_MS
        inquiry.join(then)

    def begin(self, keys: Iterable[int], then: Callable[[LogEndQuery], None] | None = None) -> None:
        """Begin inquiries for the partitions that have none; for an election only for those without
        a leader."""
        controller = self._controller
        deadline = controller.now_ms() + DEADLINE_MS
        questions: dict[int, list[LogEndQuery]] = {}
        for key in keys:
            at = controller.image.at(key)
            if at is None or (then is None and at[0].leader[at[1]] != NO_LEADER):
                self._since.pop(key, None)
                continue
            if key in self._inquiries:
                if then is None and self._inquiries[key].then is not None:
                    # That inquiry belongs to a survey, which may elect no leader.
                    self._retry[key] = controller.now_ms() + INQUIRY_RETRY_MS
                continue
            topic, index = at
            asked = tuple(
                [
                    broker
                    for broker, directory in zip(
                        topic.replicas[index], topic.directories[index], strict=True
                    )
                    if controller.cluster.may_lead(broker, directory)
                ]
            )
            if then is None:  # a survey may elect no leader
                self._retry.pop(key, None)
            if asked:
                epochs = {broker: controller.image.brokers[broker].epoch for broker in asked}
                inquiry = self._inquiries[key] = LogEndQuery(key, asked, epochs, deadline, then)
                for broker in asked:
                    questions.setdefault(broker, []).append(inquiry)
        for broker in sorted(questions):
            self._ask(broker, questions[broker])
        controller.arm(self.deadline_ms())

    def _ask(self, broker: int, inquiries: list[LogEndQuery]) -> None:
        controller = self._controller
        known = controller.image.brokers.get(broker)
        endpoint = None if known is None else self._endpoint_of(known)
        if endpoint is None:
            self._answered(broker, inquiries, None)
            return
        topics = by_topic(
            (
                topic.name,
                ListOffsetsPartition(
                    partition_index=index,
                    current_leader_epoch=topic.leader_epoch[index],
                    timestamp=LATEST,
                ),
            )
            for topic, index in filter(None, (controller.image.at(one.key) for one in inquiries))
        )
        request = ListOffsetsRequest(
            replica_id=DEBUGGING_REPLICA,
            topics=[ListOffsetsTopic(name=n, partitions=p) for n, p in topics.items()],
        )

        def done(response: object) -> None:
            answer = response if isinstance(response, ListOffsetsResponse) else None
            self._answered(broker, inquiries, answer)

        self._sender.send(
            endpoint, request, done, timeout_ms=DEADLINE_MS, purpose="unclean recovery"
        )

    def _answered(
        self, broker: int, inquiries: list[LogEndQuery], response: ListOffsetsResponse | None
    ) -> None:
        if not self._controller.may_decide:
            return
        reported = {} if response is None else _answers(response)
        complete, behind = [], []
        for inquiry in inquiries:
            at = self._controller.image.at(inquiry.key)
            if at is None or self._inquiries.get(inquiry.key) is not inquiry:
                continue  # it has ended
            position = reported.get((at[0].name, at[1]))
            if position is BEHIND:
                behind.append(inquiry)
                continue
            inquiry.waiting.pop(broker, None)
            if position is not None:
                epoch = at[0].leader_epoch[at[1]]
                if position.epoch > epoch:  # no replica has led in that epoch: the log is corrupt
                    position = Position(-1, position.offset)
                elif position.epoch == epoch and at[0].leader[at[1]] == NO_LEADER:
                    inquiry.untold = True
                inquiry.answers[broker] = position
            if not inquiry.waiting:
                complete.append(inquiry)
        if behind:
            self._behind.append((self._controller.now_ms() + BEHIND_MS, broker, behind))
        self._choose(complete)

    def _choose(self, inquiries: Iterable[LogEndQuery]) -> None:
        controller = self._controller
        for inquiry in inquiries:
            del self._inquiries[inquiry.key]
            self._forget_former(inquiry)
            inquiry.drop_uncomparable_epochs()
            if inquiry.then is not None:
                inquiry.then(inquiry)
                continue
            decision = (
                elect_most_advanced(controller.cluster, inquiry)
                if self._may_choose(inquiry)
                else None
            )
            if decision is not None:
                self._since.pop(inquiry.key, None)
                controller.commit(decision)
            elif _is_leaderless(controller, inquiry.key):
                self._retry[inquiry.key] = controller.now_ms() + INQUIRY_RETRY_MS
            else:
                self._since.pop(inquiry.key, None)
        controller.arm(self.deadline_ms())

    def _forget_former(self, inquiry: LogEndQuery) -> None:
        """Forget the answer of a broker's process after another process has followed it."""
        brokers = self._controller.image.brokers
        for broker in list(inquiry.answers):
            known = brokers.get(broker)
            if known is None or known.epoch != inquiry.epochs[broker]:
                del inquiry.answers[broker]

    def _may_choose(self, inquiry: LogEndQuery) -> bool:
        """Whether to choose now. A balanced recovery waits for every replica, and for the furthest one if
        that has died since its answer. After `BALANCED_WAIT_MS` it chooses among the replicas that
        answered, with the last known leader."""
        controller = self._controller
        at = controller.image.at(inquiry.key)
        if at is None or controller.cluster.rules(at[0]).recovery != "balanced":
            return True
        topic, index = at
        has_all = all(replica in inquiry.answers for replica in topic.replicas[index])
        if has_all:
            best = max(inquiry.answers.values())
            where = zip(topic.replicas[index], topic.directories[index], strict=True)
            if any(
                inquiry.answers[b] == best and controller.cluster.may_lead(b, d) for b, d in where
            ):
                return True
        now_ms = controller.now_ms()
        if now_ms - self._since.setdefault(inquiry.key, now_ms) < BALANCED_WAIT_MS:
            return False
        last_known = topic.rare.get(index, ORDINARY).last_known_elr
        replicas = topic.replicas[
            index
        ]  # the last leader may be no replica any more: a reassignment was cancelled
        return has_all or all(b in inquiry.answers for b in last_known if b in replicas)

    def deadline_ms(self) -> float | None:
        due = [inquiry.deadline_ms for inquiry in self._inquiries.values()]
        due += self._retry.values()
        due += [at_ms for at_ms, _, _ in self._behind]
        return min(due, default=None)

    def on_time(self, now_ms: float) -> None:
        """Choose among the replicas that have answered by now. If none has answered, ask again later."""
        self._choose([i for i in self._inquiries.values() if i.deadline_ms <= now_ms])
        behind = [retry for retry in self._behind if retry[0] <= now_ms]
        self._behind = [retry for retry in self._behind if retry[0] > now_ms]
        for _, broker, inquiries in behind:
            left = [inquiry for inquiry in inquiries if self._inquiries.get(inquiry.key) is inquiry]
            if left:
                self._ask(broker, left)
        again = [key for key, at_ms in self._retry.items() if at_ms <= now_ms]
        for key in again:
            del self._retry[key]
        self.begin(again)


def _is_leaderless(controller: DutyController, key: int) -> bool:
    at: tuple[Topic, int] | None = controller.image.at(key)
    return at is not None and at[0].leader[at[1]] == NO_LEADER


def _answers(response: ListOffsetsResponse) -> dict[tuple[str, int], Position]:
    """The positions of the replicas that hold the partition, by partition."""
    answers = {}
    for topic in response.topics:
        for data in topic.partitions:
            if data.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH:
                answers[topic.name, data.partition_index] = BEHIND
            elif not data.error_code and data.offset >= 0:
                answers[topic.name, data.partition_index] = Position(data.leader_epoch, data.offset)
    return answers
