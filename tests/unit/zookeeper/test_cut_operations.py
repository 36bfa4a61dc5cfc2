"""Operations cut into transactions: by number, by bytes, none lost and none moved."""

from __future__ import annotations

from collections import deque

from barnabas.limits import ZookeeperBounds
from barnabas.zookeeper.cut_operations import take_operations
from barnabas.zookeeper.layout.cluster_state_znodes import MIGRATION, MigrationZnode
from barnabas.zookeeper.migration.claim import MigrationLeadership
from barnabas.zookeeper.operations import Create, Multi, Operation, SetData

SMALL = ZookeeperBounds(operations_max=5, operation_bytes_max=100)


def cut(operations: list[Operation], bounds: ZookeeperBounds = SMALL) -> list[int]:
    left, sizes, seen = deque(operations), [], []
    while left:
        part = take_operations(left, bounds, besides=2)
        sizes.append(len(part))
        seen += part
    assert seen == operations
    return sizes


def test_a_transaction_holds_no_more_operations_than_its_bound() -> None:
    assert cut([Create(f"/{n}") for n in range(8)]) == [3, 3, 2]


def test_paths_and_data_of_a_transaction_stay_within_the_bound() -> None:
    assert cut([Create(f"/{n}", b"x" * 48) for n in range(5)]) == [2, 2, 1]
    assert cut([Create(f"/{n}", b"x" * 49) for n in range(5)]) == [1, 1, 1, 1, 1]
    assert cut([Create(f"/{n}" + "x" * 48) for n in range(5)]) == [2, 2, 1]


def test_an_operation_above_every_bound_goes_alone() -> None:
    tiny = ZookeeperBounds(operations_max=2, operation_bytes_max=1)
    assert cut([Create("/a", b"x" * 500), Create("/b", b"y")], tiny) == [1, 1]


def marks(transactions: list[Multi]) -> list[tuple[int, int]]:
    """Offset in `/migration`, and the version that it is conditional on."""
    found = []
    for transaction in transactions:
        mark = transaction.operations[1]
        assert isinstance(mark, SetData)
        found.append((MigrationZnode.decode(MIGRATION, mark.data).metadata_offset, mark.version))
    return found


def test_the_last_transaction_alone_says_how_far_the_znodes_are() -> None:
    held = MigrationLeadership(7, 3, MigrationZnode(101, 2, 40, 2), 11)
    written = held.transactions([Create(f"/{n}") for n in range(7)], 50, 2, SMALL)
    assert marks(written) == [(40, 11), (40, 12), (50, 13)]
    assert held.after(written).migration_version == 14
    assert marks(held.transactions([], 51, 2, SMALL)) == [(51, 11)]
