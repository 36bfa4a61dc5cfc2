"""The phases of a followed partition, and the collections of a fetcher that name them."""

from __future__ import annotations

import pytest

from barnabas.replication.follower import FOLLOWER_MOVES, FollowerPhase, FollowerState


def test_a_partition_makes_only_moves_of_the_table() -> None:
    for source in FollowerPhase:
        for target in FollowerPhase:
            state = FollowerState(leader_epoch=1, fetch_offset=5, last_fetched_epoch=0)
            state.phase = source
            if target in FOLLOWER_MOVES[source]:
                state.enter(target)
                assert state.phase is target
            else:
                with pytest.raises(AssertionError, match=f"may not become {target.value}"):
                    state.enter(target)


def test_a_new_fetch_offset_keeps_the_phase() -> None:
    """A partition whose offset is being found does not fetch before the answer."""
    state = FollowerState(leader_epoch=1, fetch_offset=5, last_fetched_epoch=0)
    state.enter(FollowerPhase.FINDING_OFFSET)
    state.moved_to(3, 0)
    assert state.phase is FollowerPhase.FINDING_OFFSET
    assert state.fetch_offset == 3
