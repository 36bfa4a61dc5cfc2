"""Feature levels that a cluster has without serving them."""

from __future__ import annotations

import pytest

from barnabas.metadata.bootstrap_records import bootstrap_records
from barnabas.metadata.features import NOT_SERVED, accepted, supported
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord


def test_a_new_cluster_finalizes_only_what_is_served() -> None:
    names = {r.name for r in bootstrap_records() if isinstance(r, FeatureLevelRecord)}
    assert "group.version" in names
    assert not names & set(NOT_SERVED)


@pytest.mark.parametrize("name", NOT_SERVED)
def test_a_level_that_is_not_served_cannot_be_formatted(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} stays at 0: .* are not served"):
        bootstrap_records(overrides={name: 1})
    assert bootstrap_records(overrides={name: 0}) == bootstrap_records()


@pytest.mark.parametrize("name", NOT_SERVED)
def test_a_node_accepts_a_level_and_offers_it_only_where_the_cluster_has_it(name: str) -> None:
    assert accepted()[name] == (0, 1)
    assert supported()[name] == (0, 0)
    assert supported({name: 1})[name] == (0, 1)
    assert supported({name: 9})[name] == (0, 1)
