"""The server-side assignors: each partition once, to a subscriber, in equal shares, with few moves."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.group.consumer.assignors import ASSIGNORS, finish
from barnabas.group.consumer.assignors.spec import GroupSpec, Targets
from barnabas.types import Uuid
from tests.effort import examples

A, B, C = (Uuid(bytes([n]) * 16) for n in (1, 2, 3))
SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from("mnopqr"), st.frozensets(st.sampled_from([A, B, C]), min_size=1), min_size=1
)
COUNTS = st.fixed_dictionaries({topic: st.integers(0, 7) for topic in (A, B, C)})


def assigned(name: str, spec: GroupSpec) -> Targets:
    return finish(ASSIGNORS[name](spec))


def loads(targets: Targets) -> dict[str, int]:
    return {member: sum(map(len, target.values())) for member, target in targets.items()}


def check(spec: GroupSpec, targets: Targets) -> None:
    assert set(targets) == set(spec.subscriptions)
    times = Counter(
        (topic, index)
        for target in targets.values()
        for topic, parts in target.items()
        for index in parts
    )
    wanted = {topic for topics in spec.subscriptions.values() for topic in topics}
    assert times == Counter((t, i) for t in wanted for i in range(spec.partitions[t]))
    for member, target in targets.items():
        assert set(target) <= spec.subscriptions[member]
        assert all(target.values())


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=examples(150), deadline=None)
@given(first=SUBSCRIPTIONS, then=SUBSCRIPTIONS, before=COUNTS, after=COUNTS)
def test_every_partition_goes_to_one_subscriber(
    name: str,
    first: dict[str, frozenset[Uuid]],
    then: dict[str, frozenset[Uuid]],
    before: dict[Uuid, int],
    after: dict[Uuid, int],
) -> None:
    assign = partial(assigned, name)
    spec = GroupSpec(dict(sorted(first.items())), {}, before)
    targets = assign(spec)
    check(spec, targets)
    following = GroupSpec(dict(sorted(then.items())), targets, after)
    check(following, assign(following))
    again = GroupSpec(spec.subscriptions, targets, before)
    assert assign(again) == targets, "the same question has another answer"


@settings(max_examples=examples(150), deadline=None)
@given(first=SUBSCRIPTIONS, then=SUBSCRIPTIONS, counts=COUNTS)
def test_uniform_shares_cannot_be_made_more_equal(
    first: dict[str, frozenset[Uuid]], then: dict[str, frozenset[Uuid]], counts: dict[Uuid, int]
) -> None:
    uniform = partial(assigned, "uniform")
    targets = uniform(GroupSpec(first, {}, counts))
    targets = uniform(GroupSpec(then, targets, counts))
    load = loads(targets)
    for owner, target in targets.items():
        for topic in target:
            for other, topics in then.items():
                if topic in topics:
                    assert load[owner] <= load[other] + 1, (owner, other, load)


def test_uniform_moves_only_what_a_new_member_needs() -> None:
    topics = frozenset({A, B})
    counts = {A: 6, B: 6}
    before = assigned("uniform", GroupSpec({"m": topics, "n": topics}, {}, counts))
    three = GroupSpec({"a": topics, "m": topics, "n": topics}, before, counts)
    after = assigned("uniform", three)
    assert sorted(loads(after).values()) == [4, 4, 4]
    for member in ("m", "n"):
        assert all(after[member][t] <= before[member][t] for t in after[member])


def test_range_gives_equal_numbers_of_topics_that_are_partitioned_alike() -> None:
    topics = frozenset({A, B})
    targets = assigned("range", GroupSpec({"m": topics, "n": topics}, {}, {A: 5, B: 5}))
    assert targets["m"][A] == targets["m"][B] == frozenset({0, 1, 2})
    assert targets["n"][A] == targets["n"][B] == frozenset({3, 4})
