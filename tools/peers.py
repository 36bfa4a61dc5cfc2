"""Fetches the systems that tests and benchmarks compare with: ``make peers``.

Apache Kafka 4.4.0 goes into peers/libs44, 4.3.0 into peers/libs, its Java clients and Connect alone into
peers/clients, what joins Kafka 4 to Log4j into peers/logging, Kafka 3.9.1 with its ZooKeeper into
peers/libs39, programs that use transactions into peers/programs, Apache Flink into peers/flink, Apache Camel
into peers/camel, Vert.x into peers/vertx, Apache Pekko into peers/pekko, Debezium into peers/debezium,
Spark's Kafka connector into peers/spark, kafka-python's own tests into peers/python, Hadoop's S3A into
peers/s3, and moto, a server of S3's protocol, into an environment of its own in peers/s3-server. Other
people's programs go into peers/others (`tools.other_programs`).
``make test`` brings peers/clients (34 MB) by itself, by `problem_of_clients`.

Where the variable MAVEN_CENTRAL names a repository, the jars of ``NAME.lock`` are downloaded from it.
Otherwise Maven copies them by ``NAME-pom.xml``. Either way every file must have the SHA-256 in its lock file,
and other files in the folder are removed. A download needs nothing but Python.

kafka-python's integration tests are in its source distribution. pip fetches it from the index that pip is
configured for, and checks the hash in ``peers-python.lock``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools import other_programs

TOOLS = Path(__file__).parent
PEERS = TOOLS.parent / "peers"
SETS = {
    "peers44": PEERS / "libs44",
    "peers": PEERS / "libs",
    "peers39": PEERS / "libs39",
    "clients": PEERS / "clients",
    "logging": PEERS / "logging",
    "programs": PEERS / "programs",
    "flink": PEERS / "flink",
    "camel": PEERS / "camel",
    "vertx": PEERS / "vertx",
    "pekko": PEERS / "pekko",
    "debezium": PEERS / "debezium",
    "spark": PEERS / "spark",
    "s3": PEERS / "s3",
}
"""Name of the pom and lock file → the folder of their jars."""
PYTHON = TOOLS.parent / "peers" / "python"
PYTHON_LOCK = TOOLS / "peers-python.lock"
S3_SERVER = PEERS / "s3-server"
S3_SERVER_LOCK = TOOLS / "s3-server.lock"
DOWNLOADS_AT_ONCE = 8
DOWNLOAD_TIMEOUT_S = 60
MAVEN_TIMEOUT_S = 600
JAVA_MIN = 17


def locked(name: str) -> dict[str, str]:
    """Path in a Maven repository → SHA-256, from the lock file."""
    lines = (TOOLS / f"{name}.lock").read_text().splitlines()
    return {path: digest for digest, path in (line.split() for line in lines)}


def missing(name: str) -> dict[str, str]:
    """The part of `locked` whose files do not exist or have another SHA-256."""
    libs = SETS[name]
    return {
        path: digest for path, digest in locked(name).items() if not _is_right(libs, path, digest)
    }


def by_maven(name: str) -> None:
    """Let Maven copy the files from the repository that it is configured for."""
    command = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(TOOLS / f"{name}-pom.xml"),
        "dependency:copy-dependencies",
    ]
    subprocess.run(
        [*command, f"-DoutputDirectory={SETS[name]}"], check=True, timeout=MAVEN_TIMEOUT_S
    )


def by_download(name: str, repository: str) -> None:
    """Download the missing files from the Maven repository at the URL `repository`."""
    with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        for path in pool.map(lambda path: _download(SETS[name], repository, path), missing(name)):
            print(path)


def _download(libs: Path, repository: str, path: str) -> str:
    target = libs / Path(path).name
    partial = target.with_suffix(".part")
    url = f"{repository.rstrip('/')}/{path}"
    with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as source:
        partial.write_bytes(source.read())
    partial.rename(target)
    return target.name


def _is_right(libs: Path, path: str, digest: str) -> bool:
    file = libs / Path(path).name
    return file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == digest


def source_is_here() -> bool:
    """Whether kafka-python's source distribution exists and has the locked hash."""
    digest = PYTHON_LOCK.read_text().split("sha256:")[1].strip()
    files = list(PYTHON.glob("kafka_python-*.tar.gz"))
    return any(hashlib.sha256(file.read_bytes()).hexdigest() == digest for file in files)


def fetch_source() -> None:
    """Download kafka-python's source distribution by pip, with pip's configuration."""
    shutil.rmtree(PYTHON, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-binary", "kafka-python", "--require-hashes"]
    subprocess.run([*command, *options, "-r", PYTHON_LOCK, "-d", PYTHON], check=True)


def bring(name: str) -> str | None:
    """Fetch one set of jars and remove other files. Returns what is wrong; None where all is right."""
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


def java_version() -> int | None:
    """Java's major version; None where there is no Java."""
    java = shutil.which("java")
    if java is None:
        return None
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else None


def problem_of_clients() -> str | None:
    """Fetch the Java clients for ``make test``. Returns a sentence where they cannot be had, else None."""
    found = java_version()
    if found is None or found < JAVA_MIN:
        return f"Java {JAVA_MIN} is not installed"
    try:
        problem = bring("clients")
    except (OSError, subprocess.SubprocessError) as error:
        problem = f"the repository cannot be reached ({error})"
    return problem and f"Apache Kafka's Java clients are not in peers/clients: {problem}"


def main() -> int:
    for name in SETS:
        problem = bring(name)
        if problem is not None:
            print(problem, file=sys.stderr)
            return 1
    if not source_is_here():
        fetch_source()
    print(f"kafka-python's tests in {PYTHON}")
    if not other_programs.is_here(S3_SERVER, S3_SERVER_LOCK):
        other_programs.install(S3_SERVER, S3_SERVER_LOCK)
    print(f"moto in {S3_SERVER}")
    return other_programs.main()


if __name__ == "__main__":
    sys.exit(main())
