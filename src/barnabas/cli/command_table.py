"""The commands of the command line, and the options that all of them have."""

from __future__ import annotations

from barnabas.cli.connection.variables import COMMAND_CONFIG, PROFILE

CONFIG = "--config"
ANYWHERE = {"--command-config": COMMAND_CONFIG, CONFIG: COMMAND_CONFIG, "--profile": PROFILE}
"""Options that hold for every command that asks a cluster, and may be anywhere in the line → the variable
that takes their value."""
COMMANDS: dict[str, str] = {
    "up": "barnabas.cli.commands.up",
    "node": "barnabas.cli.commands.node",
    "storage": "barnabas.cli.commands.storage",
    "topics": "barnabas.cli.commands.topics",
    "configs": "barnabas.cli.commands.configs",
    "produce": "barnabas.cli.commands.produce",
    "consume": "barnabas.cli.commands.consume",
    "tail": "barnabas.cli.commands.tail",
    "perf": "barnabas.cli.commands.perf",
    "groups": "barnabas.cli.commands.groups",
    "transactions": "barnabas.cli.commands.transactions",
    "acls": "barnabas.cli.commands.acls",
    "users": "barnabas.cli.commands.users",
    "tokens": "barnabas.cli.commands.tokens",
    "quotas": "barnabas.cli.commands.quotas",
    "certificates": "barnabas.cli.commands.certificates",
    "leaders": "barnabas.cli.commands.leaders",
    "reassign": "barnabas.cli.commands.reassign",
    "cluster": "barnabas.cli.commands.cluster",
    "features": "barnabas.cli.commands.features",
    "quorum": "barnabas.cli.commands.quorum",
    "metadata": "barnabas.cli.commands.metadata",
    "migrate": "barnabas.cli.commands.migrate",
    "zookeeper": "barnabas.cli.commands.zookeeper",
    "log": "barnabas.cli.commands.log",
    "doctor": "barnabas.cli.commands.doctor",
    "debug": "barnabas.cli.commands.debug",
    "dashboards": "barnabas.cli.commands.dashboards",
    "console": "barnabas.cli.commands.console",
    "profiles": "barnabas.cli.commands.profiles",
    "completion": "barnabas.cli.commands.completion",
    "pipeline": "barnabas.cli.commands.pipeline",
}
"""Name to module, in the order of the help."""
