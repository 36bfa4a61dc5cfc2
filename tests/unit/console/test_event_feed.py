"""The time line: a log that cannot be read, one that is long, and threads that share a feed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from barnabas.cli.failure import Failure
from barnabas.console.application import Console
from barnabas.console.cluster_views import event_feed
from barnabas.console.cluster_views.event_feed import EventFeed, moments_of
from barnabas.console.settings import ConsoleSettings
from barnabas.host.client import Connected
from barnabas.metadata.views.cluster_events import ClusterEvent
from barnabas.raft.storage.snapshot_files import CorruptSnapshotError
from barnabas.record.batch import CorruptBatchError
from tests.unit.console.asgi import ask
from tests.unit.console.fakes import AnsweringClient

DAMAGES = [
    CorruptSnapshotError("the snapshot is cut"),
    CorruptBatchError(0, "its CRC is wrong"),
    ValueError("a record of type 99"),
    Failure("the logs differ"),
]


def event(at_ms: int, kind: str = "isr") -> ClusterEvent:
    return ClusterEvent(at_ms, at_ms, kind, f"flights-{at_ms}", "changed", "")


def test_elections_of_a_dead_broker_are_one_line_for_each_reason() -> None:
    def elected(number: int, topic: str) -> ClusterEvent:
        why = f"broker 2 is gone: {number % 2} is the first live member of the ISR"
        return ClusterEvent(number, 1_000, "election", f"{topic}-{number}", "leader", why)

    internal = [elected(number, "__consumer_offsets") for number in range(6)]
    flights = elected(6, "flights")
    later = ClusterEvent(7, 2_000, *flights[2:])
    unexplained = [event(1_000), event(1_000)]
    even, odd, *others = moments_of([*internal, *unexplained, flights, later])
    assert even.first == flights, "an internal topic speaks for a user's"
    assert even.others == [internal[0], internal[2], internal[4]]
    assert [odd.first, *odd.others] == [internal[1], internal[3], internal[5]]
    assert [(moment.first, moment.others) for moment in others] == [
        (unexplained[0], []), (unexplained[1], []), (later, [])
    ]  # fmt: skip


class Log:
    """Replaces the reader of the metadata log: each read takes the next of `steps`."""

    def __init__(self, steps: list[Callable[[], list[ClusterEvent]]]) -> None:
        self.quorum = None
        self._steps = steps

    @property
    def at_end(self) -> bool:
        return not self._steps

    def read(self, _reader: object) -> list[ClusterEvent]:
        return self._steps.pop(0)() if self._steps else []


class NoRefusals:
    def __init__(self, _connected: object) -> None:
        pass

    def read(self, _quorum: object) -> list[ClusterEvent]:
        return [event(0, "refusal")]


def raising(error: Exception) -> Callable[[], list[ClusterEvent]]:
    def fail() -> list[ClusterEvent]:
        raise error

    return fail


Steps = list[Callable[[], list[ClusterEvent]]]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """What the log answers, one read after the other."""
    found: Steps = []
    monkeypatch.setattr(event_feed, "MetadataLogReader", lambda _: Log(found))
    monkeypatch.setattr(event_feed, "RefusalReader", NoRefusals)
    monkeypatch.setattr(event_feed, "FRESH_S", 0.0)
    monkeypatch.setattr(event_feed, "RETRY_S", 0.0)
    return found


@pytest.fixture
def clients() -> list[AnsweringClient]:
    return []


@pytest.fixture
def feed(clients: list[AnsweringClient]) -> Iterator[EventFeed]:
    def new_client() -> Connected:
        clients.append(AnsweringClient())
        return cast(Connected, clients[-1])

    opened = EventFeed(new_client)
    yield opened
    opened.close()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda error: type(error).__name__)
def test_a_log_that_cannot_be_read_becomes_a_problem_and_is_read_again(
    feed: EventFeed, steps: Steps, clients: list[AnsweringClient], damage: Exception
) -> None:
    steps += [lambda: [event(1)], raising(damage)]
    feed.refresh()
    assert "cannot be read" in feed.problem
    assert str(damage) in feed.problem
    assert [client.closed for client in clients] == [1]
    steps.append(lambda: [event(1)])
    feed.refresh()
    assert feed.problem == ""
    assert [found.at_ms for found in feed.snapshot()] == [0, 1]
    assert len(clients) == 2


def test_a_reader_with_a_bug_is_not_used_again(
    feed: EventFeed, steps: Steps, clients: list[AnsweringClient]
) -> None:
    steps.append(raising(KeyError("a bug")))
    with pytest.raises(KeyError):
        feed.refresh()
    assert [client.closed for client in clients] == [1]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda error: type(error).__name__)
def test_a_page_whose_time_line_cannot_be_read_is_shown_and_says_so(
    monkeypatch: pytest.MonkeyPatch, steps: Steps, damage: Exception
) -> None:
    monkeypatch.setattr(
        "barnabas.console.client_pool.ClientPool.new_client", lambda _: AnsweringClient()
    )
    steps.append(raising(damage))
    console = Console(ConsoleSettings("127.0.0.1:1"))
    answer = ask(console.application(), "/events")
    console.close()
    assert answer.status == 200
    assert "What was decided, and why, cannot be read" in answer.text
    assert "What happened, and why" in answer.text


def test_events_that_arrive_while_a_page_walks_over_them_do_not_stop_it(
    feed: EventFeed, steps: Steps
) -> None:
    steps.append(lambda: [event(1), event(2)])
    feed.refresh()
    walk = reversed(feed.snapshot())
    assert next(walk).at_ms == 2
    steps.append(lambda: [event(3)])
    feed.refresh()
    assert [found.at_ms for found in walk] == [1, 0]


def test_a_long_log_is_read_in_several_refreshes(
    monkeypatch: pytest.MonkeyPatch, feed: EventFeed, steps: Steps
) -> None:
    monkeypatch.setattr(event_feed, "READ_S", 0.0)
    steps += [lambda: [event(1)], lambda: [event(2)], lambda: [event(3)]]
    seen = []
    for _ in range(3):
        feed.refresh()
        seen.append(([found.at_ms for found in feed.snapshot()], feed.is_behind))
    assert seen == [([1], True), ([1, 2], True), ([1, 2, 0, 3], False)]


class Stalled:
    """A refresh in a thread that waits for its cluster."""

    def __init__(self, feed: EventFeed, steps: Steps) -> None:
        self._asked, self._answered = threading.Event(), threading.Event()
        steps.append(self._read)
        self._thread = threading.Thread(target=feed.refresh)

    def __enter__(self) -> Stalled:
        self._thread.start()
        assert self._asked.wait(10)
        return self

    def __exit__(self, *_: Any) -> None:
        self._answered.set()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _read(self) -> list[ClusterEvent]:
        self._asked.set()
        self._answered.wait(10)
        return [event(1)]


def test_a_feed_closes_at_once_and_its_client_after_the_refresh(
    feed: EventFeed, steps: Steps, clients: list[AnsweringClient]
) -> None:
    with Stalled(feed, steps):
        feed.close()
        assert clients[0].closed == 0
    assert clients[0].closed == 1


def test_a_feed_that_is_closed_opens_no_client_again(
    feed: EventFeed, clients: list[AnsweringClient]
) -> None:
    feed.close()
    feed.refresh()
    assert clients == []


def test_a_page_shows_what_is_there_while_another_reads_for_long(
    monkeypatch: pytest.MonkeyPatch, feed: EventFeed, steps: Steps
) -> None:
    steps.append(lambda: [event(5)])
    feed.refresh()
    monkeypatch.setattr(event_feed, "READ_S", 0.01)
    with Stalled(feed, steps):
        feed.refresh()
        assert [found.at_ms for found in feed.snapshot()] == [0, 5]
