"""docs/command-map.md names commands that exist, and all of Kafka's tools that administer a cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from barnabas.cli.application import build
from barnabas.cli.command_table import COMMANDS
from tools.docs_cli import walk

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "command-map.md").read_text()
TOOLS = (
    "topics", "configs", "acls", "consumer-groups", "reassign-partitions", "leader-election",
    "log-dirs", "metadata-quorum", "features", "delegation-tokens", "transactions", "get-offsets",
    "delete-records", "dump-log", "replica-verification", "client-metrics", "cluster", "storage",
)  # fmt: skip


@pytest.mark.slow
def test_each_command_of_the_map_exists() -> None:
    root = typer.main.get_command(build(list(COMMANDS)))
    there = {name for name, command in walk("barnabas", root) if not hasattr(command, "commands")}
    named = set(re.findall(r"`(barnabas [a-z -]+)`", PAGE))
    assert named and named - there == set()


@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_of_kafka_is_in_the_map(tool: str) -> None:
    assert f"`kafka-{tool}" in PAGE
