"""An import ends well wherever numba can keep its code, and where it can keep it nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from barnabas.host import own_folder

PROGRAM = """
import sys, tempfile
from numba.core import caching
def unwritable(self):
    raise PermissionError("read-only installation")
caching.InTreeCacheLocator.ensure_cache_path = unwritable
if sys.argv[1] != "temporary":
    tempfile.tempdir = sys.argv[1]
import barnabas.pipeline
import numpy as np
from barnabas.record import columnar_kernels
data = columnar_kernels.frozen(np.array([0x96, 0x01], np.uint8))
assert columnar_kernels.COMPILED and columnar_kernels.read_varint(data, 0, 2) == (75, 2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("has_temporary", [True, False])
def test_an_unwritable_cache_folder_does_not_end_the_import(
    tmp_path: Path, has_temporary: bool
) -> None:
    """Installation and home are read-only: the latter is a file, as tests may run as root."""
    file, temporary = tmp_path / "file", tmp_path / "temporary"
    file.touch()
    temporary.mkdir()
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("XDG_")},
        "HOME": str(file),
        "NUMBA_CACHE_DIR": str(file),
        "TMPDIR": str(temporary),
    }
    where = "temporary" if has_temporary else str(file)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, where],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kept = list(temporary.glob(f"{own_folder.NAME}-{os.getuid()}/**/*.nbi"))
    assert bool(kept) == has_temporary


def test_a_folder_that_others_can_fill_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = own_folder.own_folder()
    assert found is not None and own_folder.own_folder() == found
    folder = Path(found)
    folder.chmod(0o777)
    assert own_folder.own_folder() is None
    folder.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(0o700)
    folder.symlink_to(elsewhere)
    assert own_folder.own_folder() is None
