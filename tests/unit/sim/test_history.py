"""What a history calls an anomaly, and what it lets pass."""

from __future__ import annotations

import pytest

from barnabas.sim.history import History, Promise, Reading, Violation


def written(*values: bytes) -> History:
    history = History()
    for offset, value in enumerate(values):
        history.on_sent("t", 0, value)
        history.on_acknowledged("t", 0, value, offset)
    return history


def read(history: History, reading: Reading, *offsets: int) -> None:
    for offset in offsets:
        history.on_read("t", 0, offset, b"%d" % offset, reading)


def ten() -> tuple[History, dict[int, bytes]]:
    final = {offset: b"%d" % offset for offset in range(10)}
    return written(*final.values()), final


def test_a_whole_history_passes() -> None:
    history, final = ten()
    read(history, Reading("g"), *range(10))
    history.commits.acknowledge(history.commits.begin("g", {("t", 0): 10}))
    history.check_final("t", 0, final)


@pytest.mark.parametrize(
    ("final", "message"),
    [
        ({0: b"a"}, "acknowledged at offset 1 and lost: b'b'"),
        ({0: b"b", 1: b"a"}, "changed their order"),
        ({0: b"a", 1: b"b", 2: b"b"}, "written once, there twice"),
        ({0: b"a", 1: b"b", 2: b"c"}, "no client wrote b'c'"),
    ],
    ids=["lost write", "reordering", "duplicate", "no client wrote it"],
)
def test_writes(final: dict[int, bytes], message: str) -> None:
    with pytest.raises(Violation, match=message):
        written(b"a", b"b").check_final("t", 0, final)


def test_a_skip() -> None:
    history, final = ten()
    read(history, Reading("g"), 0, 1, 4)
    with pytest.raises(Violation, match="skipped offset 2, after 1"):
        history.check_final("t", 0, final)


def test_a_gap_that_was_deleted_is_no_skip() -> None:
    history, final = ten()
    read(history, Reading("g"), 0, 1, 4)
    history.on_cut("t", 0, 4)
    history.check_final("t", 0, {offset: final[offset] for offset in range(4, 10)})


def test_a_non_monotonic_poll() -> None:
    history, _ = ten()
    with pytest.raises(Violation, match=r"a non-monotonic poll.* took offset 1 after 2"):
        read(history, Reading("g"), 1, 2, 1)


def test_another_member_may_read_again_what_was_not_committed() -> None:
    history, final = ten()
    read(history, Reading("g"), 0, 1, 2)
    read(history, Reading("g"), 1, 2, 3)
    history.check_final("t", 0, final)


def test_a_record_that_stays_unseen() -> None:
    history, final = ten()
    read(history, Reading("g"), 0, 1)
    read(history, Reading("g"), 3, 4)
    history.commits.acknowledge(history.commits.begin("g", {("t", 0): 5}))
    with pytest.raises(Violation, match="g has committed 5, and none of its members saw 2"):
        history.check_final("t", 0, final)


def test_a_topic_that_does_not_settle_promises_readers_nothing() -> None:
    history, final = ten()
    history.promises["t"] = Promise(settles=False)
    read(history, Reading("g"), 2, 1, 7)
    history.check_final("t", 0, final)


def compacted() -> History:
    history = History()
    history.promises["t"] = Promise(compacts=True)
    for offset, (key, value) in enumerate([(b"k", b"a"), (b"l", b"b"), (b"k", b"c")]):
        history.keys[value] = key
        history.on_sent("t", 0, value)
        history.on_acknowledged("t", 0, value, offset)
    read_all = Reading("g")
    history.on_read("t", 0, 0, b"a", read_all)
    history.on_read("t", 0, 1, b"b", read_all)
    history.on_read("t", 0, 2, b"c", read_all)
    return history


def test_compaction_may_take_what_has_a_newer_value() -> None:
    compacted().check_final("t", 0, {1: b"b", 2: b"c"})
    compacted().check_final("t", 0, {0: b"a", 1: b"b", 2: b"c"})


def test_compaction_may_not_take_the_last_value_of_a_key() -> None:
    with pytest.raises(Violation, match="acknowledged at offset 1 and lost: b'b'"):
        compacted().check_final("t", 0, {2: b"c"})
    with pytest.raises(Violation, match="acknowledged at offset 0 and lost: b'a'"):
        compacted().check_final("t", 0, {1: b"b"})


def test_a_reader_of_a_replica_that_had_compacted_skips_nothing() -> None:
    """Replicas compact at their own time: another one may lead in the end (seed 102075)."""
    history = compacted()
    late = Reading("late")
    history.on_read("t", 0, 1, b"b", late)
    history.on_read("t", 0, 2, b"c", late)
    history.commits.acknowledge(history.commits.begin("late", {("t", 0): 3}))
    history.check_final("t", 0, {0: b"a", 1: b"b", 2: b"c"})
    del history.seen["late", ("t", 0)]
    with pytest.raises(Violation, match="late has committed 3, and none of its members saw 1"):
        history.check_final("t", 0, {0: b"a", 1: b"b", 2: b"c"})


def test_two_owners_of_one_generation() -> None:
    history = History()
    history.on_assigned("g", 3, "m1", [("t", 0), ("t", 1)])
    history.on_assigned("g", 4, "m2", [("t", 0)])
    with pytest.raises(Violation, match="generation 3: m1 and m2 were both given t-1"):
        history.on_assigned("g", 3, "m2", [("t", 1)])


def test_an_assignment_before_a_group_was_forgotten_may_arrive_late() -> None:
    """Its answer waited for the high watermark (seed 200415)."""
    history = History()
    history.on_group_expired("g")
    history.on_assigned("g", 1, "of the former group", [("t", 0)])
    history.on_assigned("g", 1, "of the new one", [("t", 0)])


def test_a_replaced_member_joins_a_recreated_group_like_any_other() -> None:
    """It asked under its id, which was unknown, and joined with its instance id (seed 247)."""
    history = History()
    assert not history.may_have_restarted("g")
    history.on_group_expired("other")
    assert not history.may_have_restarted("g")
    history.on_group_expired("g")
    assert history.may_have_restarted("g")
    history.on_groups_gone()
    assert history.may_have_restarted("third")


def test_a_reader_without_leader_epochs_may_be_sent_back_by_a_former_leader() -> None:
    """Seed 200601."""
    history = History()
    for _ in range(2):
        read(history, Reading("g", names_epochs=False), 1, 2, 1)
