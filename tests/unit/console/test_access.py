"""Entries and quotas as addresses name them."""

from __future__ import annotations

import pytest

from barnabas.console.cluster_views.access import (
    AclRow,
    entity_in,
    entity_options,
    entry_named,
    operations_of,
    query_of_entity,
    row_of,
)

ROW = AclRow("topic", "flights", "prefixed", "User:a", "*", "describe-configs", "deny")


def test_an_entry_of_an_address_is_the_one_that_a_page_shows() -> None:
    assert row_of(entry_named(ROW)) == ROW


def test_an_entry_is_named_by_the_options_of_the_command() -> None:
    assert ROW.command == [
        "--topic", "flights", "--resource-pattern-type", "prefixed", "--deny-principal", "User:a",
        "--deny-host", "*", "--operation", "describe-configs",
    ]  # fmt: skip
    assert AclRow("user", "x", "literal", "User:a", "*", "all", "allow").command == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource": "any"},
        {"resource": "table"},
        {"name": ""},
        {"principal": "a"},
        {"operation": "idempotent-write"},
        {"operation": "any"},
        {"pattern": "glob"},
        {"permission": "unknown"},
    ],
)
def test_an_entry_that_is_none_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        entry_named(ROW._replace(**wrong))


def test_an_entry_on_the_cluster_has_its_name_and_pattern() -> None:
    entry = entry_named(AclRow("cluster", "", "", "User:a", "", "alter", "allow"))
    assert row_of(entry) == AclRow(
        "cluster", "kafka-cluster", "literal", "User:a", "*", "alter", "allow"
    )
    assert "all" in operations_of("cluster")
    assert operations_of("table") == []


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ({"user": "a"}, ["--user", "a"]),
        ({"user-default": "1", "client-id": "c"}, ["--client-id", "c", "--user-default"]),
        ({"client-id-default": "1"}, ["--client-default"]),
        ({"ip-default": "1"}, ["--ip-default"]),
    ],
)
def test_an_entity_of_an_address_is_named_by_the_options(
    query: dict[str, str], options: list[str]
) -> None:
    assert entity_options(entity_in(query)) == options
    assert query_of_entity(entity_in(query)) == query


@pytest.mark.parametrize(
    "query", [{}, {"user": ""}, {"user-default": "0"}, {"ip": "1", "user": "a"}]
)
def test_an_entity_that_is_none_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        entity_in(query)
