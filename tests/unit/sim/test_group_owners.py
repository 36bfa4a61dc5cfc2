"""Who counts as an owner of a partition in a consumer group, and who has left."""

from __future__ import annotations

import pytest

from barnabas.group.consumer.consumer_group import ConsumerGroup, detached
from barnabas.group.consumer.member import ConsumerMember
from barnabas.sim.checkers.group_owners import Departures, check_owners
from barnabas.sim.history import Violation
from barnabas.types import Uuid

T = Uuid(bytes(15) + b"\1")


def group(epoch: int, **members: int) -> ConsumerGroup:
    """Each member, at that epoch, has the only partition."""
    made = detached("g")
    made.set_epoch(epoch, 0)
    for name, member_epoch in members.items():
        made.put_member(ConsumerMember(name, epoch=member_epoch, assigned={T: {0: member_epoch}}))
    return made


def test_two_owners_are_one_too_many() -> None:
    with pytest.raises(Violation, match="a and b both own partition 0"):
        check_owners(group(2, a=1, b=2), 1)


def test_an_owner_that_left_does_not_count_for_a_later_coordinator() -> None:
    departures = Departures()
    departures.check_groups(1, {"g": group(1, a=1)})
    departures.check_groups(1, {"g": group(3, b=3)})
    revived = group(3, a=1, b=3)
    departures.check_groups(2, {"g": revived})
    check_owners(revived, 1, departures.of("g"))


def test_two_owners_that_both_stayed_are_seen_by_a_later_coordinator() -> None:
    departures = Departures()
    departures.check_groups(1, {"g": group(2, a=1, b=2)})
    departures.check_groups(2, {"g": group(2, a=1, b=2)})
    with pytest.raises(Violation, match="both own"):
        check_owners(group(2, a=1, b=2), 1, departures.of("g"))


def test_a_member_that_joined_again_counts() -> None:
    departures = Departures()
    departures.check_groups(1, {"g": group(1, a=1)})
    departures.check_groups(1, {"g": group(3, b=3)})
    departures.check_groups(2, {"g": group(5, a=5)})
    assert departures.of("g") == {"b"}


def test_a_member_that_is_back_at_the_same_coordinator_counts() -> None:
    departures = Departures()
    departures.check_groups(1, {"g": group(1, a=1)})
    departures.check_groups(1, {"g": group(2)})
    departures.check_groups(1, {"g": group(3, a=1)})
    assert departures.of("g") == frozenset()


def test_a_coordinator_that_was_deposed_lets_no_member_leave() -> None:
    departures = Departures()
    departures.check_groups(2, {"g": group(2, a=1)})
    departures.check_groups(1, {"g": group(1)})
    assert departures.of("g") == frozenset()


def test_members_of_a_group_that_is_gone_have_left() -> None:
    departures = Departures()
    departures.check_groups(1, {"g": group(1, a=1)})
    departures.check_groups(1, {})
    departures.check_groups(2, {"g": group(1, a=1)})
    assert departures.of("g") == {"a"}
