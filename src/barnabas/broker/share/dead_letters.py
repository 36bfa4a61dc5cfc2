"""Dead letters are written to the topics of their groups.

A letter is tried until it is written: while its topic has no leader, too few replicas, or cannot be created
yet, it waits, and its records stay ARCHIVING. It is given up, and that is logged, where its topic may not be
used or refuses it for good; where a topic refuses some records for what they are, the others are written. A
letter of a share partition that has ended is dropped: the next leader begins with it again, so that a dead
letter is written at least once.

:mod:`barnabas.broker.share.letters.letter_copies` reads what they copy.

Letters for one partition follow one another, several of them in one batch where they fit.

Source: ``ShareGroupDLQStateManager`` of Apache Kafka 4.4, which gives up after five attempts; KIP-1191.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from barnabas.broker.share.dead_letter_topics import DeadLetterTopics, LetterTarget
from barnabas.broker.share.led_partitions import LedSharePartition
from barnabas.broker.share.letters.letter_copies import Copies, CopyResult, LetterCopies
from barnabas.broker.share.letters.letter_records import (
    Copied,
    LetterOrigin,
    LetterRecords,
    letter_records,
)
from barnabas.broker.share.open_letters import DeadLetter
from barnabas.broker.transaction.peers import Peers
from barnabas.client.network.connection import ChannelError
from barnabas.log.errors import CorruptLogError
from barnabas.ports import Ports
from barnabas.record.builder import build_batch
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics_request import CreatableTopic
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

PURPOSE = "dead letters"
PART_RECORDS_MAX = 500
"""Records that are made at a time: others are served in between."""
FIRST_PAUSE_MS = 100.0
PAUSE_MS_MAX = 5_000.0
FINAL = frozenset(
    {
        ErrorCode.INVALID_CONFIG,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Errors after which a letter is given up; after others it is tried again."""
OF_RECORDS = frozenset(
    {
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }
)
"""Those of them that other records may not get."""
READS_MAX = 5
"""How often records are read in a log that is damaged there."""
CreateTopic = Callable[[CreatableTopic, Callable[["KafkaError | None"], None]], None]


class _Job:
    """One letter on its way."""

    __slots__ = (
        "is_alone", "led", "letter", "next_offset", "on_done", "pause_ms", "reads_failed", "records_max",
    )  # fmt: skip

    def __init__(
        self, led: LedSharePartition, letter: DeadLetter, on_done: Callable[[], None]
    ) -> None:
        self.led = led
        self.letter = letter
        self.on_done = on_done
        self.next_offset = letter.first
        """Records before it are written."""
        self.pause_ms = FIRST_PAUSE_MS
        self.is_alone = False
        """Whether its next records share no batch with others: that was refused."""
        self.records_max = PART_RECORDS_MAX
        self.reads_failed = 0
        """How often reading at the next offset has found damage."""

    def __repr__(self) -> str:
        return f"_Job({self.led.key}, {self.letter}, from {self.next_offset})"


class _Part(NamedTuple):
    """The next records of a letter, on their way."""

    job: _Job
    content: LetterRecords
    offsets: Sequence[int]
    """The offset of each."""
    end: int
    """The letter's next offset once they are written."""


@dataclass(slots=True)
class LetterCounts:
    """Counters of one group's dead letters since the broker began."""

    records: int = 0
    """Records that were written."""
    writes: int = 0
    """Requests in which the group had records."""
    refused: int = 0
    """Those of them that ended in an error."""


