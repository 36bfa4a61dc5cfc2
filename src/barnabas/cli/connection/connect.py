"""Shared by all commands that ask a cluster: finding it, errors as sentences, output as tables or JSON.

The address is `--bootstrap`; else ``cluster.json`` in the directory `--data`; else ``$BARNABAS_BOOTSTRAP``;
else ``bootstrap.servers`` in the client's properties (of the chosen profile, also of ``barnabas profiles``);
else ``cluster.json`` in the current directory. ``barnabas up`` writes that file. With `--json` a command
prints one JSON value and nothing else.

Exit status: 0 done, 1 the cluster refused, 2 wrong usage, 3 no server answered.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console, RenderableType
from rich.table import Table

from barnabas.cli.connection.password_prompt import with_password
from barnabas.cli.connection.variables import BOOTSTRAP, COMMAND_CONFIG, PROFILE
from barnabas.cli.failure import Failure
from barnabas.cli.moments import date_text
from barnabas.cli.plain_text import on_one_line, say, visible
from barnabas.cli.profiles.named import UnknownProfile, of_profile
from barnabas.cli.profiles.own_file import own_file
from barnabas.client.client import Trying
from barnabas.client.network.connection import ChannelError
from barnabas.config.definition import without_user
from barnabas.config.nearest import hint
from barnabas.config.properties import parse_properties
from barnabas.config.providers import resolve
from barnabas.host.client import Connected, connect
from barnabas.host.secrets.config_files import HostSources
from barnabas.metadata.views.cluster_events import ClusterEvent
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest

CONNECT_TIMEOUT_MS = 5_000.0
"""A bootstrap server must answer within this time: a person waits for the command."""
REFUSED, USAGE, UNREACHABLE = 1, 2, 3
SERVERS = "bootstrap.servers"
REGISTRY_URL, REGISTRY_USER = "schema.registry.url", "basic.auth.user.info"
CONTROLLERS = 2
"""Endpoint type of DescribeCluster."""
WIDTH_UNBOUNDED = 1_000_000
"""Width of a line that must not be wrapped."""

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,...",
        help=f"Brokers to ask (or ${BOOTSTRAP}).",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="The directory of a `barnabas up`."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value instead of text.")]
JsonAnyway = Annotated[
    bool, typer.Option("--json", help="Changes nothing: the output is JSON anyway.")
]

_SENTENCES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.UNKNOWN_TOPIC_ID: "there is no such topic",
    ErrorCode.TOPIC_ALREADY_EXISTS: "the topic exists already",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the coordinator is not available yet",
    ErrorCode.NOT_ENOUGH_REPLICAS: "too few replicas are in sync to take writes",
    ErrorCode.REQUEST_TIMED_OUT: "the request timed out",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "there is no such transactional id",
}


def find_bootstrap(bootstrap: str | None, data: Path | None) -> str:
    """The bootstrap servers of the cluster. Raises `Failure` if they are unknown."""
    if bootstrap:
        return bootstrap
    if data is None and os.environ.get(BOOTSTRAP):
        return os.environ[BOOTSTRAP]
    if data is None and (given := command_config().get(SERVERS, "").strip()):
        return given
    file = (data or Path()) / "cluster.json"
    try:
        found = json.loads(file.read_text())["bootstrap"]
    except FileNotFoundError:
        raise Failure(
            f"say where the cluster is: --bootstrap HOST:PORT, ${BOOTSTRAP}, bootstrap.servers"
            f" in the file of --command-config, or --data DIR (there is no {file})",
            USAGE,
        ) from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise Failure(f"{file} is damaged: {error}", USAGE) from error
    return str(found)


def command_config(data: Path | None = None, bootstrap: str | None = None) -> dict[str, str]:
    """The client's properties: of the file that ``--command-config`` or its variable names, else of
    ``client.properties`` of a ``barnabas up --secure``, else of the user's own file; of the profile that is
    chosen. The own file's `profile` holds only where nothing else says where the cluster is: what it knows of
    one cluster must not be sent to another. Raises `Failure`."""
    name, profile = os.environ.get(COMMAND_CONFIG), os.environ.get(PROFILE, "")
    own = own_file()
    if not name and data is None and not own.exists():
        if profile:
            raise Failure(
                "--profile names a profile of a file: give the file by --command-config, or make"
                " the profile by barnabas profiles create",
                USAGE,
            )
        return {}
    if not name and data is None:
        if not profile and (bootstrap or os.environ.get(BOOTSTRAP)):
            return {}
        file = own
    else:
        file = Path(name) if name else (data or Path()) / "client.properties"
    try:
        return of_profile(parse_properties(file.read_text(encoding="utf-8")), profile)
    except FileNotFoundError as error:
        if not name and not profile:
            return {}
        raise Failure(f"{file} cannot be read: {error.strerror}", USAGE) from error
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}", USAGE) from error
    except UnknownProfile as error:
        raise Failure(f"{file}: {error}", USAGE) from error
    except ValueError as error:
        raise Failure(f"{file} is no properties file: {error}", USAGE) from error


class RegistryAccess(NamedTuple):
    """The place of a schema registry, and the user who asks it."""

    url: str
    user: str
    password: str


def registry_of(given: str | None, properties: Mapping[str, str]) -> RegistryAccess | None:
    """The registry that is `given`, else ``schema.registry.url`` of the client's properties; its user is
    ``basic.auth.user.info`` there. None where neither names one, or an empty one is given. Raises
    `Failure`."""
    try:
        values = resolve(properties, HostSources()).values
    except ValueError as error:
        raise Failure(str(error), USAGE) from error
    url = (values.get(REGISTRY_URL, "") if given is None else given).strip().rstrip("/")
    if not url:
        return None
    if not url.startswith(("http://", "https://")):
        raise Failure(
            f"a schema registry has an http or https address, not {without_user(url)!r}", USAGE
        )
    user, _, password = values.get(REGISTRY_USER, "").partition(":")
    return RegistryAccess(url, user, password)


@contextmanager
def cluster(
    bootstrap: str | None, data: Path | None, *, refresh: bool = True
) -> Iterator[Connected]:
    """A client of the cluster. An error within the block becomes `Failure`: a sentence and an exit status.
    Without `refresh` no metadata are requested first."""
    where = find_bootstrap(bootstrap, data)
    try:
        properties = with_password(command_config(data, bootstrap))
        connected = connect(
            where, client_id="barnabas-cli", properties=properties, on_slow=say_what_is_tried
        )
    except ValueError as error:
        raise Failure(str(error), USAGE) from error
    try:
        if refresh:
            connected.call(connected.client.cluster.refresh(timeout_ms=CONNECT_TIMEOUT_MS))
        yield connected
    except KafkaError as error:
        raise Failure(sentence(error) + topic_meant(connected, error), REFUSED) from error
    except ChannelError as error:
        if error.kind == "unsupported" and (reported := what_serves_there(connected)):
            raise Failure(reported, USAGE) from error
        raise Failure(f"{where} cannot be reached: {error.message}", UNREACHABLE) from error
    finally:
        connected.close()


def topic_meant(connected: Connected, error: KafkaError) -> str:
    """A hint at the topic with the most similar name, for one that does not exist."""
    if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or " " not in error.message:
        return ""
    try:
        known = [view.name for view in connected.topics()]
    except (ChannelError, KafkaError):
        return ""
    return hint(error.message.removeprefix("topic "), known)


def what_serves_there(connected: Connected) -> str:
    """A sentence if the first server is a controller's listener, which serves no clients; else empty."""
    at = connected.client.cluster.candidates()[0]
    request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    try:
        answer = connected.call(connected.client.send(at, request, timeout_ms=CONNECT_TIMEOUT_MS))
    except ChannelError:
        return ""
    if answer.error_code:
        return ""
    return (
        f"{at} is a controller's listener, which serves no clients: give brokers' addresses to"
        " --bootstrap (`quorum` and `cluster metrics` also ask controllers: --bootstrap-controller)"
    )


