"""Seeds of the simulator: 8, 3 secured ones, 2 with transactions that begin at once, 2 with share groups, 2
with streams groups, 4 in ZooKeeper mode, a migration, every regression, and one under two hash seeds."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.sim.run import Plan, play_seed
from barnabas.sim.world.world import World

SEEDS = 8
SECURED = 3
EAGER = 2
SHARES = 2
STREAMS = 2
ZOOKEEPER = 4
LINES = Path(__file__).with_name("regressions.txt").read_text().splitlines()
REGRESSIONS = sorted({int(line.split()[0]) for line in LINES if line[:1].isdigit()})
"""Those up to `SEEDS` are played with all the others."""
OF_ZOOKEEPER = Path(__file__).with_name("regressions_zookeeper.txt").read_text()
PRESENT_DRAWS = OF_ZOOKEEPER.partition("# ---")[2].splitlines()[1:]
OF_MIGRATIONS = Path(__file__).with_name("regressions_migration.txt").read_text()
PRESENT_MIGRATIONS = OF_MIGRATIONS.partition("# ---")[2].splitlines()[1:]
SECURED_REGRESSIONS = sorted({line.split()[1] for line in LINES if line.startswith("secured ")})
SHARES_REGRESSIONS = sorted({line.split()[1] for line in LINES if line.startswith("shares ")})
pytestmark = [pytest.mark.sim, pytest.mark.slow]


def simulate(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas.sim", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.timeout(1500)
def test_seeds_pass_and_everything_happens_in_them() -> None:
    print(simulate("--seeds", str(SEEDS)))


@pytest.mark.timeout(300)
def test_seeds_pass_with_authentication_and_changing_acls() -> None:
    printed = simulate("--secured", "--from", "110001", "--seeds", str(SECURED))
    for happened in ("guests denied", "guests let pass", "changes of access"):
        assert re.search(rf"{happened} +[1-9]", printed)


@pytest.mark.timeout(300)
def test_seeds_pass_where_transactions_begin_at_once() -> None:
    printed = simulate("--eager", "--from", "140001", "--seeds", str(EAGER))
    for happened in (
        "transactions aborted at once", "producers near their last epoch", "markers delivered once more",
        "transactions left at once", "connections stalled",
    ):  # fmt: skip
        assert re.search(rf"{happened} +[1-9]", printed)


@pytest.mark.timeout(300)
def test_seeds_pass_with_share_groups() -> None:
    printed = simulate("--shares", "--from", "2", "--seeds", str(SHARES))
    for happened in (
        "share deliveries", "share accept", "share release", "share members left",
        "share members vanished", "share acknowledgements refused",
    ):  # fmt: skip
        assert re.search(rf"{happened} +[1-9]", printed)


@pytest.mark.timeout(300)
def test_seeds_pass_with_streams_groups() -> None:
    printed = simulate("--streams", "--from", "6", "--seeds", str(STREAMS))
    for happened in (
        "streams assignments", "streams standby tasks", "streams tasks given up",
        "streams members left", "streams members vanished",
    ):  # fmt: skip
        assert re.search(rf"{happened} +[1-9]", printed)


@pytest.mark.timeout(300)
def test_seeds_pass_where_zookeeper_coordinates() -> None:
    printed = simulate("--zookeeper", "--from", "120001", "--seeds", str(ZOOKEEPER))
    for happened in ("leader changes", "ensemble servers killed", "netsplits"):
        assert re.search(rf"{happened} +[1-9]", printed)


@pytest.mark.timeout(300)
def test_a_cluster_goes_back_to_zookeeper_and_migrates_again() -> None:
    printed = simulate("--migration", "--seed", "130042")
    for happened in ("dual writes reached", "ways back", "migrations ended", "kills"):
        assert re.search(rf"{happened} [1-9]", printed)


@pytest.mark.timeout(300)
def test_a_cluster_is_stopped_for_its_way_to_kraft_and_back() -> None:
    printed = simulate("--migration", "--seed", "130041")
    for happened in ("stopped copies", "stopped ways back", "kills"):
        assert re.search(rf"{happened} [1-9]", printed)


@pytest.mark.parametrize("seed", [seed for seed in REGRESSIONS if seed > SEEDS])
def test_a_seed_that_once_failed_passes(seed: int) -> None:
    result = play_seed(seed)
    assert result.passed, "\n".join([*result.trace[-40:], result.failure])


@pytest.mark.parametrize("seed", [int(line.split()[0]) for line in PRESENT_DRAWS])
def test_a_seed_that_once_failed_under_zookeeper_passes(seed: int) -> None:
    result = play_seed(seed, Plan(zookeeper=True))
    assert result.passed, "\n".join([*result.trace[-40:], result.failure])


@pytest.mark.parametrize("seed", [int(line.split()[0]) for line in PRESENT_MIGRATIONS])
def test_a_seed_that_once_failed_in_a_migration_passes(seed: int) -> None:
    result = play_seed(seed, Plan(migration=True))
    assert result.passed, "\n".join([*result.trace[-40:], result.failure])


@pytest.mark.parametrize("seed", SECURED_REGRESSIONS)
def test_a_secured_seed_that_once_failed_passes(seed: str) -> None:
    simulate("--secured", "--seed", seed)


@pytest.mark.parametrize("seed", SHARES_REGRESSIONS)
def test_a_seed_with_share_groups_that_once_failed_passes(seed: str) -> None:
    simulate("--shares", "--seed", seed)


def test_one_seed_gives_one_trace_whatever_the_hash_seed() -> None:
    outputs = [simulate("--seed", "35", PYTHONHASHSEED=value) for value in ("1", "2")]
    hashes = [re.findall(r"trace ([0-9a-f]{32})", output) for output in outputs]
    assert hashes[0] == hashes[1] != []


def worlds() -> list[World]:
    return [thing for thing in gc.get_objects() if type(thing) is World]


def test_nothing_of_a_seed_stays_in_memory_when_the_next_one_is_played() -> None:
    others = worlds()  # of other tests
    for seed in (1, 2, 3, 4):
        play_seed(seed)
        assert [world.seed for world in worlds() if world not in others] == []
