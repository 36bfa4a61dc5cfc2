"""Feature levels that a cluster has without serving them."""

from __future__ import annotations

import pytest

from barnabas.broker import handlers
from barnabas.metadata.bootstrap_records import bootstrap_records
from barnabas.metadata.features import (
    APIS_OF_LEVEL,
    FEATURES,
    KINDS_OF_GROUPS,
    SERVED,
    accepted,
    supported,
)
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord

WHOLE = {name: len(levels) - 1 for name, levels in FEATURES.items()}


@pytest.fixture
def name(monkeypatch: pytest.MonkeyPatch) -> str:
    """A feature of which brokers serve only the first level."""
    monkeypatch.setitem(SERVED, "share.version", 1)
    return "share.version"


def test_a_level_is_served_where_brokers_serve_its_apis() -> None:
    served = {module.API.key for module in handlers.MODULES + handlers.SHARES + handlers.STREAMS}
    for (name, level), apis in APIS_OF_LEVEL.items():
        assert (SERVED.get(name, WHOLE[name]) >= level) == (apis <= served), name
    assert set(SERVED) <= set(KINDS_OF_GROUPS)


def test_a_new_cluster_finalizes_only_what_is_served(name: str) -> None:
    found = {
        r.name: r.feature_level for r in bootstrap_records() if isinstance(r, FeatureLevelRecord)
    }
    assert "group.version" in found
    assert found[name] == SERVED[name]
    assert found["streams.version"] == 1


def test_a_level_that_is_not_served_cannot_be_formatted(name: str) -> None:
    most = SERVED[name]
    with pytest.raises(ValueError, match=f"{name} stays at {most}: .* are not served"):
        bootstrap_records(overrides={name: most + 1})
    assert bootstrap_records(overrides={name: most}) == bootstrap_records()


def test_a_node_accepts_a_level_and_offers_it_only_where_the_cluster_has_it(name: str) -> None:
    most = SERVED[name]
    assert accepted()[name] == (0, WHOLE[name])
    assert supported()[name] == (0, most)
    assert supported({name: most + 1})[name] == (0, most + 1)
    assert supported({name: 9})[name] == (0, WHOLE[name])
