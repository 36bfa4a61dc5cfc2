"""Every file that follows from batches is damaged in every way: the start rebuilds it and loses nothing.

Derived are, in a log's folder, both indexes, the index of aborted transactions, snapshots of producers and
leader epochs; and in a log directory all checkpoints of offsets, the list of segments at the close, and the
clean-shutdown file. Not derived: batches, ``partition.metadata`` and ``meta.properties`` (whose the files
are) and ``quorum-state`` (a vote): a start that cannot read one of these refuses, and names it.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from barnabas.log.file_names import LOG, PARTITION_METADATA
from barnabas.log.partition import aborted_ranges
from barnabas.log.partition.partition_log import AppendOrigin, PartitionLog
from barnabas.record.builder import build_batch, end_transaction_marker
from tests.unit.log.directories.test_directories import T0, TOPIC_ID, values
from tests.unit.log.directories_world import PATHS, DirectoriesWorld

NOW_MS = 1_750_000_000_000
SAID = ("-offset-checkpoint", "leader-epoch-checkpoint")
AHEAD = bytes.fromhex("7f01020381020304")
"""An offset far ahead and a negative position."""


def damage(data: bytes, rng: random.Random) -> dict[str, bytes]:
    size = len(data)
    return {
        "random": rng.randbytes(size),
        "random entry at the end": data[:-8] + AHEAD,
        "random entry in the middle": data[: size // 2] + rng.randbytes(8) + data[size // 2 + 8 :],
        "zeros": bytes(size),
        "empty": b"",
        "half": data[: size // 2],
        "one byte short": data[:-1],
        "one byte more": data + b"\x7f",
        "longer": data + rng.randbytes(64),
    }


def write(log: PartitionLog, batches: int, first: int) -> None:
    """Plain batches, a producer's, and transactions of which every other is aborted."""
    for at in range(first, first + batches):
        epoch, text = at // 10, b"%d" % at + b"x" * 150
        plain = build_batch([(None, text)], timestamp_ms=NOW_MS + at)
        log.append_as_leader(plain, leader_epoch=epoch, wall_ms=NOW_MS)
        batch = build_batch(
            [(None, text)], timestamp_ms=NOW_MS + at, producer_id=7, producer_epoch=0,
            base_sequence=at, transactional=True,
        )  # fmt: skip
        log.append_as_leader(batch, leader_epoch=epoch, wall_ms=NOW_MS)
        marker = end_transaction_marker(
            commit=at % 2 == 0, timestamp_ms=NOW_MS + at, producer_id=7, producer_epoch=0,
            coordinator_epoch=1,
        )  # fmt: skip
        log.append_as_leader(
            marker, leader_epoch=epoch, wall_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
        )
    log.high_watermark = log.log_end_offset


def state(log: PartitionLog) -> object:
    epochs = list(zip(log.epochs.epochs, log.epochs.starts, strict=True))
    entry = log.producers.entries[7]
    aborted = list[tuple[int, int]]()
    for segment in log.segments:
        aborted_ranges.collect(log, segment, log.log_start_offset, log.log_end_offset, aborted)
    return values(log), epochs, entry.last_sequence, aborted


def prepared(*, clean: bool) -> DirectoriesWorld:
    world = DirectoriesWorld()
    world.config = replace(world.config, index_interval_bytes=300)
    log = world.logs.create(T0, TOPIC_ID, world.logs.directories[0].directory_id)
    write(log, 16, 0)
    world.run_ms(70_000)  # checkpoints
    write(log, 4, 16)
    if clean:
        world.stop()
    else:
        world.kill()
    return world


def derived_files(world: DirectoriesWorld) -> list[str]:
    names = sorted(name for name in world.disk.names if name.startswith(f"{PATHS[0]}/"))
    files = [name for name in names if name in world.disk.names and not _is_dir(world, name)]
    kept = (LOG, PARTITION_METADATA, "meta.properties", ".lock")
    return [name for name in files if not name.endswith(kept)]


def _is_dir(world: DirectoriesWorld, path: str) -> bool:
    return any(name.startswith(path + "/") for name in world.disk.names)


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_a_damaged_derived_file_costs_no_record_and_ends_no_node(clean: bool) -> None:
    rng = random.Random(5)
    files = derived_files(prepared(clean=clean))
    assert len(files) > 20
    wrong = []
    for path in files:
        kinds = damage(b"\x00" * 64, rng)
        for kind in kinds:
            fault = outcome(path, kind, clean=clean, rng=rng)
            if fault:
                wrong.append(f"{path} {kind}: {fault}")
    assert not wrong, "\n".join(wrong)


def outcome(path: str, kind: str, *, clean: bool, rng: random.Random) -> str:
    """What is wrong after a start with `path` damaged; empty where nothing is."""
    world = prepared(clean=clean)
    whole = intact[clean]
    file = world.disk.file(path)
    file.data[:] = damage(bytes(file.data), rng)[kind]
    try:
        world.start()
    except Exception as error:  # noqa: BLE001 - it is reported
        return f"no start: {error!r}"
    told_first = [line for line in world.process.log_lines if "log.rebuilt" in line]
    if world.offline:
        return f"offline: {world.logs.directories[0].offline_reason}"
    log = world.logs.logs.get(T0)
    if log is None:
        return "its log is gone"
    try:
        found = state(log)
        write(log, 3, 20)
        log.read(log.log_end_offset - 2, 100)
        world.stop()
        world.start()
        if world.offline or len(values(world.logs.logs[T0])) != 69:
            return "a later start finds less"
    except Exception as error:  # noqa: BLE001 - it is reported
        return f"its log: {error!r}"
    if kind == "random" and path.endswith(SAID) and not told_first:
        return "nothing is said"
    return "" if found == whole else f"other state {found!r:.300} than {whole!r:.300}"


def _intact(clean: bool) -> object:
    world = prepared(clean=clean)
    world.start()
    return state(world.logs.logs[T0])


class _Intact(dict[bool, object]):
    def __missing__(self, clean: bool) -> object:
        self[clean] = _intact(clean)
        return self[clean]


intact = _Intact()
