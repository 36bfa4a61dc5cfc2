"""What only the simulated disk can do: die, forget, tear, fail and rot."""

from __future__ import annotations

import errno
import random

import pytest

from barnabas.sim.world.disk import ProcessDisk, SimDisk
from barnabas.sim.world.disk_pages import PAGE


def device(seed: int = 1) -> tuple[SimDisk, ProcessDisk]:
    disk = SimDisk(random.Random(seed))
    process = disk.open_for_process()
    process.make_dirs("/d")
    process.sync_dir("/")
    return disk, process


def test_a_killed_process_loses_nothing_that_it_wrote() -> None:
    disk, process = device()
    file = process.open("/d/f", create=True)
    file.append([b"x" * 10_000])
    disk.process_died()
    with pytest.raises(OSError):
        file.append([b"y"])
    assert disk.open_for_process().read_file("/d/f") == b"x" * 10_000


def test_synced_bytes_survive_every_power_loss_and_unsynced_ones_do_not_always() -> None:
    outcomes = set()
    for seed in range(60):
        disk, process = device(seed)
        file = process.open("/d/f", create=True)
        process.sync_dir("/d")
        file.append([b"a" * (PAGE + 100)])
        file.sync()
        file.append([b"b" * (3 * PAGE)])
        disk.process_died(power_loss=True)
        data = disk.open_for_process().read_file("/d/f")
        assert data[: PAGE + 100] == b"a" * (PAGE + 100)
        assert set(data[PAGE + 100 :]) <= {0, ord("b")}
        outcomes.add(data)
    assert len(outcomes) > 20
    whole = b"a" * (PAGE + 100) + b"b" * (3 * PAGE)
    torn = [data for data in outcomes if b"\0" in data]
    assert whole in outcomes and torn, "kept whole, and with holes"


def test_a_sector_may_stand_in_the_place_of_another_that_was_not_synced_either() -> None:
    wrote = {
        name: name[:1].encode() * 512 + name[:1].upper().encode() * 300
        for name in ("f.log", "g.log", "h")
    }
    strays = set()
    for seed in range(300):
        disk, process = device(seed)
        for name, content in wrote.items():
            file = process.open(f"/d/{name}", create=True)
            file.append([b"-" * 512])
            file.sync()
            file.append([content])
        process.sync_dir("/d")
        disk.process_died(power_loss=True)
        for name, content in wrote.items():
            found = disk.open_for_process().read_file(f"/d/{name}")
            assert found[:512] == b"-" * 512, "what was synced stays as it was"
            for place in (512, 1024):
                for byte in set(found[place : place + 512]) - {0, content[place - 512]}:
                    strays.add((name, place, chr(byte)))
    assert (
        ("f.log", 512, "h") in strays
        and ("f.log", 512, "G") in strays
        and ("f.log", 512, "F") in strays
    )
    assert ("f.log", 512, "g") not in strays, "a batch of another partition at its own offset"


def test_a_file_whose_directory_was_not_synced_may_be_gone() -> None:
    gone = 0
    for seed in range(40):
        disk, process = device(seed)
        file = process.open("/d/f", create=True)
        file.append([b"x"])
        file.sync()
        disk.process_died(power_loss=True)
        gone += not disk.open_for_process().exists("/d/f")
    assert 0 < gone < 40


def test_an_undone_rename_brings_the_replaced_file_back() -> None:
    seen = set()
    for seed in range(40):
        disk, process = device(seed)
        process.write_atomic("/d/f", b"old")
        process.write_atomic("/d/f", b"new", durable=False)
        disk.process_died(power_loss=True)
        seen.add(bytes(disk.open_for_process().read_file("/d/f")))
    assert b"old" in seen and b"new" in seen


def test_a_durable_replacement_survives() -> None:
    for seed in range(20):
        disk, process = device(seed)
        process.write_atomic("/d/f", b"new")
        disk.process_died(power_loss=True)
        assert disk.open_for_process().read_file("/d/f") == b"new"


def test_the_nth_call_fails_once_or_for_good() -> None:
    disk, process = device()
    file = process.open("/d/f", create=True)
    disk.fail_call(2)
    file.append([b"1"])
    with pytest.raises(OSError):
        file.append([b"2"])
    assert disk.fault_was_hit
    file.truncate(1)
    file.append([b"3"])
    disk.fail_call(1, for_good=True, error=errno.EROFS)
    for _ in range(3):
        with pytest.raises(OSError) as caught:
            file.sync()
        assert caught.value.errno == errno.EROFS
    disk.fail_call(0)
    file.sync()


def test_a_fault_below_one_directory_leaves_the_others_alone() -> None:
    disk, process = device()
    process.make_dirs("/e")
    disk.fail_call(1, for_good=True, prefix="/e")
    process.write_atomic("/d/f", b"x")
    with pytest.raises(OSError):
        process.write_atomic("/e/f", b"x")


def test_a_full_disk_takes_a_part() -> None:
    disk = SimDisk(random.Random(1), capacity_bytes=1000)
    process = disk.open_for_process()
    file = process.open("/f", create=True)
    file.append([b"x" * 900])
    with pytest.raises(OSError) as caught:
        file.append([b"y" * 200])
    assert caught.value.errno == errno.ENOSPC
    assert file.size() == 1000
    file.truncate(900)
    file.append([b"y" * 100])
    assert process.free_bytes("/") == (1000, 0)


def test_cold_reads_and_rot() -> None:
    disk, process = device()
    file = process.open("/d/f", create=True)
    file.append([b"abc"])
    disk.cold_read_rate = 1.0
    assert file.try_read_at(0, 3) is None
    assert file.read_at(0, 3) == b"abc"
    disk.rot("/d/f", 1, 0)
    assert file.read_at(0, 3) == b"acc"


def test_one_seed_gives_one_outcome() -> None:
    def play() -> tuple[bytes, dict[str, int]]:
        disk, process = device(7)
        process.write_atomic("/d/g", b"x" * 9000, durable=False)
        file = process.open("/d/g")
        file.append([b"y" * 50_000])
        disk.process_died(power_loss=True)
        process = disk.open_for_process()
        data = process.read_file("/d/g") if process.exists("/d/g") else b""
        return data, dict(disk.totals)

    assert play() == play()


def test_a_file_is_in_memory_after_a_power_loss_once_a_read_has_waited_for_it() -> None:
    disk, process = device()
    file = process.open("/d/f", create=True)
    file.append([b"abc"])
    file.sync()
    process.sync_dir("/d")
    assert file.try_read_at(0, 3) == b"abc"
    disk.process_died()
    assert disk.open_for_process().open("/d/f").try_read_at(0, 3) == b"abc"
    disk.process_died(power_loss=True)
    file = disk.open_for_process().open("/d/f")
    assert file.try_read_at(0, 3) is None
    assert file.read_at(0, 3) == file.try_read_at(0, 3) == b"abc"
