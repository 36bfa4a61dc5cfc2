"""Apache Kafka 4.3.0 into peers/libs, and kafka-python's own tests into peers/python: ``make peers``.

With Maven on the machine it asks Maven, by ``peers-pom.xml``; without, it downloads the files of
``peers.lock`` from the repository that the variable MAVEN_CENTRAL names. Either way every file is held to
the SHA-256 in ``peers.lock``, and nothing else stays in the folder. Needs nothing but Python.

kafka-python's source distribution has its integration tests; pip fetches it from wherever pip is set up to
look, and holds it to the hash in ``peers-python.lock``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOOLS = Path(__file__).parent
LIBS = TOOLS.parent / "peers" / "libs"
PYTHON = TOOLS.parent / "peers" / "python"
PYTHON_LOCK = TOOLS / "peers-python.lock"
DOWNLOADS_AT_ONCE = 8


def locked() -> dict[str, str]:
    """Path in a Maven repository to SHA-256."""
    lines = (TOOLS / "peers.lock").read_text().splitlines()
    return {path: digest for digest, path in (line.split() for line in lines)}


def missing() -> dict[str, str]:
    """As `locked`, what is not there or not what it should be."""
    return {path: digest for path, digest in locked().items() if not _is_right(path, digest)}


def by_maven() -> None:
    """Let Maven copy the files from wherever it is set up to take them."""
    command = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(TOOLS / "peers-pom.xml"),
        "dependency:copy-dependencies",
    ]
    subprocess.run([*command, f"-DoutputDirectory={LIBS}"], check=True)


def by_download(repository: str) -> None:
    """Take the files straight from a repository."""
    with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        for path in pool.map(lambda path: _download(repository, path), missing()):
            print(path)


def _download(repository: str, path: str) -> str:
    target = LIBS / Path(path).name
    partial = target.with_suffix(".part")
    with urllib.request.urlopen(f"{repository.rstrip('/')}/{path}") as source:
        partial.write_bytes(source.read())
    partial.rename(target)
    return target.name


def _is_right(path: str, digest: str) -> bool:
    file = LIBS / Path(path).name
    return file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == digest


def source_is_here() -> bool:
    """Whether kafka-python's source distribution is there, and is the one that is locked."""
    digest = PYTHON_LOCK.read_text().split("sha256:")[1].strip()
    files = list(PYTHON.glob("kafka_python-*.tar.gz"))
    return any(hashlib.sha256(file.read_bytes()).hexdigest() == digest for file in files)


def fetch_source() -> None:
    """By pip, with its configuration."""
    shutil.rmtree(PYTHON, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-binary", "kafka-python", "--require-hashes"]
    subprocess.run([*command, *options, "-r", PYTHON_LOCK, "-d", PYTHON], check=True)


def main() -> int:
    LIBS.mkdir(parents=True, exist_ok=True)
    repository = os.environ.get("MAVEN_CENTRAL")
    if missing():
        if repository:
            by_download(repository)
        elif shutil.which("mvn"):
            by_maven()
        else:
            print("install Maven, or set MAVEN_CENTRAL to a repository's URL", file=sys.stderr)
            return 1
    wrong = missing()
    if wrong:
        print(f"not what peers.lock says: {', '.join(sorted(wrong))}", file=sys.stderr)
        return 1
    known = {Path(path).name for path in locked()}
    for file in LIBS.iterdir():
        if file.name not in known:
            file.unlink()
    if not source_is_here():
        fetch_source()
    print(f"{len(known)} files in {LIBS}, kafka-python's tests in {PYTHON}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
