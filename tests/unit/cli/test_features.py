"""Which levels `barnabas features` asks for, of what a person wrote."""

from __future__ import annotations

import pytest

from barnabas.cli.commands.features import changes
from barnabas.cli.failure import Failure
from barnabas.cli.feature_options import first_levels, level_of, levels_of_release
from barnabas.client.feature_levels import Feature
from barnabas.metadata.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    SERVED,
)

KNOWN = {
    METADATA_VERSION: Feature(METADATA_VERSION, 7, 30, 26),
    "group.version": Feature("group.version", 0, 1, 1),
    "share.version": Feature("share.version", 0, 1, 0),
}


def test_a_release_names_every_feature_but_the_quorums() -> None:
    found = levels_of_release("4.2")
    assert METADATA_VERSION_NAMES[found[METADATA_VERSION]] == "4.2-IV1"
    assert found["streams.version"] == 1
    assert KRAFT_VERSION not in found
    assert levels_of_release("3.9")["group.version"] == 0


def test_a_new_cluster_begins_at_a_release_but_for_what_is_named() -> None:
    assert first_levels(None, []) == {}
    assert first_levels(None, ["share.version=0"]) == {"share.version": 0}
    found = first_levels("4.3", ["share.version=0"])
    assert found == {**levels_of_release("4.3"), "share.version": 0}


@pytest.mark.parametrize("text", ["9.9", "", "4"])
def test_a_release_that_is_none_is_said_to_be_none(text: str) -> None:
    with pytest.raises(Failure, match=r"is no metadata\.version; known are 3\.3-IV3 to"):
        levels_of_release(text)


def test_levels_are_numbers_and_a_metadata_version_has_a_name() -> None:
    assert level_of("group.version=0") == ("group.version", 0)
    assert level_of("metadata.version=4.0-IV3") == (METADATA_VERSION, 25)
    assert level_of("metadata.version=29") == (METADATA_VERSION, 29)


@pytest.mark.parametrize("text", ["group.version", "=1", "group.version=one", "group.version=-1"])
def test_a_malformed_level_is_refused(text: str) -> None:
    with pytest.raises(Failure, match=r"as group\.version=1"):
        level_of(text)


def test_a_release_moves_only_what_goes_its_way() -> None:
    given = {METADATA_VERSION: 30, "group.version": 0, "transaction.version": 2}
    assert changes(KNOWN, given, up=True, all_of_them=False) == {
        METADATA_VERSION: 30,
        "transaction.version": 2,
    }
    assert changes(KNOWN, given, up=False, all_of_them=False) == {"group.version": 0}


def test_a_release_takes_what_is_not_served_down_but_never_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SERVED, "share.version", 1)
    off = {**KNOWN, "share.version": Feature("share.version", 0, 1, 1)}
    on = {**KNOWN, "share.version": Feature("share.version", 0, 2, 2)}
    assert changes(off, {"share.version": 2}, up=True, all_of_them=False) == {}
    assert changes(on, {"share.version": 0}, up=False, all_of_them=False) == {"share.version": 0}
    assert changes(off, {"share.version": 2}, up=True, all_of_them=True) == {"share.version": 2}


def test_a_named_feature_is_asked_for_also_where_it_will_be_refused() -> None:
    given = {"group.version": 0, "share.version": 0, "unknown.version": 3}
    assert changes(KNOWN, given, up=True, all_of_them=True) == {
        "group.version": 0,
        "unknown.version": 3,
    }
