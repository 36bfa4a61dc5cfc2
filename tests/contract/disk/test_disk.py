"""What every ``ports.Disk`` promises: the real one, the simulated one and the one for trying are held to the
same."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.host.disk import HostDisk
from barnabas.ports import Disk
from barnabas.raft.storage.overlay_disk import OverlayDisk
from barnabas.sim.world.disk import ProcessDisk, SimDisk

World = tuple[Disk, str]


def real(tmp_path: Path) -> World:
    return HostDisk(), str(tmp_path)


def simulated(tmp_path: Path) -> World:
    disk = SimDisk(random.Random(1)).open_for_process()
    disk.make_dirs(str(tmp_path))
    return disk, str(tmp_path)


def trial(tmp_path: Path) -> World:
    return OverlayDisk(HostDisk()), str(tmp_path)


@pytest.fixture(params=[real, simulated, trial], ids=["real", "simulated", "trial"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    make: Callable[[Path], World] = request.param
    return make(tmp_path)


def test_appends_are_gathered_and_positions_follow(world: World) -> None:
    disk, root = world
    file = disk.open(f"{root}/f", create=True)
    assert file.append([b"ab", bytearray(b"cd"), memoryview(b"ef")]) == 0
    assert file.append([b"g"]) == 6
    assert file.append([]) == 7
    assert (file.size(), file.path) == (7, f"{root}/f")
    assert disk.read_file(f"{root}/f") == b"abcdefg"


def test_an_append_may_have_more_parts_than_one_system_call_takes(world: World) -> None:
    disk, root = world
    file = disk.open(f"{root}/f", create=True)
    parts = [bytes([at % 251]) * (at % 7) for at in range(3000)]
    file.append(parts)
    assert file.read_at(0, 1 << 20) == b"".join(parts)


def test_reads_end_at_the_end(world: World) -> None:
    disk, root = world
    file = disk.open(f"{root}/f", create=True)
    file.append([b"0123456789"])
    assert file.read_at(3, 4) == b"3456"
    assert file.read_at(8, 100) == b"89"
    assert file.read_at(10, 1) == b""
    assert file.read_at(50, 1) == b""
    assert bytes(file.try_read_at(8, 100) or b"") == b"89"
    assert file.try_read_at(10, 5) == b""
    assert file.try_read_at(50, 5) == b""


def test_truncating_cuts_and_lengthens_with_zeros(world: World) -> None:
    disk, root = world
    file = disk.open(f"{root}/f", create=True)
    file.append([b"0123456789"])
    file.truncate(4)
    assert (file.size(), file.append([b"x"])) == (4, 4)
    file.truncate(8)
    assert file.read_at(0, 100) == b"0123x\0\0\0"
    assert disk.size(f"{root}/f") == 8


def test_writing_within_and_behind_a_file(world: World) -> None:
    disk, root = world
    file = disk.open(f"{root}/f", create=True)
    file.append([b"0123"])
    file.write_at(1, b"xy")
    file.write_at(6, b"z")
    assert file.read_at(0, 100) == b"0xy3\0\0z"
    assert file.append([b"!"]) == 7


def test_two_views_of_one_file_agree(world: World) -> None:
    disk, root = world
    disk.open(f"{root}/f", create=True).append([b"abc"])
    again = disk.open(f"{root}/f")
    assert (again.size(), again.read_at(0, 9)) == (3, b"abc")


def test_a_closed_file_is_refused(world: World) -> None:
    disk, root = world
    file = disk.open(f"{root}/f", create=True)
    file.close()
    file.close()
    for call in (
        lambda: file.append([b"x"]),
        lambda: file.write_at(0, b"x"),
        lambda: file.read_at(0, 1),
        lambda: file.truncate(0),
        file.sync,
    ):
        with pytest.raises(ValueError):
            call()


def test_opening_makes_a_file_only_where_asked(world: World) -> None:
    disk, root = world
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/missing")
    with pytest.raises(FileNotFoundError):
        disk.read_file(f"{root}/missing")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/no/such/dir", create=True)
    assert not disk.exists(f"{root}/missing")


def test_replacing_a_file_as_a_whole(world: World) -> None:
    disk, root = world
    disk.write_atomic(f"{root}/f", b"one")
    disk.write_atomic(f"{root}/f", b"two", durable=False)
    assert disk.read_file(f"{root}/f") == b"two"
    assert disk.list_dir(root) == ["f"]


def test_names_are_listed_sorted(world: World) -> None:
    disk, root = world
    disk.make_dirs(f"{root}/b/c")
    disk.make_dirs(f"{root}/b")
    disk.write_atomic(f"{root}/a", b"")
    disk.write_atomic(f"{root}/b/x", b"12")
    assert (disk.list_dir(root), disk.list_dir(f"{root}/b")) == (["a", "b"], ["c", "x"])
    assert disk.is_dir(f"{root}/b") and not disk.is_dir(f"{root}/a")
    assert not disk.is_dir(f"{root}/none") and not disk.exists(f"{root}/none")
    assert disk.size(f"{root}/b/x") == 2
    with pytest.raises(FileNotFoundError):
        disk.list_dir(f"{root}/none")


def test_renaming_files_and_directories(world: World) -> None:
    disk, root = world
    disk.make_dirs(f"{root}/t-0")
    file = disk.open(f"{root}/t-0/x", create=True)
    file.append([b"1"])
    disk.rename(f"{root}/t-0", f"{root}/t-0.deleted")
    assert disk.read_file(f"{root}/t-0.deleted/x") == b"1"
    assert not disk.exists(f"{root}/t-0")
    assert file.append([b"2"]) == 1, "an open file goes along"
    disk.write_atomic(f"{root}/y", b"new")
    disk.rename(f"{root}/y", f"{root}/t-0.deleted/x")
    assert disk.read_file(f"{root}/t-0.deleted/x") == b"new"
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/nothing", f"{root}/z")


def test_removing(world: World) -> None:
    disk, root = world
    disk.make_dirs(f"{root}/d/e")
    disk.write_atomic(f"{root}/d/e/f", b"")
    disk.write_atomic(f"{root}/g", b"")
    file = disk.open(f"{root}/g")
    disk.remove(f"{root}/g")
    assert file.append([b"still there for a process that has it open"]) == 0
    disk.remove_tree(f"{root}/d")
    assert disk.list_dir(root) == []
    with pytest.raises(FileNotFoundError):
        disk.remove(f"{root}/g")


@pytest.mark.parametrize("make", [real, trial], ids=["real", "trial"])
def test_a_link_is_removed_and_not_followed(make: Callable[[Path], World], tmp_path: Path) -> None:
    """(The simulated disk has no links.)"""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "f").write_bytes(b"kept")
    disk, root = make(tmp_path)
    for link in (f"{root}/link", f"{root}/tree/link"):
        disk.make_dirs(os.path.dirname(link))
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(f"{root}/elsewhere", link)
    disk.remove_tree(f"{root}/link")
    disk.remove_tree(f"{root}/tree")
    assert disk.list_dir(root) == ["elsewhere"]
    assert (tmp_path / "elsewhere" / "f").read_bytes() == b"kept"


def test_a_read_at_a_negative_position_raises_oserror(world: World) -> None:
    """An index of random bytes names such positions."""
    disk, root = world
    file = disk.open(f"{root}/f", create=True)
    file.append([b"0123"])
    with pytest.raises(OSError, match="Invalid argument"):
        file.read_at(-1, 2)


def test_a_lock_is_taken_once(world: World) -> None:
    disk, root = world
    assert disk.try_lock(f"{root}/.lock")
    assert disk.try_lock(f"{root}/.lock"), "its holder keeps it"
    other: Disk = disk.device.open_for_process() if isinstance(disk, ProcessDisk) else HostDisk()
    assert not other.try_lock(f"{root}/.lock")


def test_durability_calls_and_free_space(world: World) -> None:
    disk, root = world
    file = disk.open(f"{root}/f", create=True)
    file.append([b"x"])
    file.sync()
    disk.sync_dir(root)
    total, usable = disk.free_bytes(root)
    assert total >= usable > 0


def test_removing_a_missing_file_raises_oserror(world: World) -> None:
    disk, root = world
    for call in (
        lambda: disk.size(f"{root}/none"),
        lambda: disk.remove_tree(f"{root}/none"),
        lambda: disk.sync_dir(f"{root}/none"),
    ):
        with pytest.raises(OSError):
            call()


def test_an_operation_that_is_tried_is_not_done(tmp_path: Path) -> None:
    disk, root = HostDisk(), str(tmp_path)
    disk.make_dirs(f"{root}/d/e")
    for name in ("d/e/f", "cut", "patched", "replaced", "moved"):
        disk.write_atomic(f"{root}/{name}", b"0123456789")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    trial = OverlayDisk(disk)
    cut, patched = trial.open(f"{root}/cut"), trial.open(f"{root}/patched")
    cut.truncate(6)
    cut.append([b"ab", b"c"])
    cut.truncate(8)
    patched.write_at(8, b"xyz")
    patched.write_at(2, b"--")
    trial.write_atomic(f"{root}/replaced", b"new")
    trial.rename(f"{root}/moved", f"{root}/d/moved")
    trial.rename(f"{root}/d", f"{root}/other")
    trial.remove(f"{root}/other/e/f")
    trial.make_dirs(f"{root}/g/h")
    assert trial.read_file(f"{root}/cut") == b"012345ab" == cut.read_at(0, 99)
    assert cut.read_at(4, 3) == b"45a" == trial.open(f"{root}/cut").read_at(4, 3)
    assert trial.read_file(f"{root}/patched") == b"01--4567xyz"
    assert trial.read_file(f"{root}/replaced") == b"new"
    assert trial.read_file(f"{root}/other/moved") == b"0123456789"
    assert trial.list_dir(root) == ["cut", "g", "other", "patched", "replaced"]
    assert trial.list_dir(f"{root}/other") == ["e", "moved"]
    assert trial.list_dir(f"{root}/other/e") == []
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert disk.list_dir(root) == ["cut", "d", "moved", "patched", "replaced"]
