"""Apache Kafka's ``kafka-dump-log``, as the tests call it."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

from tests.peers import CLASS_PATH
from tests.trio import JVM

COMPLAINT = re.compile("(?<!log4j) ?(error|exception|mismatch|corrupt)", re.IGNORECASE)
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
DECODERS = {
    "__consumer_offsets": ["--offsets-decoder"],
    "__transaction_state": ["--transaction-log-decoder"],
    "__cluster_metadata": ["--cluster-metadata-decoder"],
    ".checkpoint": ["--cluster-metadata-decoder", "--skip-record-metadata"],
}


def dump(*arguments: str) -> str:
    """What the tool says. Fails where it fails or complains on its error stream."""
    said, complaints = run(*arguments)
    assert not complaints, complaints[:5]
    return said


def run(*arguments: str) -> tuple[str, list[str]]:
    """What the tool says, and its complaints."""
    command = [*JVM, "-cp", CLASS_PATH, "org.apache.kafka.tools.DumpLogSegments", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if COMPLAINT.search(line)]


def time_indexes_called_wrong(root: Path) -> set[str]:
    """Those below `root` of which the tool says that a timestamp is not in the log, relative to it. Apache
    Kafka's own cleaner leaves such: an entry for a batch that it emptied."""
    paths = sorted(map(str, root.glob("*/*/*/*.timeindex")))
    _, complaints = run("--files", ",".join(paths))
    found = (re.search(r"mismatch in ?:(.*)$", line) for line in complaints)
    return {str(Path(match[1]).relative_to(root)) for match in found if match}


def check_every_file(root: Path, except_for: Collection[str] = ()) -> dict[str, str]:
    """Every file that the tool knows in the nodes' log directories below `root`, without a complaint; what it
    said, by kind: the suffixes of files, and the names of the internal topics."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for path in sorted(root.glob("*/data/*/*.*")):
        if str(path.relative_to(root)) in except_for:
            continue
        topic = path.parent.name.rpartition("-")[0]
        inner = path.suffix == ".log" and topic in DECODERS
        if path.suffix == ".checkpoint" or path.suffix in SUFFIXES:
            kinds[topic if inner else path.suffix].append(str(path))
    said = {}
    for kind, paths in kinds.items():
        options = ["--deep-iteration", *DECODERS.get(kind, [])]
        said[kind] = dump(*options, "--files", ",".join(paths))
        assert "isvalid: false" not in said[kind] and "Found" not in said[kind], said[kind][-2000:]
    sane = dump("--index-sanity-check", "--files", ",".join(kinds[".index"]))
    passed = sane.count("passed sanity check") + sane.count(" is empty.")
    assert passed == len(kinds[".index"]), sane
    return said
