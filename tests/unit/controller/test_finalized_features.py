"""Levels of features are reported when they are committed, and not before."""

from __future__ import annotations

from barnabas.controller.active.finalized_features import FinalizedFeatures
from barnabas.metadata.features import LATEST_METADATA_VERSION
from barnabas.metadata.image.image import MetadataImage
from tests.unit.controller.harness import World


def image(offset: int, **levels: int) -> MetadataImage:
    made = MetadataImage(track_changes=False)
    made.features.update(levels)
    made.offset = offset
    return made


def test_a_level_is_reported_once_it_is_committed() -> None:
    finalized = FinalizedFeatures()
    finalized.on_commit(image(3, group=1), 3)
    assert (finalized.levels, finalized.offset) == ({"group": 1}, 3)
    finalized.on_commit(image(7, group=2), 5)
    assert (finalized.levels, finalized.offset) == ({"group": 1}, 5)
    finalized.on_commit(image(9, group=3), 7)
    assert (finalized.levels, finalized.offset) == ({"group": 2}, 7)
    finalized.on_commit(image(9, group=3), 9)
    assert finalized.levels == {"group": 3}


def test_a_level_that_was_undone_is_never_reported() -> None:
    finalized = FinalizedFeatures()
    finalized.on_commit(image(3, group=1), 3)
    finalized.on_commit(image(7, group=2), 5)
    finalized.on_resignation()
    finalized.on_commit(image(8, group=1), 8)
    assert finalized.levels == {"group": 1}


def test_a_snapshot_is_committed() -> None:
    finalized = FinalizedFeatures()
    finalized.on_commit(image(7, group=2), 5)
    finalized.on_snapshot(image(20, group=4))
    assert (finalized.levels, finalized.offset) == ({"group": 4}, 20)


def test_the_first_records_of_a_cluster_are_logged_by_its_controller() -> None:
    world = World()
    finalized = world.controller.finalized
    assert finalized.levels == world.image.features
    assert finalized.levels["metadata.version"] == LATEST_METADATA_VERSION
    assert finalized.offset == world.controller.committed_offset