def say_what_is_tried(trying: Trying, left_s: float) -> None:
    """Print on standard error why a command still waits."""
    if isinstance(trying.failure, KafkaError):
        why = sentence(trying.failure)
    elif trying.failure is not None:
        why = trying.failure.message
    else:
        why = f"no answer yet to {trying.asked}"
    hint = (
        "the quorum may have no leader"
        " (barnabas quorum describe --status --bootstrap-controller HOST:PORT)"
    )
    say(f"{why}: {hint}; trying for {max(left_s, 0):.0f} more seconds", err=True)


def sentence(error: KafkaError) -> str:
    """A Kafka error as a sentence, with the broker's message or the error's name."""
    text = _SENTENCES.get(error.code)
    if text is None:
        return str(error)
    return f"{text} ({error.message or error.code.name})"


def show(as_json: bool, value: Any, table: Table) -> None:
    """Print `value` as JSON, or the table."""
    if as_json:
        say(json.dumps(value, default=plain, indent=2))
    else:
        print_table(table)


def answer(as_json: bool, value: Any, *sentences: object) -> None:
    """Print `value` as JSON, or the sentences, for a command that has no table."""
    if as_json:
        say(json.dumps(value, default=plain, indent=2))
    else:
        for sentence in sentences:
            say(sentence)


def print_table(table: Table) -> None:
    """Print a table: in a terminal as wide as that, else as wide as its content, so that a row is one line.
    The title is a line of its own."""
    console = Console(soft_wrap=True, emoji=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        wide = console.options.update(width=WIDTH_UNBOUNDED)
        console.width = max(console.measure(table, options=wide).maximum, console.width)
    if table.title:
        console.print(visible(str(table.title)), style="table.title", markup=False, highlight=False)
        table.title = None
    console.print(table)


def plain(value: Any) -> Any:
    """Convert a value that ``json`` cannot serialize."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "backslashreplace")
    return str(value)


class PlainTable(Table):
    """A table whose cells have no control characters, and no line feeds."""

    def add_row(self, *cells: RenderableType | None, **settings: Any) -> None:
        plain_cells = (on_one_line(cell) if isinstance(cell, str) else cell for cell in cells)
        super().add_row(*plain_cells, **settings)


def table_of(title: str | None, *columns: str, right: Sequence[str] = ()) -> Table:
    """A table with these columns; those in `right` are aligned to the right."""
    table = PlainTable(title=title, box=None, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(
            visible(column), justify="right" if column in right else "left", overflow="fold"
        )
    return table


def event_line(event: ClusterEvent) -> str:
    """An event as a line: offset of its record (or -), time in UTC, what changed and why."""
    at = date_text(event.at_ms, f"%Y-%m-%d %H:%M:%S.{event.at_ms % 1000:03}")
    offset = str(event.offset) if event.offset >= 0 else "-"
    return on_one_line(f"{offset:>8}  {at}  {event}")
