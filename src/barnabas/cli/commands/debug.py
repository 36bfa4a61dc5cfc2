"""``barnabas debug``: one file to send to those who help."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import typer

from barnabas.cli.connection.connect import AsJson, Bootstrap, Data, answer, find_bootstrap
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import counted
from barnabas.cli.reports.debug_bundle import (
    Entry,
    NodePlace,
    describes,
    node_files,
    versions,
)

FOLDER = "barnabas-debug"
app = typer.Typer(help="One file to send to those who help.", no_args_is_help=True)


@app.callback()
def debug() -> None:
    """Write one file to send to those who help."""


@app.command()
def bundle(
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FILE.tar.gz", help="Default: barnabas-debug-DATE.tar.gz."
    ),
    node: list[Path] = typer.Option(
        [], "--node", metavar="FILE", help="The server.properties of a node here; repeatable."
    ),
    node_log: list[Path] = typer.Option(
        [], "--log", metavar="FILE", help="The log of each --node, in the same order."
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Write one archive with configurations, logs, metrics, pages about the cluster, headers of the last
    batches and versions. Passwords are left out, and so are all records."""
    if len(node_log) > len(node):
        raise Failure("each --log belongs to a --node", 2)
    target = output or Path(time.strftime(f"{FOLDER}-%Y%m%d-%H%M%S.tar.gz"))
    nodes = [*_of_up(data), *_given(node, node_log)]
    where = ["--bootstrap", find_bootstrap(bootstrap, data)]
    written: list[str] = []
    try:
        private = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(private, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, content in _entries(nodes, where):
                member = tarfile.TarInfo(f"{FOLDER}/{name}")
                member.size, member.mtime = len(content), int(time.time())
                archive.addfile(member, io.BytesIO(content))
                written.append(name)
    except OSError as error:
        raise Failure(f"{target} cannot be written: {error.strerror}") from error
    found = {"path": str(target), "files": written}
    answer(as_json, found, f"{target}: {counted(len(written), 'file')}")


def _entries(nodes: list[NodePlace], where: list[str]) -> Iterator[Entry]:
    yield versions()
    yield from describes(where)
    for node in nodes:
        yield from node_files(node)


def _of_up(data: Path | None) -> Iterator[NodePlace]:
    """The nodes of a `barnabas up`, if the directory has one."""
    file = (data or Path()) / "cluster.json"
    if not file.exists():
        return
    try:
        for node in json.loads(file.read_text())["nodes"]:
            yield NodePlace(
                str(node["id"]), Path(node["properties"]), Path(node["log"]), node.get("metrics")
            )
    except (OSError, ValueError, KeyError) as error:
        raise Failure(f"{file} is not what `barnabas up` writes: {error}") from error


def _given(files: list[Path], logs: list[Path]) -> Iterator[NodePlace]:
    for at, file in enumerate(files):
        log = logs[at] if at < len(logs) else None
        yield NodePlace(f"{at + 1}-{file.stem}", file, log, None)
