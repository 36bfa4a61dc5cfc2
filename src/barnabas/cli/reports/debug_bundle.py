"""The files of a debug bundle: pages about a cluster and files of nodes on this machine, without secrets and
without records.

A part that cannot be had is a file with the reason: what is missing says as much as what is there. Everything
is bounded: the end of a log, the last batch headers of the partitions that were written to last.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import urllib.request
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from importlib.metadata import distributions
from pathlib import Path
from typing import NamedTuple

from barnabas import __version__
from barnabas.config.definition import without_user
from barnabas.config.properties import format_properties, parse_properties
from barnabas.metadata.image.image import BROKER
from barnabas.metadata.views.metadata_tree import SECRET, is_secret
from barnabas.record.batch import HEADER_SIZE, BatchHeader, read_header

DESCRIBES: Mapping[str, Sequence[str]] = {
    "cluster.json": ("cluster", "describe", "--json"),
    "events.json": ("cluster", "events", "--last", "1000", "--json"),
    "controller-metrics.json": ("cluster", "metrics", "--json"),
    "quorum-status.json": ("quorum", "describe", "--status", "--json"),
    "quorum-replication.json": ("quorum", "describe", "--replication", "--json"),
    "quorum-metrics.json": ("quorum", "describe", "--metrics", "--json"),
    "features.json": ("features", "describe", "--json"),
    "topics.json": ("topics", "describe", "--json"),
    "groups.json": ("groups", "list", "--json"),
    "transactions.json": ("transactions", "list", "--json"),
    "reassignments.json": ("reassign", "status", "--json"),
    "quotas.json": ("quotas", "describe", "--json"),
}
"""The pages about the cluster, each by the command that shows it."""
COMMAND_S_MAX = 30
COMMANDS_AT_ONCE = 4
HTTP_S_MAX = 5
LOG_BYTES_MAX = 8 * 1024 * 1024
HEADERS_MAX = 100
"""Batch headers of one partition's last segment."""
PARTITIONS_MAX = 200
PAGE_BYTES_MAX = 64 * 1024 * 1024


PLAIN_FILES = ("meta.properties", ".kafka_cleanshutdown")
"""Files of a log directory that are shown whole, beside checkpoints of offsets. A ``bootstrap.checkpoint``
may have credentials."""


_QUERY = re.compile(r"(\w+://[^?\s,]*)\?[^\s,]*")


class NodePlace(NamedTuple):
    """A node on this machine. `log` and `metrics_url` are None where they are not known."""

    node_id: str
    properties: Path
    log: Path | None
    metrics_url: str | None


Entry = tuple[str, bytes]
"""A file's name in the bundle, and its content."""


def versions() -> Entry:
    """The versions of the program, of Python and of packages."""
    found = {
        "barnabas": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "packages": dict(sorted((d.metadata["Name"], d.version) for d in distributions())),
    }
    return "versions.json", _json(found)


def describes(where: Sequence[str]) -> Iterator[Entry]:
    """The pages about the cluster; `where` are the options that lead to it."""
    commands = [
        [sys.executable, "-m", "barnabas", *command, *where] for command in DESCRIBES.values()
    ]
    with ThreadPoolExecutor(COMMANDS_AT_ONCE) as pool:
        for name, printed in zip(DESCRIBES, pool.map(_output, commands), strict=True):
            yield f"cluster/{name}", printed


def node_files(node: NodePlace) -> Iterator[Entry]:
    """The files about one node on this machine."""
    folder = f"node-{node.node_id}"
    try:
        properties = parse_properties(node.properties.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError) as error:
        yield f"{folder}/server.properties", f"{error}\n".encode()
        return
    yield f"{folder}/server.properties", format_properties(without_secrets(properties)).encode()
    if node.log is not None:
        yield f"{folder}/node.log", end_of(node.log, LOG_BYTES_MAX)
    address = node.metrics_url or properties.get("metrics.listeners", "").split(",")[0].strip()
    if address:
        token = properties.get("metrics.bearer.token", "")
        yield f"{folder}/metrics.txt", page(f"{address}/metrics", token)
        yield f"{folder}/ready.json", page(f"{address}/health/ready", token)
    for directory in properties.get("log.dirs", properties.get("log.dir", "")).split(","):
        if directory.strip():
            yield from _directory_files(folder, Path(directory.strip()))


def without_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with the values of passwords and of unknown keys hidden."""
    return {
        key: SECRET if is_secret(BROKER, key) else without_credentials(value)
        for key, value in properties.items()
    }


def _directory_files(folder: str, directory: Path) -> Iterator[Entry]:
    name = f"{folder}/{directory.name}"
    try:
        for file in sorted(directory.glob("*")):
            if file.is_file() and (file.name in PLAIN_FILES or file.name.endswith("-checkpoint")):
                yield f"{name}/{file.name}", end_of(file, LOG_BYTES_MAX)
        segments = [max(logs) for at in directory.glob("*-*") if (logs := list(at.glob("*.log")))]
        segments.sort(key=lambda file: file.stat().st_mtime, reverse=True)
    except OSError as error:
        yield f"{name}/unreadable.txt", f"{error}\n".encode()
        return
    for segment in segments[:PARTITIONS_MAX]:
        yield f"{name}/{segment.parent.name}/{segment.stem}.headers", last_headers(segment)


def last_headers(segment: Path) -> bytes:
    """The last batch headers of a segment, a line of JSON each; no record is read."""
    lines: deque[str] = deque(maxlen=HEADERS_MAX)
    position = 0
    try:
        with segment.open("rb") as file:
            while len(head := file.read(HEADER_SIZE)) == HEADER_SIZE:
                header = read_header(head)
                lines.append(json.dumps({"position": position, **_fields(header)}))
                if header.length <= 0:
                    lines.append(json.dumps({"damaged": "a length that no batch has"}))
                    break
                position += header.size
                file.seek(position)
    except OSError as error:
        lines.append(json.dumps({"unreadable": str(error)}))
    return ("\n".join(lines) + "\n").encode()


def _fields(header: BatchHeader) -> dict[str, int]:
    return header._asdict()


def end_of(file: Path, size: int) -> bytes:
    """The last `size` bytes of a file; the reason where it cannot be read."""
    try:
        with file.open("rb") as opened:
            opened.seek(0, 2)
            opened.seek(max(opened.tell() - size, 0))
            return opened.read(size)
    except OSError as error:
        return f"{error}\n".encode()


def without_credentials(value: str) -> str:
    """`value` without the user and the query of each address in it, which may be credentials."""
    return _QUERY.sub(rf"\1?{SECRET}", without_user(value))


def page(url: str, token: str) -> bytes:
    """An answer over HTTP, whatever its status; the reason where there is none."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=HTTP_S_MAX) as answer:
            found: bytes = answer.read(PAGE_BYTES_MAX)
            return found
    except urllib.error.HTTPError as error:
        return error.read(PAGE_BYTES_MAX)
    except (OSError, ValueError, HTTPException) as error:
        return f"{type(error).__name__}: {error}\n".encode()


def _output(command: Sequence[str]) -> bytes:
    try:
        done = subprocess.run(command, capture_output=True, timeout=COMMAND_S_MAX, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {COMMAND_S_MAX} s\n".encode()
    if done.returncode == 0:
        return done.stdout
    return done.stdout + done.stderr + f"exit status {done.returncode}\n".encode()


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
