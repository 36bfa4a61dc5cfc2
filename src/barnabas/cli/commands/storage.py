"""``barnabas storage``: log directories before a node runs on them, as ``kafka-storage`` does."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path

import typer

from barnabas.cli.connection.connect import AsJson, answer
from barnabas.cli.connection.first_voters import FirstVoters
from barnabas.cli.connection.lost_voter_check import find_former_life
from barnabas.cli.connection.unknown_keys import sentences_on_unknown
from barnabas.cli.failure import Failure
from barnabas.cli.feature_options import RELEASE, WANTED, first_levels
from barnabas.cli.plain_text import say
from barnabas.config.definition import ConfigError
from barnabas.config.meta_properties import (
    DirectoryError,
    MetaProperties,
    random_uuid,
    read_meta_properties,
)
from barnabas.config.node import NodeConfig
from barnabas.host.disk import HostDisk, sentence_of
from barnabas.host.secrets.config_files import node_config
from barnabas.metadata.storage_format import directories_of, format_node
from barnabas.security.scram_credentials import parse_credential
from barnabas.types import uuid_text

app = typer.Typer(help="Log directories before a node runs on them.", no_args_is_help=True)

_FILE = typer.Argument(help="The node's server.properties.")


@app.command("random-uuid")
def print_random_uuid(as_json: AsJson = False) -> None:
    """Print a new cluster id."""
    cluster_id = uuid_text(random_uuid(os.urandom))
    answer(as_json, {"cluster_id": cluster_id}, cluster_id)


@app.command("format")
def format_directories(
    file: Path = _FILE,
    cluster_id: str = typer.Option(..., help="The same for all nodes of a cluster."),
    release: str | None = RELEASE,
    feature: list[str] = WANTED,
    ignore_formatted: bool = typer.Option(False, help="Leave formatted directories as they are."),
    standalone: bool = typer.Option(
        False, "--standalone", help="This controller is the whole quorum at first (KIP-853)."
    ),
    initial_controllers: str = typer.Option(
        "", metavar="ID@HOST:PORT:DIRECTORY,...", help="The first voters (KIP-853)."
    ),
    add_scram: list[str] = typer.Option(
        [],
        "--add-scram",
        metavar="SCRAM-SHA-256=[name=...,password=...]",
        help="A credential that the cluster begins with (KIP-900): the same for all controllers.",
    ),
    no_initial_controllers: bool = typer.Option(
        False, "--no-initial-controllers", help="This node waits to be added to a quorum."
    ),
    replace_lost: bool = typer.Option(
        False,
        "--replace-lost",
        help="Let a voter whose directory was lost begin with an empty one.",
    ),
    as_json: AsJson = False,
) -> None:
    """Write meta.properties and bootstrap.checkpoint into the node's directories."""
    config = load_node_file(file)
    disk = HostDisk()
    levels = first_levels(release, feature)
    first = FirstVoters(config, standalone, initial_controllers, no_initial_controllers)
    first.check_level(levels)
    first.check_alone(cluster_id)
    try:
        for directory in directories_of(config):
            if not ignore_formatted and read_meta_properties(disk, directory) is not None:
                raise Failure(f"{directory} is formatted already; --ignore-formatted accepts that")
        if not replace_lost and read_meta_properties(disk, config.metadata_log_dir) is None:
            _check_never_ran(config, cluster_id, first)
        wall_ms = time.time_ns() // 1_000_000
        done = format_node(
            disk,
            config,
            cluster_id,
            os.urandom,
            wall_ms,
            features=levels,
            records=[parse_credential(credential, os.urandom) for credential in add_scram],
            prepare=partial(first.prepare, disk, wall_ms),
        )
    except OSError as error:
        raise Failure(sentence_of(error)) from error
    except ValueError as error:
        raise Failure(str(error)) from error
    formatted = {"node_id": config.node_id, "cluster_id": cluster_id, "directories": done}
    answer(as_json, formatted, *(f"formatted {directory}" for directory in done))
    if replace_lost and first.other_voters() and config.metadata_log_dir in done:
        say(
            f"node {config.node_id} votes, and has forgotten its votes and its log if it has run before."
            " Start it only while a majority of the other voters runs and has a leader"
            " (barnabas quorum describe --status)",
            err=True,
        )


def _check_never_ran(config: NodeConfig, cluster_id: str, first: FirstVoters) -> None:
    """Refuse a voter whose directory was lost, where the other voters know it. Raises `Failure`."""
    others = list(first.other_voters().values())
    former = find_former_life(config, cluster_id, others)
    if former is None:
        return
    raise Failure(
        f"{config.metadata_log_dir} is empty, though node {config.node_id} has run as a voter of"
        f" cluster {cluster_id}: the voter at {former.said_by} knows it at {former.at}. A voter that forgets"
        " its votes and its log can undo what was decided. Bring the directory back; or, where it is lost for"
        f" good and most of the other {len(others)} voters have theirs, say --replace-lost: it copies"
        " everything from them"
    )


@app.command()
def info(
    file: Path = _FILE,
    as_json: AsJson = False,
) -> None:
    """Show what the node's directories belong to; exit status 1 where one cannot be used."""
    config = load_node_file(file)
    disk = HostDisk()
    found: dict[str, MetaProperties | None] = {}
    problems: list[str] = []
    for directory in directories_of(config):
        try:
            found[directory] = read_meta_properties(disk, directory)
        except (DirectoryError, OSError) as error:
            problems.append(str(error))
            continue
        if found[directory] is None:
            problems.append(f"{directory} is not formatted")
    if as_json:
        say(json.dumps({"directories": _describe(found), "problems": problems}))
    else:
        for directory, meta in found.items():
            if meta is not None:
                directory_id = uuid_text(meta.directory_id)
                say(
                    f"{directory}: node {meta.node_id} of cluster {meta.cluster_id}, "
                    f"directory.id {directory_id}"
                )
        for problem in problems:
            say(problem)
    raise typer.Exit(1 if problems else 0)


def _describe(found: dict[str, MetaProperties | None]) -> dict[str, object]:
    return {
        directory: meta
        and {
            "cluster.id": meta.cluster_id,
            "node.id": meta.node_id,
            "directory.id": uuid_text(meta.directory_id),
        }
        for directory, meta in found.items()
    }


def load_node_file(file: Path) -> NodeConfig:
    """A node's properties, checked; keys that no node reads are named on standard error. Raises `Failure`."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
        config = node_config(text)
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}") from error
    except ConfigError as error:
        raise Failure(f"{file}: {error}") from error
    except ValueError as error:
        raise Failure(f"{file} is no properties file: {error}") from error
    for sentence in sentences_on_unknown(config):
        say(sentence, err=True)
    return config
