"""The real file under two threads: closing never gives a descriptor away that a thread still uses. And what
the real disk says where it cannot answer."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from barnabas.host.disk import HostDisk


def test_a_sync_under_way_keeps_the_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = HostDisk()
    file = disk.open(str(tmp_path / "f"), create=True)
    file.append([b"x"])
    entered, release, closed = threading.Event(), threading.Event(), list[int]()
    real_close = os.close

    def slow_sync(fd: int) -> None:
        entered.set()
        assert release.wait(5)
        assert not closed, "closed under the sync's hands"

    def watched_close(fd: int) -> None:
        closed.append(fd)
        real_close(fd)

    monkeypatch.setattr(os, "fdatasync", slow_sync)
    monkeypatch.setattr(os, "close", watched_close)
    thread = threading.Thread(target=file.sync)
    thread.start()
    assert entered.wait(5)
    file.close()
    release.set()
    thread.join(5)
    assert len(closed) == 1
    with pytest.raises(ValueError):
        file.sync()


def test_a_short_write_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = HostDisk().open(str(tmp_path / "f"), create=True)
    real = os.pwritev

    def short(fd: int, parts: list[bytes], position: int) -> int:
        return real(fd, [b"".join(parts)[:3]], position)

    monkeypatch.setattr(os, "pwritev", short)
    file.append([b"01", b"", b"23456", b"789"])
    assert file.read_at(0, 100) == b"0123456789"


def test_a_name_that_cannot_be_looked_up_is_not_called_missing(tmp_path: Path) -> None:
    disk = HostDisk()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert not disk.exists(str(tmp_path / "none" / "f"))
    assert not disk.exists(str(tmp_path / "file" / "f"))
    with pytest.raises(OSError, match="symbolic links"):
        disk.exists(str(tmp_path / "loop" / "meta.properties"))
    assert disk.is_dir(str(tmp_path)) and not disk.is_dir(str(tmp_path / "file"))
    assert not disk.is_dir(str(tmp_path / "none")) and not disk.is_dir(str(tmp_path / "file" / "f"))
    with pytest.raises(OSError, match="symbolic links"):
        disk.is_dir(str(tmp_path / "loop" / "t-0"))


def test_a_file_that_cannot_be_renamed_leaves_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "f" / "g").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        HostDisk().write_atomic(str(tmp_path / "f"), b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_file_of_unknown_size_costs_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patched, pytest.raises(OSError, match="Stale"):
        patched.setattr(os, "fstat", refuse)
        HostDisk().open(str(tmp_path / "f"), create=True)
    assert os.listdir("/proc/self/fd") == before


def test_a_lock_that_the_file_system_does_not_know_costs_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="No locks"):
        HostDisk().try_lock(str(tmp_path / ".lock"))
    assert os.listdir("/proc/self/fd") == before
