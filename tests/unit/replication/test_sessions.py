"""Fetch sessions: what is remembered on both sides, and who has to go when there is no room."""

from __future__ import annotations

import pytest

from barnabas.limits import FetchBounds
from barnabas.replication.sessions import (
    EPOCH_MAX,
    UNUSED_MS_MAX,
    ClientSession,
    FetchSession,
    SessionCache,
    SessionPartition,
    WantedPartition,
    next_epoch,
)

EVICTION_MS_MIN = FetchBounds().session_eviction_ms_min

A, B, C = ("t", 0), ("t", 1), ("t", 2)


def want(offset: int) -> WantedPartition:
    return WantedPartition(offset, 0, 0, 0)


def test_epochs_wrap_to_one() -> None:
    assert next_epoch(0) == 1
    assert next_epoch(EPOCH_MAX) == 1
    assert next_epoch(-1) == -1


class TestClient:
    def test_the_first_request_names_everything(self) -> None:
        session = ClientSession()
        wanted = {A: want(0), B: want(5)}
        assert session.plan(wanted, []) == (wanted, [], {})
        assert (session.id, session.epoch) == (0, 0)

    def test_later_requests_name_only_what_moved(self) -> None:
        session = ClientSession()
        wanted = {A: want(0), B: want(5)}
        session.plan(wanted, [])
        session.on_response(77)
        assert (session.id, session.epoch) == (77, 1)
        wanted[A] = want(3)
        assert session.plan(wanted, [A, B]) == ({A: want(3)}, [], {})
        session.on_response(77)
        assert session.epoch == 2
        assert session.plan(wanted, []) == ({}, [], {})

    def test_a_partition_no_longer_wanted_is_forgotten_once(self) -> None:
        session = ClientSession()
        wanted = {A: want(0), B: want(5)}
        session.plan(wanted, [])
        session.on_response(77)
        del wanted[B]
        assert session.plan(wanted, [B]) == ({}, [B], {})
        assert session.plan(wanted, [B]) == ({}, [], {})
        assert session.asked(B) is None
        assert session.asked(A) == want(0)

    def test_many_new_ones_are_named_over_several_requests_and_what_moved_at_once(self) -> None:
        session = ClientSession()
        keys = [("t", index) for index in range(5)]
        wanted = {key: want(0) for key in keys}
        assert list(session.plan(wanted, [], 2).named) == keys[:2]
        session.on_response(7)
        wanted[keys[0]] = want(9)
        changed = {keys[0]: None, **dict.fromkeys(keys[2:])}
        plan = session.plan(wanted, changed, 2)
        assert list(plan.named) == [keys[0], keys[2]] and list(plan.left) == keys[3:]
        session.on_response(7)
        plan = session.plan(wanted, plan.left, 2)
        assert list(plan.named) == keys[3:] and not plan.left

    def test_a_leader_without_room_gets_everything_at_once(self) -> None:
        session = ClientSession()
        wanted = {("t", index): want(0) for index in range(5)}
        assert len(session.plan(wanted, [], 2).named) == 2
        session.on_response(0)
        assert session.plan(wanted, [], 2) == (wanted, [], {})

    def test_a_leader_without_room_for_sessions_is_asked_in_full_again(self) -> None:
        session = ClientSession()
        wanted = {A: want(0)}
        session.plan(wanted, [])
        session.on_response(0)
        assert session.is_full
        assert session.plan(wanted, []) == (wanted, [], {})

    def test_a_reset_names_the_old_session_so_that_it_is_dropped(self) -> None:
        session = ClientSession()
        session.plan({A: want(0)}, [])
        session.on_response(77)
        session.reset()
        assert (session.id, session.epoch) == (77, 0)
        session.forget()
        assert (session.id, session.epoch) == (0, 0)


def session_of(follower: int, partitions: int, now_ms: float = 0.0) -> FetchSession[str]:
    session: FetchSession[str] = FetchSession(follower, uses_ids=True, now_ms=now_ms)
    for index in range(partitions):
        key = ("t", index)
        session.partitions[key] = SessionPartition(session, key, "t")
    return session


