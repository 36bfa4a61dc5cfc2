"""The answers of a transaction coordinator by state, request and who asks: docs/transaction-answers.md.

One driver asks all three: the machine in a unit test, a node of ours and Apache Kafka 4.3.0 by raw requests.
Each answer is of a transactional id of its own, which is brought into the state by requests. A cell of the
table has Kafka's answer, and ours behind it where it differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import add_offsets_to_txn_request as offsets
from barnabas.wire.messages import add_partitions_to_txn_request as add
from barnabas.wire.messages import end_txn_request as ending
from barnabas.wire.messages import init_producer_id_request as init
from barnabas.wire.schema import Message

PAGE = Path(__file__).parents[1] / "docs" / "transaction-answers.md"
TOPIC = "t"
WHO = ("epoch before", "present epoch", "epoch after", "another producer id")


SOON = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
Wait = Callable[[Callable[[], bool], str], None]
"""Waits until something holds; the text says what that is."""


class Asker(Protocol):
    """A coordinator, and the leader of the partition that gets the markers."""

    def send(self, request: Message, version: int) -> Any:
        """The answer to one request."""

    def hold_markers(self) -> None: ...
    def release_markers(self) -> None: ...
    def is_ended(self, transactional_id: str) -> bool:
        """Whether its last transaction is complete."""


@dataclass
class Producer:
    """A transactional id, and what its coordinator has: the id and the epoch."""

    transactional_id: str
    producer_id: int = -1
    epoch: int = -1


def begin(asker: Asker, name: str, wait_until: Wait) -> Producer:
    """A new transactional id with epoch 1, so that there is an epoch before."""
    request = init.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=600_000)
    producer = Producer(name)

    def has_epoch_one() -> bool:
        answer = asker.send(request, 5)
        if answer.error_code in SOON:
            return False
        assert not answer.error_code, (name, ErrorCode(answer.error_code))
        producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch
        return producer.epoch == 1

    wait_until(has_epoch_one, f"{name}'s epochs")
    return producer


def add_partition(
    asker: Asker, who: Producer, version: int, *, verify: bool = False, partition: int = 0
) -> ErrorCode:
    topics = [add.AddPartitionsToTxnTopic(name=TOPIC, partitions=[partition])]
    if version < 4:
        request = add.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=who.transactional_id,
            v3_and_below_producer_id=who.producer_id,
            v3_and_below_producer_epoch=who.epoch,
            v3_and_below_topics=topics,
        )
    else:
        transaction = add.AddPartitionsToTxnTransaction(
            transactional_id=who.transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            verify_only=verify,
            topics=topics,
        )
        request = add.AddPartitionsToTxnRequest(transactions=[transaction])
    answer = asker.send(request, version)
    if answer.error_code:
        return ErrorCode(answer.error_code)
    results = answer.results_by_topic_v3_and_below
    for one in answer.results_by_transaction:
        results = one.topic_results
    return ErrorCode(results[0].results_by_partition[0].partition_error_code)


def end(asker: Asker, who: Producer, version: int, *, commit: bool) -> str:
    answer = asker.send(
        ending.EndTxnRequest(
            transactional_id=who.transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            committed=commit,
        ),
        version,
    )
    return _with_epoch(answer, who)


def _with_epoch(answer: Any, who: Producer) -> str:
    """The error, or whether the producer gets the epoch after the one that it named."""
    if answer.error_code:
        return ErrorCode(answer.error_code).name
    if answer.producer_id < 0:
        return "NONE"
    if answer.producer_id != who.producer_id:
        return "NONE, other id"
    return f"NONE, epoch {answer.producer_epoch - who.epoch:+d}"


def initialize(asker: Asker, who: Producer, *, named: bool) -> str:
    answer = asker.send(
        init.InitProducerIdRequest(
            transactional_id=who.transactional_id,
            transaction_timeout_ms=600_000,
            producer_id=who.producer_id if named else -1,
            producer_epoch=who.epoch if named else -1,
        ),
        5,
    )
    return _with_epoch(answer, who)


def add_group(asker: Asker, who: Producer) -> str:
    request = offsets.AddOffsetsToTxnRequest(
        transactional_id=who.transactional_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        group_id="g",
    )
    return ErrorCode(asker.send(request, 4).error_code).name


REQUESTS: dict[str, Callable[[Asker, Producer], str]] = {
    "InitProducerId 5, unnamed": lambda asker, who: initialize(asker, who, named=False),
    "InitProducerId 5": lambda asker, who: initialize(asker, who, named=True),
    "AddPartitionsToTxn 3": lambda asker, who: add_partition(asker, who, 3, partition=1).name,
    "AddPartitionsToTxn 5": lambda asker, who: add_partition(asker, who, 5, partition=1).name,
    "AddPartitionsToTxn 5, verify": lambda asker, who: (
        add_partition(asker, who, 5, verify=True).name
    ),
    "AddOffsetsToTxn 4": add_group,
    "EndTxn 4, commit": lambda asker, who: end(asker, who, 4, commit=True),
    "EndTxn 4, abort": lambda asker, who: end(asker, who, 4, commit=False),
    "EndTxn 5, commit": lambda asker, who: end(asker, who, 5, commit=True),
    "EndTxn 5, abort": lambda asker, who: end(asker, who, 5, commit=False),
}
STATES: dict[str, tuple[int, bool] | None] = {
    "Empty": None,
    "Ongoing": None,
    "PrepareCommit by EndTxn 4": (4, True),
    "PrepareAbort by EndTxn 4": (4, False),
    "PrepareCommit by EndTxn 5": (5, True),
    "PrepareAbort by EndTxn 5": (5, False),
    "CompleteCommit by EndTxn 4": (4, True),
    "CompleteAbort by EndTxn 4": (4, False),
    "CompleteCommit by EndTxn 5": (5, True),
    "CompleteAbort by EndTxn 5": (5, False),
}
"""By name: the version of EndTxn that ended the transaction, and whether it was a commit."""
Row = tuple[str, str]
Answers = dict[Row, list[str]]


def ask_all(asker: Asker, wait_until: Wait) -> Answers:
    """All answers of one coordinator."""
    cells = [(state, name, who) for state in STATES for name in REQUESTS for who in WHO]
    producers: dict[tuple[str, str, str], Producer] = {}
    for number, cell in enumerate(cells):
        producers[cell] = begin(asker, f"asked-{number}", wait_until)
        if cell[0] != "Empty":
            code = add_partition(asker, producers[cell], 3)
            assert code is ErrorCode.NONE, (cell, code)
    _end_all(asker, producers, "Complete")
    complete = [producers[cell] for cell in cells if cell[0].startswith("Complete")]
    for producer in complete:
        name = producer.transactional_id
        wait_until(partial(asker.is_ended, name), f"{name} to be complete")
    asker.hold_markers()
    try:
        _end_all(asker, producers, "Prepare")
        answers: Answers = {}
        for cell in cells:
            state, name, who = cell
            asked = _as(producers[cell], who)
            answers.setdefault((state, name), []).append(REQUESTS[name](asker, asked))
    finally:
        asker.release_markers()
    return answers


def _end_all(asker: Asker, producers: dict[tuple[str, str, str], Producer], which: str) -> None:
    for (state, _, _), producer in producers.items():
        how = STATES[state]
        if how is not None and state.startswith(which):
            answer = end(asker, producer, how[0], commit=how[1])
            assert answer.startswith("NONE"), (state, answer)
            producer.epoch += how[0] >= 5


def _as(producer: Producer, who: str) -> Producer:
    if who == "another producer id":
        return Producer(producer.transactional_id, producer.producer_id + 100_000, 0)
    moved = {"epoch before": -1, "present epoch": 0, "epoch after": 1}[who]
    return Producer(producer.transactional_id, producer.producer_id, producer.epoch + moved)


# The leader


class Leader(Protocol):
    """The leader of one partition, which asks no coordinator."""

    def write(self, producer_id: int, epoch: int, sequence: int) -> ErrorCode:
        """One batch of a transaction."""

    def mark(self, producer_id: int, epoch: int, version: int, coordinator_epoch: int) -> ErrorCode:
        """The commit marker of a transaction that was made at this level of ``transaction.version``."""


EPOCH, COORDINATOR_EPOCH = 5, 3
LEADER_STATES = {
    "nothing is known": None,
    "open": 0,
    "ended by a marker of its epoch": 0,
    "ended by a marker of the next epoch": 2,
}
"""By name: the version of the marker that ends the transaction."""
LEADER_WHO = WHO[:3]
LEADER_REQUESTS = (
    "batch", "marker of version 0", "marker of version 2", "marker of an earlier coordinator",
)  # fmt: skip


def ask_leader(leader: Leader) -> Answers:
    """All answers of one leader; each is of a producer of its own."""
    answers: Answers = {}
    producer_id = 500_000
    for state, version in LEADER_STATES.items():
        for name in LEADER_REQUESTS:
            for move in (-1, 0, 1):
                producer_id += 1
                epoch = _into(leader, producer_id, state, version) + move
                code = _ask_leader(leader, name, producer_id, epoch, state)
                answers.setdefault((state, name), []).append(code.name)
    return answers


def _into(leader: Leader, producer_id: int, state: str, version: int | None) -> int:
    """Bring the producer into the state; its epoch there."""
    if version is None:
        return EPOCH
    assert leader.write(producer_id, EPOCH, 0) is ErrorCode.NONE
    if state == "open":
        return EPOCH
    ended = EPOCH + (version >= 2)
    assert leader.mark(producer_id, ended, version, COORDINATOR_EPOCH) is ErrorCode.NONE
    return ended


def _ask_leader(leader: Leader, name: str, producer_id: int, epoch: int, state: str) -> ErrorCode:
    if name == "batch":
        follows = state in ("open", "ended by a marker of its epoch") and epoch == EPOCH
        return leader.write(producer_id, epoch, int(follows))
    if name == "marker of an earlier coordinator":
        return leader.mark(producer_id, epoch, 0, COORDINATOR_EPOCH - 1)
    return leader.mark(producer_id, epoch, int(name[-1]), COORDINATOR_EPOCH)


# The tables


def rows_of(theirs: Answers, ours: Answers, who: Sequence[str]) -> Iterable[str]:
    yield f"| state | request | {' | '.join(who)} |"
    yield "|---" * (2 + len(who)) + "|"
    for (state, name), cells in theirs.items():
        shown = [
            their if their == our else f"{their}; here {our}"
            for their, our in zip(cells, ours[state, name], strict=True)
        ]
        yield f"| {state} | {name} | {' | '.join(shown)} |"


def table(which: str) -> tuple[Answers, Answers]:
    """Kafka's answers and ours, as the page has them: of the "coordinator" or of the "leader"."""
    theirs: Answers = {}
    ours: Answers = {}
    begin, end = _marks(which)
    for line in PAGE.read_text().partition(begin)[2].partition(end)[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > 2 and cells[0] in (*STATES, *LEADER_STATES):
            row, shown = (cells[0], cells[1]), cells[2:]
            theirs[row] = [cell.split("; here ")[0] for cell in shown]
            ours[row] = [cell.split("; here ")[-1] for cell in shown]
    return theirs, ours


def rewrite(which: str, theirs: Answers, ours: Answers) -> None:
    """Put both into the page."""
    begin, end = _marks(which)
    who = WHO if which == "coordinator" else LEADER_WHO
    rows = "\n".join(rows_of(theirs, ours, who))
    pattern = re.compile(f"{re.escape(begin)}.*{re.escape(end)}", re.DOTALL)
    PAGE.write_text(pattern.sub(f"{begin}\n\n{rows}\n\n{end}", PAGE.read_text()))


def _marks(which: str) -> tuple[str, str]:
    return f"<!-- {which} -->", f"<!-- end of {which} -->"