class DeadLetters:
    """All that are not written yet."""

    def __init__(
        self,
        ports: Ports,
        peers: Peers,
        topics: DeadLetterTopics,
        create: CreateTopic,
        timeout_ms: int,
    ) -> None:
        """`create` has the controller create a topic."""
        self._ports = ports
        self._peers = peers
        self._topics = topics
        self._create = create
        self._timeout_ms = timeout_ms
        self._copies = LetterCopies(ports)
        self._creating: dict[str, list[_Job]] = {}
        """Letters that wait for a topic's creation."""
        self._queues: dict[LetterTarget, list[_Part]] = {}
        self._sending: set[LetterTarget] = set()
        self._closed = False
        self.counts: dict[str, LetterCounts] = {}
        """Counters by group; a group is missing until the first of its letters is sent."""

    def __repr__(self) -> str:
        return f"DeadLetters({len(self._queues)} targets, {len(self._sending)} sending)"

    def close(self) -> None:
        """The broker stops: the next leaders begin with the letters again."""
        self._closed = True

    def send(self, led: LedSharePartition, letter: DeadLetter, on_done: Callable[[], None]) -> None:
        """Write the records of `letter`; `on_done` is called later, once they are written or given up."""
        self._ports.wakeups.call_soon(partial(self._begin, _Job(led, letter, on_done)))

    def _is_over(self, job: _Job) -> bool:
        return self._closed or job.led.has_ended

    def _begin(self, job: _Job) -> None:
        """Continue from the letter's next offset."""
        if self._is_over(job):
            return
        try:
            name = self._topics.named(job.led.key.group_id)
        except KafkaError as error:
            self._give_up(job, error)
            return
        target = self._topics.target(name, job.led.key.partition)
        if target is None:
            self._create_for(name, job)
        elif self._topics.copies(job.led.key.group_id):
            self._copy(job, target)
        else:
            last = min(job.letter.last, job.next_offset + job.records_max - 1)
            self._queue(job, target, {}, last)

    # Topics

    def _create_for(self, name: str, job: _Job) -> None:
        waiting = self._creating.setdefault(name, [])
        waiting.append(job)
        if len(waiting) == 1:
            self._create(self._topics.new_topic(name), partial(self._on_created, name))

    def _on_created(self, name: str, error: KafkaError | None) -> None:
        for job in self._creating.pop(name, ()):
            self._failed(job, error)

    # Copies

    def _copy(self, job: _Job, target: LetterTarget) -> None:
        """Read the records. Those that the log no longer has are written without their keys and values."""
        first = job.next_offset
        last = min(job.letter.last, first + job.records_max - 1)

        def done(result: CopyResult) -> None:
            if isinstance(result, CorruptLogError):
                job.reads_failed += 1
                if job.reads_failed >= READS_MAX:
                    self._queue(job, target, {}, last)
                    return
                result = None
            if isinstance(result, Copies):
                end = result.end
                self._queue(
                    job, target, result.by_offset, min(last, end - 1) if end > first else last
                )
            else:
                self._failed(job, result)

        self._copies.read(job.led, first, last, done)

    def _queue(self, job: _Job, target: LetterTarget, copied: Copied, last: int) -> None:
        if self._is_over(job):
            return
        key = job.led.key
        origin = LetterOrigin(key.group_id, job.led.partition.topic, key.partition)
        bytes_max = self._topics.batch_bytes_max(target.topic)
        now_ms = self._ports.clock.wall_ms()
        content = letter_records(
            origin, job.letter, job.next_offset, last, copied, bytes_max, now_ms
        )
        end = job.next_offset + len(content.records)
        part = _Part(job, content, range(job.next_offset, end), end)
        self._queues.setdefault(target, []).append(part)
        self._send(target)

    # Writing

    def _send(self, target: LetterTarget) -> None:
        """Write what waits for the partition, unless a write is under way."""
        queue = self._queues.get(target)
        if queue is None or target in self._sending:
            return
        parts: list[_Part] = []
        size, most = 0, self._topics.batch_bytes_max(target.topic)
        while queue and (not parts or size + queue[0].content.size <= most):
            if parts and (parts[0].job.is_alone or queue[0].job.is_alone):
                break
            part = queue.pop(0)
            if not self._is_over(part.job):
                parts.append(part)
                size += part.content.size
        if not queue:
            del self._queues[target]
        if not parts:
            return
        self._sending.add(target)
        for group_id in _groups_of(parts):
            self.counts.setdefault(group_id, LetterCounts()).writes += 1
        leader = self._topics.leader_of(target)
        done = partial(self._on_answer, target, parts)
        if leader < 0:
            self._ports.wakeups.call_soon(partial(done, ChannelError("refused", "no leader")))
            return
        records = [record for part in parts for record in part.content.records]
        batch = build_batch(records, timestamp_ms=records[0][3])
        self._peers.send(leader, self._request(target, batch), done, purpose=PURPOSE)

    def _request(self, target: LetterTarget, batch: bytes) -> ProduceRequest:
        data = PartitionProduceData(index=target.partition, records=batch)
        topic = TopicProduceData(name=target.topic, topic_id=target.topic_id, partition_data=[data])
        return ProduceRequest(
            transactional_id=None, acks=-1, timeout_ms=self._timeout_ms, topic_data=[topic]
        )

    def _on_answer(self, target: LetterTarget, parts: list[_Part], answer: Any) -> None:
        self._sending.discard(target)
        error = _error_of(answer)
        self._count(parts, error)
        if error is not None and error.code in FINAL and len(parts) > 1:
            for part in parts:
                part.job.is_alone = True
            self._queues.setdefault(target, [])[:0] = parts
        elif error is not None and error.code in OF_RECORDS:
            self._on_refused(target, parts[0], error, _bad_records(answer))
        else:
            for part in parts:
                if error is None:
                    self._on_written(part)
                else:
                    self._failed(part.job, error)
        self._send(target)

    def _count(self, parts: Iterable[_Part], error: KafkaError | None) -> None:
        if error is not None:
            for group_id in _groups_of(parts):
                self.counts[group_id].refused += 1
            return
        for part in parts:
            self.counts[part.job.led.key.group_id].records += len(part.content.records)

    def _on_refused(
        self, target: LetterTarget, part: _Part, error: KafkaError, bad: frozenset[int]
    ) -> None:
        """Records of one letter are refused: give up those that are `bad`; where the answer names none, look
        for them by halves."""
        job, records = part.job, part.content.records
        if self._is_over(job):
            return
        good = [record for at, record in enumerate(records) if at not in bad]
        if len(good) == len(records) > 1:
            job.is_alone, job.records_max = True, len(records) // 2
            self._begin(job)
            return
        lost = [offset for at, offset in enumerate(part.offsets) if at in bad] or part.offsets
        for first, last in _runs_of(lost):
            self._log_lost(job, first, last, error)
        if len(lost) == len(records):
            self._advance(job, part.end)
            return
        job.is_alone = True
        kept = [offset for at, offset in enumerate(part.offsets) if at not in bad]
        rest = _Part(job, LetterRecords(good, part.content.size), kept, part.end)
        self._queues.setdefault(target, []).insert(0, rest)

    def _on_written(self, part: _Part) -> None:
        job = part.job
        job.pause_ms, job.is_alone = FIRST_PAUSE_MS, False
        job.records_max = min(2 * job.records_max, PART_RECORDS_MAX)
        self._advance(job, part.end)

    def _advance(self, job: _Job, offset: int) -> None:
        """Its records before `offset` are written, or given up."""
        job.next_offset, job.reads_failed = offset, 0
        if job.next_offset <= job.letter.last:
            self._begin(job)
        elif not self._is_over(job):
            job.on_done()

    def _failed(self, job: _Job, error: KafkaError | None) -> None:
        """Try the letter again after a pause, or give it up."""
        if self._is_over(job):
            return
        if error is not None and error.code in FINAL:
            self._give_up(job, error)
            return
        at_ms = self._ports.clock.now_ms() + job.pause_ms
        job.pause_ms = min(job.pause_ms * 2, PAUSE_MS_MAX)
        self._ports.wakeups.call_at(at_ms, partial(self._begin, job))

    def _give_up(self, job: _Job, error: KafkaError) -> None:
        self._log_lost(job, job.next_offset, job.letter.last, error)
        job.on_done()

    def _log_lost(self, job: _Job, first: int, last: int, error: KafkaError) -> None:
        key = job.led.key
        self._ports.log(
            "error",
            "share.dead_letter_lost",
            group=key.group_id,
            topic=job.led.partition.topic,
            partition=key.partition,
            first=first,
            last=last,
            why=str(error),
        )


def _groups_of(parts: Iterable[_Part]) -> list[str]:
    """The groups of the letters, each once."""
    return list(dict.fromkeys(part.job.led.key.group_id for part in parts))


def _error_of(answer: Any) -> KafkaError | None:
    if isinstance(answer, ChannelError):
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, str(answer))
    try:
        part = answer.responses[0].partition_responses[0]
    except (AttributeError, IndexError):
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer names no partition")
    if not part.error_code:
        return None
    return KafkaError(part.error_code, part.error_message or "")


def _bad_records(answer: Any) -> frozenset[int]:
    """The records that the answer names as the refused ones, by their number in the batch; none if it does
    not say."""
    part = answer.responses[0].partition_responses[0]
    return frozenset(bad.batch_index for bad in part.record_errors)


def _runs_of(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Sorted offsets as the first and the last of those that follow one another."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and runs[-1][1] == offset - 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs
