"""Files of packages have the same modes under each umask."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.interop.umask import umask
from tools import file_modes


def modes(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in (folder, *folder.rglob("*"))
    }


@pytest.mark.parametrize("mask", [0o077, 0o022, 0o002, 0o000])
def test_a_package_has_the_same_modes_under_each_umask(mask: int, tmp_path: Path) -> None:
    package = tmp_path / "package"
    with umask(mask):
        (package / "lib").mkdir(parents=True)
        (package / "tmp").mkdir()
        for name in ("lib/module.py", "lib/program", "secret"):
            (package / name).write_text("")
        (package / "lib/program").chmod(0o700)
    file_modes.fix(package, {"tmp": 0o1777, "secret": 0o640})
    assert modes(package) == {
        ".": 0o755,
        "lib": 0o755,
        "lib/module.py": 0o644,
        "lib/program": 0o755,
        "tmp": 0o1777,
        "secret": 0o640,
    }


def test_a_file_behind_a_link_keeps_its_mode(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("")
    outside.chmod(0o600)
    package = tmp_path / "package"
    package.mkdir()
    (package / "link").symlink_to(outside)
    file_modes.fix(package)
    assert stat.S_IMODE(outside.stat().st_mode) == 0o600
