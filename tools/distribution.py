"""Builds what is published into ``dist/``: ``python -m tools.distribution`` (``make dist``).

The wheel and the source distribution are built from what git has committed, with the time of the commit, so
that two builds of one commit are the same bytes. twine checks their metadata. Beside them come the list of
all run-time packages with their versions and hashes (CycloneDX, from the lock file) and SHA256SUMS. The
programs for that are installed from ``requirements/release.lock`` into ``build/release``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from barnabas import __version__
from tools import file_modes

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "release.lock"
RUNTIME_LOCK = ROOT / "requirements" / "runtime.lock"


class DistributionError(Exception):
    """A distribution cannot be built or is not what it should be."""


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """What the command printed. Raises `DistributionError` with its output where it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise DistributionError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def programs(folder: Path) -> Path:
    """The ``bin`` of an environment with build, twine and cyclonedx-py."""
    marker = folder / f"installed-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}"
    if not marker.exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        run(
            *(folder / "bin" / "python", "-m", "pip", "install", "--quiet"),
            *("--disable-pip-version-check", "--require-hashes", "-r", LOCK),
        )
        marker.touch()
    return folder / "bin"


@contextmanager
def committed() -> Iterator[tuple[Path, int]]:
    """A folder with the files of the commit that is checked out, and the time of that commit."""
    when_s = int(run("git", "log", "-1", "--format=%ct", cwd=ROOT))
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "sources.tar"
        run("git", "archive", "--output", archive, "HEAD", cwd=ROOT)
        sources = Path(folder) / "sources"
        with tarfile.open(archive) as opened:
            opened.extractall(sources, filter="data")
        yield sources, when_s


def build(target: Path, bin_folder: Path) -> list[Path]:
    """Build all into `target`, an empty folder; returns the wheel and the source distribution."""
    with committed() as (sources, when_s):
        run(
            *(bin_folder / "python", "-m", "build", "--no-isolation", "--outdir", target, sources),
            SOURCE_DATE_EPOCH=str(when_s),
        )
    built = sorted(target.iterdir())
    names = [path.name for path in built]
    if names != [f"barnabas-{__version__}-py3-none-any.whl", f"barnabas-{__version__}.tar.gz"]:
        raise DistributionError(f"the build made {', '.join(names)}")
    run(bin_folder / "twine", "check", "--strict", *built)
    run(
        *(bin_folder / "cyclonedx-py", "requirements", RUNTIME_LOCK),
        *("--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "--of", "JSON"),
        *("-o", target / f"barnabas-{__version__}.cdx.json"),
    )
    return built


def write_sums(folder: Path) -> None:
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
    ]
    (folder / "SHA256SUMS").write_text("".join(lines))


def main(arguments: Sequence[str]) -> int:
    target = Path(arguments[0]) if arguments else ROOT / "dist"
    if target == ROOT / "dist":
        shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        print(f"{target} is not empty", file=sys.stderr)
        return 2
    try:
        build(target, programs(ROOT / "build" / "release"))
    except DistributionError as error:
        print(error, file=sys.stderr)
        return 1
    write_sums(target)
    file_modes.fix(target)
    for path in sorted(target.iterdir()):
        print(f"{path.stat().st_size / 1024:9,.0f} KiB  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
