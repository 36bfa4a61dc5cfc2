"""What a coordinator may hold as a group's committed offset, and what it may not."""

from __future__ import annotations

from barnabas.sim.offset_commits import GONE, Commits

PLACE = ("t", 0)


def test_the_last_acknowledged_commit_is_right() -> None:
    commits = Commits()
    commits.acknowledge(commits.begin("g", {PLACE: 5}))
    commits.acknowledge(commits.begin("g", {PLACE: 9}))
    assert commits.check("g", {PLACE: 9}) == ""


def test_an_older_commit_went_back_unasked() -> None:
    commits = Commits()
    commits.acknowledge(commits.begin("g", {PLACE: 5}))
    commits.acknowledge(commits.begin("g", {PLACE: 9}))
    assert "older than what was acknowledged" in commits.check("g", {PLACE: 5})


def test_a_commit_without_an_answer_may_have_arrived_or_not() -> None:
    commits = Commits()
    commits.acknowledge(commits.begin("g", {PLACE: 5}))
    commits.begin("g", {PLACE: 9})
    assert commits.check("g", {PLACE: 5}) == ""
    assert commits.check("g", {PLACE: 9}) == ""


def test_either_of_two_concurrent_commits_may_be_last() -> None:
    commits = Commits()
    first, second = commits.begin("g", {PLACE: 5}), commits.begin("g", {PLACE: 3})
    commits.acknowledge(second)
    commits.acknowledge(first)
    assert commits.check("g", {PLACE: 5}) == ""
    assert commits.check("g", {PLACE: 3}) == ""


def test_going_back_is_right_where_a_member_asked_for_it() -> None:
    commits = Commits()
    commits.acknowledge(commits.begin("g", {PLACE: 9}))
    commits.acknowledge(commits.begin("g", {PLACE: 2}))
    assert commits.check("g", {PLACE: 2}) == ""


def test_uncommitted_and_missing_offsets_are_found() -> None:
    commits = Commits()
    commits.acknowledge(commits.begin("g", {PLACE: 5}))
    assert "no member committed" in commits.check("g", {PLACE: 6})
    assert "has no offset" in commits.check("g", {})
    assert commits.check("another", {}) == ""


def test_a_deleted_offset_does_not_come_back() -> None:
    commits = Commits()
    commits.acknowledge(commits.begin("g", {PLACE: 5}))
    attempts = commits.begin("g", {PLACE: GONE})
    assert commits.check("g", {PLACE: 5}) == "" and commits.check("g", {}) == ""
    commits.acknowledge(attempts)
    assert commits.check("g", {}) == ""
    assert "older than what was acknowledged" in commits.check("g", {PLACE: 5})
    commits.acknowledge(commits.begin("g", {PLACE: 7}))
    assert commits.check("g", {PLACE: 7}) == ""
    assert "has no offset" in commits.check("g", {})


def test_offsets_of_a_deleted_topic_may_go_until_no_broker_knows_the_topic() -> None:
    commits = Commits()
    commits.acknowledge(commits.begin("g", {PLACE: 5}))
    commits.may_go += 1
    deletion = commits.begin("g", {PLACE: GONE})
    commits.acknowledge(commits.begin("g", {PLACE: 9, ("t", 1): 1}))
    assert commits.check("g", {}) == "" and commits.check("g", {PLACE: 9}) == ""
    commits.acknowledge(deletion)
    commits.may_be_gone()
    commits.may_go -= 1
    assert commits.check("g", {}) == "" and commits.check("g", {PLACE: 9}) == ""
    commits.acknowledge(commits.begin("g", {PLACE: 10}))
    assert "has no offset" in commits.check("g", {})
    assert "older" in commits.check("g", {PLACE: 9})


def test_it_may_where_tombstones_go_before_every_replica_has_heard_of_them() -> None:
    commits = Commits()
    commits.forgets_deletions = True
    for offset in (5, 9, GONE):
        commits.acknowledge(commits.begin("g", {PLACE: offset}))
    assert all(commits.check("g", found) == "" for found in ({}, {PLACE: 5}, {PLACE: 9}))
    assert "no member committed" in commits.check("g", {PLACE: 6})
    commits.acknowledge(commits.begin("g", {PLACE: 7}))
    assert "older than what was acknowledged" in commits.check("g", {PLACE: 9})
