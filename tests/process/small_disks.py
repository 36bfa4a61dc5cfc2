"""Real file systems that are too small or fail: for one log directory of one node.

Needs the right to mount (root); elsewhere the tests skip with a word.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 1 << 20


@contextmanager
def memory_disk(path: Path, size_mib: int) -> Iterator[Path]:
    """A file system of `size_mib` MiB in memory."""
    path.mkdir(parents=True)
    _mount_or_skip("mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "barnabas", str(path))
    try:
        yield path
    finally:
        _unmount(path)


def grow(path: Path, size_mib: int) -> None:
    """Give a `memory_disk` more room."""
    _run("mount", "-o", f"remount,size={size_mib}m", str(path))


@contextmanager
def failing_disk(path: Path, claimed_mib: int, real_mib: int) -> Iterator[Path]:
    """ext4 that believes to have `claimed_mib` MiB on a device that fails every write past about
    `real_mib` MiB: the page cache takes what the disk refuses, and fsync answers EIO."""
    with memory_disk(path.with_name(f"{path.name}-device"), real_mib) as device:
        image = device / "image"
        with image.open("wb") as file:
            file.truncate(claimed_mib * MIB)
        made = _run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", str(image))
        if made.returncode != 0:
            pytest.skip(f"mkfs.ext4: {made.stderr.strip()}")
        path.mkdir(parents=True)
        _mount_or_skip("mount", "-o", "loop", str(image), str(path))
        try:
            yield path
        finally:
            _unmount(path)


@contextmanager
def plain_disk(path: Path, size_mib: int) -> Iterator[Path]:
    """ext4 of `size_mib` MiB in a file beside it; it may be frozen."""
    image = path.with_name(f"{path.name}-image")
    with image.open("wb") as file:
        file.truncate(size_mib * MIB)
    made = _run("mkfs.ext4", "-q", "-F", str(image))
    if made.returncode != 0:
        pytest.skip(f"mkfs.ext4: {made.stderr.strip()}")
    path.mkdir(parents=True)
    _mount_or_skip("mount", "-o", "loop", str(image), str(path))
    try:
        yield path
    finally:
        _unmount(path)


@contextmanager
def frozen(path: Path) -> Iterator[None]:
    """Every write to the file system at `path` hangs, also for kill -9, until the block ends."""
    done = _run("fsfreeze", "--freeze", str(path))
    if done.returncode != 0:
        pytest.skip(f"freezing a file system is not permitted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        _run("fsfreeze", "--unfreeze", str(path))


def _mount_or_skip(*command: str) -> None:
    done = _run(*command)
    if done.returncode != 0:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")


def _unmount(path: Path) -> None:
    done = _run("umount", str(path))
    if done.returncode != 0:
        _run("umount", "--lazy", str(path))


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))
