"""Apache Kafka 4.3.0 into peers/libs, Apache Flink into peers/flink, Spark's Kafka connector into
peers/spark, and kafka-python's own tests into peers/python: ``make peers``.

With Maven on the machine it asks Maven, by ``peers-pom.xml``; without, it downloads the files of
``peers.lock`` from the repository that the variable MAVEN_CENTRAL names. Either way every file is held to
the SHA-256 in its lock file, and nothing else stays in the folder. Needs nothing but Python.

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
PEERS = TOOLS.parent / "peers"
SETS = {
    "peers": PEERS / "libs",
    "peers39": PEERS / "libs39",
    "flink": PEERS / "flink",
    "spark": PEERS / "spark",
}
"""By the name of pom and lock file: where the jars go."""
PYTHON = TOOLS.parent / "peers" / "python"
PYTHON_LOCK = TOOLS / "peers-python.lock"
DOWNLOADS_AT_ONCE = 8


def locked(name: str) -> dict[str, str]:
    """Path in a Maven repository to SHA-256."""
    lines = (TOOLS / f"{name}.lock").read_text().splitlines()
    return {path: digest for digest, path in (line.split() for line in lines)}


def missing(name: str) -> dict[str, str]:
    """As `locked`, what is not there or not what it should be."""
    libs = SETS[name]
    return {
        path: digest for path, digest in locked(name).items() if not _is_right(libs, path, digest)
    }


def by_maven(name: str) -> None:
    """Let Maven copy the files from wherever it is set up to take them."""
    command = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(TOOLS / f"{name}-pom.xml"),
        "dependency:copy-dependencies",
    ]
    subprocess.run([*command, f"-DoutputDirectory={SETS[name]}"], check=True)


def by_download(name: str, repository: str) -> None:
    """Take the files straight from a repository."""
    with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        for path in pool.map(lambda path: _download(SETS[name], repository, path), missing(name)):
            print(path)


def _download(libs: Path, repository: str, path: str) -> str:
    target = libs / Path(path).name
    partial = target.with_suffix(".part")
    with urllib.request.urlopen(f"{repository.rstrip('/')}/{path}") as source:
        partial.write_bytes(source.read())
    partial.rename(target)
    return target.name


def _is_right(libs: Path, path: str, digest: str) -> bool:
    file = libs / Path(path).name
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


def bring(name: str) -> str | None:
    """One set of jars; a sentence where it cannot be had."""
    libs = SETS[name]
    libs.mkdir(parents=True, exist_ok=True)
    repository = os.environ.get("MAVEN_CENTRAL")
    if missing(name):
        if repository:
            by_download(name, repository)
        elif shutil.which("mvn"):
            by_maven(name)
        else:
            return "install Maven, or set MAVEN_CENTRAL to a repository's URL"
    wrong = missing(name)
    if wrong:
        return f"not what {name}.lock says: {', '.join(sorted(wrong))}"
    known = {Path(path).name for path in locked(name)}
    for file in libs.iterdir():
        if file.name not in known:
            file.unlink()
    print(f"{len(known)} files in {libs}")
    return None


def main() -> int:
    for name in SETS:
        problem = bring(name)
        if problem is not None:
            print(problem, file=sys.stderr)
            return 1
    if not source_is_here():
        fetch_source()
    print(f"kafka-python's tests in {PYTHON}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
