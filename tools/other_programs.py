"""Brings other people's programs for tests into ``peers/others``: part of ``make peers``.

A Python program has an environment of its own, which pip installs from ``tools/programs/NAME.lock`` with
hashes. npm installs KafkaJS and @platformatic/kafka. rsyslog and syslog-ng are unpacked from Debian's
packages. Go builds its program where a test asks for it. Go builds the collector here first, and cargo its
crates: both take minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

TOOLS = Path(__file__).parent
LOCKS = TOOLS / "programs"
FOLDER = TOOLS.parent / "peers" / "others"
GO_MODULE = TOOLS.parent / "tests" / "interop" / "programs" / "go"
COLLECTOR_MODULE = GO_MODULE.with_name("collector")
COLLECTOR = FOLDER / "collector"
RUST_PACKAGE = GO_MODULE.with_name("rust")
RUST_TARGET = FOLDER / "rust-target"
NODE = {"kafkajs": "kafkajs", "platformatic-kafka": "@platformatic/kafka"}
"""Folder → the package that npm installs there."""
DEBIAN = {
    "rsyslog": (
        "rsyslog",
        "rsyslog-kafka",
        "libestr0",
        "libfastjson4",
        "liblognorm5",
        "librdkafka1",
    ),
    "syslog-ng": (
        "syslog-ng-core",
        "syslog-ng-mod-rdkafka",
        "libivykis0",
        "libnet1",
        "libpcre3",
        "librdkafka1",
    ),
}
"""Name → Debian's packages; the first of them gives the version."""


def is_here(folder: Path, lock: Path) -> bool:
    """Whether the environment in `folder` has what the lock file says."""
    kept = folder / lock.name
    return kept.is_file() and kept.read_bytes() == lock.read_bytes()


def install(folder: Path, lock: Path) -> None:
    """Make an environment by pip, with pip's configuration. Raises `subprocess.CalledProcessError`."""
    venv.create(folder, clear=True, with_pip=True)
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    options = ["--disable-pip-version-check", "--require-hashes", "-r", str(lock)]
    subprocess.run([*command, *options], check=True)
    shutil.copy(lock, folder / lock.name)


def locked_version(name: str, package: str) -> str:
    """The version of a Python package in the lock file of the program `name`."""
    found = re.search(rf"(?m)^{re.escape(package)}==(\S+)", (LOCKS / f"{name}.lock").read_text())
    if found is None:
        raise KeyError(package)
    return found[1]


def debian_version(name: str) -> str:
    """The version of what was unpacked."""
    return (FOLDER / name / "version").read_text().strip()


def go_problem() -> str | None:
    return None if shutil.which("go") else "Go is not installed"


def go_program() -> Path:
    """The program of `GO_MODULE`, built. Raises `subprocess.CalledProcessError`."""
    return _built_by_go(GO_MODULE, FOLDER / "go-copies")


def collector_problem() -> str | None:
    if not COLLECTOR.exists():
        return "the OpenTelemetry collector is not in peers: run `make peers`"
    return go_problem()


def collector() -> Path:
    """The program of `COLLECTOR_MODULE`, built. Raises `subprocess.CalledProcessError`."""
    return _built_by_go(COLLECTOR_MODULE, COLLECTOR)


def _built_by_go(module: Path, target: Path) -> Path:
    subprocess.run(
        ["go", "build", "-mod=readonly", "-o", str(target), "."],
        cwd=module,
        env={**os.environ, "GOTOOLCHAIN": "local"},
        check=True,
    )
    return target


def rust_problem() -> str | None:
    if not shutil.which("cargo"):
        return "cargo is not installed"
    return None if RUST_TARGET.exists() else "Rust's crates are not in peers: run `make peers`"


def rust_program(*options: str) -> Path:
    """The program of `RUST_PACKAGE`, built. Raises `subprocess.CalledProcessError`."""
    subprocess.run(
        ["cargo", "build", "--quiet", "--release", "--locked", *options],
        cwd=RUST_PACKAGE,
        env={**os.environ, "CARGO_TARGET_DIR": str(RUST_TARGET)},
        check=True,
    )
    return RUST_TARGET / "release" / "copies"


def crate_version(name: str) -> str:
    """The version of a crate in ``Cargo.lock``."""
    text = (RUST_PACKAGE / "Cargo.lock").read_text()
    found = re.search(rf'(?m)^name = "{re.escape(name)}"\nversion = "(.+)"', text)
    if found is None:
        raise KeyError(name)
    return found[1]


def bring_python(name: str) -> None:
    lock = LOCKS / f"{name}.lock"
    if not is_here(FOLDER / name, lock):
        install(FOLDER / name, lock)


def bring_node(name: str) -> None:
    folder = FOLDER / name
    lock = LOCKS / name / "package-lock.json"
    if is_here(folder, lock) and (folder / "node_modules").exists():
        return
    shutil.copytree(LOCKS / name, folder, dirs_exist_ok=True)
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True)


def bring_debian(name: str) -> None:
    folder = FOLDER / name
    if (folder / "version").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    packages = DEBIAN[name]
    subprocess.run(["apt-get", "download", "--quiet", *packages], cwd=folder, check=True)
    for file in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(file), str(folder / "root")], check=True)
    [own] = folder.glob(f"{packages[0]}_*.deb")
    said = subprocess.run(
        ["dpkg-deb", "-f", str(own), "Version"], check=True, capture_output=True, text=True
    )
    (folder / "version").write_text(said.stdout)


def bring_rust() -> None:
    if shutil.which("cargo"):
        rust_program()


def bring_collector() -> None:
    if shutil.which("go"):
        collector()


def bring() -> list[str]:
    """Bring all; returns a sentence about each program that cannot be had."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    problems = []
    steps: list[tuple[str, Callable[[str], None]]] = []
    steps += [(lock.stem, bring_python) for lock in sorted(LOCKS.glob("*.lock"))]
    steps += [(name, bring_debian) for name in DEBIAN]
    steps += [(name, bring_node) for name in NODE]
    steps += [("rust-target", lambda _: bring_rust()), ("collector", lambda _: bring_collector())]
    for name, step in steps:
        try:
            step(name)
        except (OSError, subprocess.SubprocessError) as error:
            problems.append(f"{name} cannot be had: {error}")
        else:
            print(f"{name} in {FOLDER}")
    return problems


def main() -> int:
    problems = bring()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
