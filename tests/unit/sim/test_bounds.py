"""Bounds that a seed makes small exist, and are as before when it is over."""

from __future__ import annotations

from importlib import import_module

import pytest

from barnabas.sim.bounds import SMALL, bounded


@pytest.mark.parametrize("what", sorted(SMALL))
def test_small_bounds_are_smaller_for_a_while(what: str) -> None:
    values, names = SMALL[what]
    for name in names:
        path, _, attribute = name.rpartition(".")
        module = import_module(f"barnabas.{path}")
        before = getattr(module, attribute)
        with bounded({name: values[0]}):
            assert getattr(module, attribute) == values[0] < before
        assert getattr(module, attribute) == before
