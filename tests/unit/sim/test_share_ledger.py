"""The ledger of share groups objects to what no share group may do, and to nothing else."""

from __future__ import annotations

import pytest

from barnabas.client.consumers.share_requests import Acknowledged
from barnabas.client.consumers.share_runs import Acknowledge
from barnabas.client.network.channels import ChannelError
from barnabas.client.records import DeliveredRecord
from barnabas.sim.history import Violation, Written
from barnabas.sim.share_ledger import SHARED, Server, ShareLedger
from barnabas.types import TopicPartition

LOCK_MS = 1_000.0


class OneBroker:
    """What the ledger sees of the brokers."""

    def __init__(self) -> None:
        self.server: Server | None = (1, 0)
        self.sessions: dict[str, object] = {"a": object(), "b": object()}

    def server_of(self, group: str, partition: int, node: int, since_ms: float) -> Server | None:
        return self.server

    def session_of(self, group: str, member_id: str, node: int) -> object:
        return self.sessions.get(member_id)


class Book:
    def __init__(self) -> None:
        self.broker = OneBroker()
        self.ledger = ShareLedger(3, LOCK_MS, self.broker)
        self.now_ms = 0.0

    def deliver(self, member: str, deliveries: int = 1) -> None:
        record = DeliveredRecord(SHARED, 0, 7, 0, None, b"v", (), deliveries)
        self.ledger.on_delivered("g", member, record, (1, self.now_ms), self.now_ms)

    def answer(self, member: str, kind: int, error: ChannelError | None = None) -> None:
        self.ledger.on_said("g", member, 0, 7)
        told = Acknowledged(TopicPartition(SHARED, 0), {7: kind}, error)
        self.ledger.on_answer("g", member, told, self.now_ms)

    def finish(self) -> None:
        self.ledger.check_final(["g"], {0: [Written(b"v", 7)]})


@pytest.fixture
def book() -> Book:
    return Book()


def test_a_word_whose_answer_no_member_receives_may_be_kept(book: Book) -> None:
    book.deliver("a")
    with pytest.raises(Violation, match="never acknowledged, and is gone"):
        book.finish()
    book.ledger.on_vanished("g", "a")
    with pytest.raises(Violation, match="never acknowledged, and is gone"):
        book.finish()
    book.ledger.on_last_word("g", "a", 0, 7)
    book.ledger.on_vanished("g", "a")
    book.finish()


def test_an_accepted_record_is_not_delivered_again(book: Book) -> None:
    book.deliver("a")
    book.answer("a", Acknowledge.ACCEPT)
    book.finish()
    with pytest.raises(Violation, match="ACCEPT was acknowledged"):
        book.deliver("b", 2)


def test_the_next_leader_knows_what_was_acknowledged(book: Book) -> None:
    book.deliver("a")
    book.answer("a", Acknowledge.REJECT)
    book.broker.server = (2, 1)
    with pytest.raises(Violation, match="REJECT was acknowledged"):
        book.deliver("b")


def test_a_former_leader_may_deliver_once_more(book: Book) -> None:
    book.broker.server = (2, 1)
    book.deliver("a")
    book.answer("a", Acknowledge.ACCEPT)
    book.broker.server = (1, 0)
    book.deliver("b")


def test_a_record_is_not_given_to_two_members_at_a_time(book: Book) -> None:
    book.deliver("a")
    with pytest.raises(Violation, match="while a holds it"):
        book.deliver("b", 2)


def test_a_record_may_be_given_on_after_its_lock_a_word_or_the_session(book: Book) -> None:
    book.deliver("a")
    book.now_ms = LOCK_MS
    book.deliver("b", 2)
    book.ledger.on_said("g", "b", 0, 7)
    book.deliver("a", 3)
    other = Book()
    other.deliver("a")
    other.broker.sessions["a"] = object()
    other.deliver("b", 2)


def test_each_delivery_counts(book: Book) -> None:
    book.deliver("a")
    with pytest.raises(Violation, match="delivery 1 went to a"):
        book.deliver("b", 1)
    with pytest.raises(Violation, match="for the 4th time"):
        book.deliver("b", 4)


def test_a_record_that_is_gone_was_acknowledged_or_archived(book: Book) -> None:
    with pytest.raises(Violation, match="never acknowledged"):
        book.finish()
    book.deliver("a")
    with pytest.raises(Violation, match="was delivered 1 times"):
        book.finish()
    book.ledger.on_lost("g", 1.0)
    book.ledger.on_lost("g", 2.0)
    book.finish()


def test_an_acknowledgement_that_was_not_answered_may_be_kept(book: Book) -> None:
    book.deliver("a")
    book.answer("a", Acknowledge.ACCEPT, ChannelError("closed", "the broker is gone"))
    book.finish()
    book.now_ms = LOCK_MS
    book.deliver("b", 2)


def test_a_record_is_no_gap(book: Book) -> None:
    book.answer("a", Acknowledge.GAP)
    with pytest.raises(Violation, match="taken for a gap"):
        book.finish()