class TestCache:
    def test_a_session_begins_at_epoch_one(self) -> None:
        cache: SessionCache[str] = SessionCache(10)
        session = session_of(-1, 1)
        assert cache.add(session, 5, 0.0) == (True, None)
        assert (session.id, session.epoch) == (5, 1)
        assert cache.get(5) is session

    def test_an_id_in_use_or_reserved_is_not_given(self) -> None:
        cache: SessionCache[str] = SessionCache(10)
        cache.add(session_of(-1, 1), 5, 0.0)
        assert cache.add(session_of(-1, 1), 5, 0.0) == (False, None)
        assert cache.add(session_of(-1, 1), 0, 0.0) == (False, None)

    def test_a_long_unused_session_is_evicted_though_there_is_room(self) -> None:
        cache: SessionCache[str] = SessionCache(10)
        left, alive = session_of(2, 3), session_of(2, 3)
        for number, session in enumerate((left, alive), 1):
            cache.add(session, number, 0.0)
        cache.touch(alive, 100.0)
        assert cache.add(session_of(2, 3), 3, UNUSED_MS_MAX) == (True, None)
        assert cache.add(session_of(2, 3), 4, UNUSED_MS_MAX + 1.0) == (True, left)
        assert cache.add(session_of(2, 3), 5, UNUSED_MS_MAX + 2.0) == (True, None)
        assert cache.get(2) is alive and len(cache) == 4

    def test_a_consumer_gets_no_session_in_a_full_cache(self) -> None:
        cache: SessionCache[str] = SessionCache(1)
        cache.add(session_of(-1, 1), 5, 0.0)
        assert cache.add(session_of(-1, 1), 6, 1.0) == (False, None)
        assert cache.get(5) is not None

    def test_the_session_unused_for_longest_goes_first(self) -> None:
        cache: SessionCache[str] = SessionCache(2)
        first, second = session_of(-1, 1), session_of(-1, 1)
        cache.add(first, 5, 0.0)
        cache.add(second, 6, 0.0)
        cache.touch(first, EVICTION_MS_MIN)
        assert cache.add(session_of(-1, 1), 7, EVICTION_MS_MIN + 1) == (True, second)
        assert cache.get(6) is None

    def test_a_follower_displaces_a_consumer_but_not_the_reverse(self) -> None:
        cache: SessionCache[str] = SessionCache(1)
        consumer = session_of(-1, 9)
        cache.add(consumer, 5, 0.0)
        assert cache.add(session_of(2, 1), 6, 1.0) == (True, consumer)
        assert cache.add(session_of(-1, 99), 7, 2.0) == (False, None)
        assert cache.evictions == 1


class TestDirtyPartitions:
    def test_a_partition_that_was_sent_in_part_comes_last(self) -> None:
        session = session_of(-1, 3)
        a, b, c = session.partitions.values()
        for watched in (a, b, c):
            session.mark(watched)
        session.later(a)
        session.mark(b)  # known already: keeps its place
        assert list(session.dirty) == [b, c, a]

    def test_a_dropped_partition_is_sent_no_more(self) -> None:
        session = session_of(-1, 2)
        a, b = session.partitions.values()
        session.mark(a)
        session.mark(b)
        assert session.drop(a.key) is a
        assert list(session.dirty) == [b]
        assert session.drop(a.key) is None


def test_a_session_that_marks_a_partition_it_does_not_have_is_invalid() -> None:
    cache: SessionCache[None] = SessionCache(2)
    session: FetchSession[None] = FetchSession(-1, uses_ids=False, now_ms=0)
    partition = session.partitions[A] = SessionPartition(session, A, "t")
    session.mark(partition)
    assert cache.add(session, 7, 0)[0]
    cache.validate()
    del session.partitions[A]
    with pytest.raises(AssertionError, match="does not have"):
        cache.validate()
