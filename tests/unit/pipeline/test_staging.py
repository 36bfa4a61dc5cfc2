"""What a writer keeps stands whole, or leaves nothing behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from barnabas.pipeline.ledger import Ledger
from barnabas.pipeline.staging import DirectoryStore


def files(directory: Path) -> list[str]:
    return sorted(
        str(each.relative_to(directory)) for each in directory.rglob("*") if each.is_file()
    )


@pytest.mark.parametrize("call", ["fsync", "replace", "link"])
def test_a_disk_that_is_full_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    store = DirectoryStore(str(tmp_path))
    store.write("app/committed.json", [b"old"])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        store.write("app/committed.json", [b"new"])
        store.write_new("app/0.manifest", [b"new"])
    monkeypatch.undo()
    assert [each for each in files(tmp_path) if each.endswith(".tmp")] == []


def test_who_is_second_says_so_and_leaves_no_file(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    assert store.write_new("app/0.manifest", [b"first"])
    assert not store.write_new("app/0.manifest", [b"second"])
    assert files(tmp_path) == ["app/0.manifest"]
    assert store.read("app/0.manifest") == b"first"


def test_what_a_killed_driver_was_writing_goes_with_its_batch(tmp_path: Path) -> None:
    for name in (
        "1.manifest.ab.tmp",
        "2.manifest.cd.tmp",
        "committed.json.ef.tmp",
        "staged/1-0-x.ab.tmp",
    ):
        (tmp_path / "app" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "app" / name).write_bytes(b"half")
    Ledger(DirectoryStore(str(tmp_path)), "app").clear(1)
    assert files(tmp_path) == ["app/2.manifest.cd.tmp"]
