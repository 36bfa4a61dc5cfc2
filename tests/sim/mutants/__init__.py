"""Planted bugs: what the simulator must find, one at a time, if it is to be believed.

A mutant replaces one function of the product from outside, for as long as it is planted. The product has
no switch for any of them, and no checker knows of them: what finds a mutant is what would find a bug that
was made by mistake. ``python -m tests.sim.mutants`` (``make sim-mutants``) plays seeds until each is
found and prints the table of docs/mutants.md.
"""

from __future__ import annotations

from tests.sim.mutants import (
    administration,
    authorization,
    consumer_groups,
    controller,
    groups,
    migration,
    partitions,
    quorum,
    share_groups,
    storage,
    streams_groups,
    transactions,
    zookeeper,
)
from tests.sim.mutants.planting import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *quorum.MUTANTS,
    *partitions.MUTANTS,
    *storage.MUTANTS,
    *controller.MUTANTS,
    *groups.MUTANTS,
    *consumer_groups.MUTANTS,
    *share_groups.MUTANTS,
    *streams_groups.MUTANTS,
    *administration.MUTANTS,
    *transactions.MUTANTS,
    *authorization.MUTANTS,
    *zookeeper.MUTANTS,
    *migration.MUTANTS,
)
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
