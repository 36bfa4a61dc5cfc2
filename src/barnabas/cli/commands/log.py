"""``barnabas log``: the content of a log directory's files, and the events of the metadata log; `dirs` asks
running brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from barnabas.cli.commands import log_dirs
from barnabas.cli.connection.connect import USAGE, JsonAnyway, event_line
from barnabas.cli.connection.metadata_log_reader import Stretch, events_in
from barnabas.cli.connection.voter_events import VoterEvents
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.cli.progress import ProgressLine
from barnabas.cli.reports.log_file_rows import rows_of
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.views.cluster_events import KINDS, ClusterEvent, EventReader
from barnabas.metadata.views.metadata_tree import NoSuchPathError, cat
from barnabas.raft.storage.snapshot_files import (
    CorruptSnapshotError,
    continued_by_log,
    id_of,
    read_checkpoint,
)
from barnabas.record.batch import CorruptBatchError
from barnabas.types import METADATA_TOPIC
from barnabas.wire.codec import MalformedError, UnsupportedFieldError

app = typer.Typer(help="The files of a log directory.", no_args_is_help=True)
app.add_typer(log_dirs.app, name="dirs")
FOLDER = f"{METADATA_TOPIC}-0"
Damage = (CorruptBatchError, CorruptSnapshotError, MalformedError, UnsupportedFieldError)


@app.command()
def dump(
    file: Path = typer.Argument(..., help="Any file of a log directory."),
    records: bool = typer.Option(False, "--records", "-r", help="With the records of each batch."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object per line."),
) -> None:
    """Every entry; says where the file is damaged and ends with 1."""
    try:
        for row in rows_of(file, records):
            say(json.dumps(row) if as_json else line_of(row))
    except BrokenPipeError:
        raise  # the reader of the pipe closed it
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}", USAGE) from error
    except Damage as error:
        raise Failure(f"{file} is damaged: {error}") from error


@app.command()
def events(
    directory: Path = typer.Argument(..., help=f"A node's log directory, or its {FOLDER}."),
    kind: list[str] = typer.Option([], "--kind", "-k", help=f"Only these: {', '.join(KINDS)}."),
    about: str = typer.Option("", "--about", "-a", help="Only subjects with this in their name."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object per line."),
) -> None:
    """Every decision in the metadata log with its reason."""
    for name in kind:
        if name not in KINDS:
            raise Failure(f"--kind is one of {', '.join(KINDS)}, not {name!r}", USAGE)
    for event in read_log(EventReader(), directory):
        if (kind and event.kind not in kind) or about not in event.subject:
            continue
        say(json.dumps(event.as_dict()) if as_json else event_line(event))


@app.command()
def tree(
    directory: Path = typer.Argument(..., help=f"A node's log directory, or its {FOLDER}."),
    path: str = typer.Argument("/", help="As /topics/byName/flights/0."),
    as_json: JsonAnyway = False,
) -> None:
    """The cluster's metadata at the end of the log, as JSON."""
    image = replayed(directory)
    try:
        say(json.dumps(cat(image, path), indent=2, default=str))
    except NoSuchPathError as error:
        raise Failure(str(error)) from error


def replayed(directory: Path, is_shown: bool = False) -> MetadataImage:
    """The metadata at the end of a node's log, with a line that says how far the reading is where `is_shown`.
    Raises `Failure`."""
    reader = EventReader()
    with ProgressLine("changes of the metadata log", is_shown=is_shown) as line:
        for done, _ in enumerate(read_log(reader, directory)):
            line.update(done)
    return reader.image


def read_log(reader: EventReader, directory: Path) -> Iterator[ClusterEvent]:
    """Feed the metadata log of a node to `reader`: the snapshot that it continues, then the log.
    Raises `Failure`."""
    folder = directory if directory.name == FOLDER else directory / FOLDER
    segments = sorted(folder.glob("*.log"))
    if not segments:
        raise Failure(f"there is no metadata log in {folder}", USAGE)
    start = int(segments[0].stem)
    current, voters = segments[0], VoterEvents()
    snapshots = {known: file for file in folder.glob("*.checkpoint") if (known := id_of(file.name))}
    at = continued_by_log(start, snapshots)
    if at is None and start:
        raise Failure(f"{folder} begins at offset {start}, and no snapshot has what was before")
    try:
        if at is not None:
            current = snapshots[at]
            snapshot = current.read_bytes()
            reader.load(read_checkpoint(snapshot), at.offset - 1, at.epoch)
            voters.load(snapshot)
        for current in segments:
            # Up to the last whole batch: a running node may be writing the next.
            stretch = Stretch(current.read_bytes(), 0 if at is None else at.offset)
            yield from events_in(reader, stretch, voters)
    except OSError as error:
        raise Failure(f"{current} cannot be read: {error.strerror}", USAGE) from error
    except Damage as error:
        raise Failure(f"{current} is damaged: {error}") from error


def line_of(row: dict[str, Any]) -> str:
    """One line per entry, and one per record behind it."""
    if list(row) == ["line"]:
        return str(row["line"])
    parts = [f"{k}={v}" for k, v in row.items() if k != "records" and v is not False]
    lines = ["  ".join(parts)]
    for record in row.get("records", ()):
        lines.append("    " + "  ".join(f"{k}={v!r}" for k, v in record.items()))
    return "\n".join(lines)
