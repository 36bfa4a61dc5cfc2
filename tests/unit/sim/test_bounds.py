"""Bounds that a seed makes small are fields of the bounds that nodes get."""

from __future__ import annotations

from dataclasses import fields

import pytest

from barnabas.limits import NodeBounds
from barnabas.sim.bounds import SLICES, SMALL, with_bound

USUAL = NodeBounds()
NEVER_SMALL = {
    "fetch.read_per_slice",
    "logs.open_files_max",
    "zookeeper.operation_bytes_max",
    "zookeeper.operations_max",
    "zookeeper.ordered_max",
}
"""Small ones would change the traces of seeds, or are of ZooKeeper mode, whose seeds draw their own."""


@pytest.mark.parametrize("what", sorted(SMALL))
def test_small_bounds_are_smaller_than_usual(what: str) -> None:
    values, names = SMALL[what]
    for name in names:
        group, _, field = name.partition(".")
        small = getattr(getattr(with_bound(USUAL, name, values[0]), group), field)
        assert small == max(values[0], field in SLICES) < getattr(getattr(USUAL, group), field)


def test_every_bound_of_a_node_is_small_in_some_seeds() -> None:
    drawn = {name for _, names in SMALL.values() for name in names}
    assert drawn | NEVER_SMALL == {
        f"{group.name}.{field.name}"
        for group in fields(USUAL)
        for field in fields(getattr(USUAL, group.name))
    }
