"""``barnabas configs``: what holds for a topic, broker, group or client metrics subscription, where it comes
from, and changing it, as ``kafka-configs`` does.

Describing shows what is set; `--all` the defaults as well. A change is judged as a whole by the cluster;
`--dry-run` asks for the judgement only. Source: KIP-226, KIP-248, KIP-339.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import typer

from barnabas.cli.confirming import DryRun
from barnabas.cli.connection.connect import USAGE, AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.client.operations import (
    ConfigEdit,
    DescribedKey,
    change_configs,
    describe_keys,
    is_of_one_broker,
)
from barnabas.config.broker import broker_key, nearest_key
from barnabas.config.definition import ConfigType
from barnabas.host.client import Connected
from barnabas.metadata.image.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from barnabas.metadata.views.metadata_tree import SECRET, is_secret
from barnabas.wire.errors import ErrorCode, KafkaError

SET, DELETE, APPEND, SUBTRACT = range(4)
SEEN_MS_MAX = 1_000
"""How long a broker may take to learn of a committed change before its view is shown all the same."""
SEEN_CHECK_MS = 20
DEFAULT = 5
SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    DEFAULT: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""Kafka's names of where a value comes from."""
ENTITY_TYPES = {
    "topics": TOPIC,
    "brokers": BROKER,
    "groups": GROUP,
    "client-metrics": CLIENT_METRICS,
    "broker-loggers": BROKER_LOGGER,
}

_NOUNS = {
    TOPIC: "topic",
    BROKER: "broker",
    GROUP: "group",
    CLIENT_METRICS: "client metrics",
    BROKER_LOGGER: "loggers of broker",
}

app = typer.Typer(help="Describe and alter configurations.", no_args_is_help=True)

_TOPIC = typer.Option(None, "--topic", "-t", metavar="NAME")
_BROKER = typer.Option(None, "--broker", metavar="ID")
_DEFAULTS = typer.Option(False, "--broker-defaults", help="What holds for all brokers.")
_GROUP = typer.Option(None, "--group", "-g", metavar="ID")
_METRICS = typer.Option(None, "--client-metrics", metavar="NAME")
_LOGGER = typer.Option(None, "--broker-logger", metavar="ID", help="Levels of a broker's log.")
_TYPE = typer.Option(None, "--entity-type", hidden=True)
_NAME = typer.Option(None, "--entity-name", hidden=True)
_ENTITY_DEFAULT = typer.Option(False, "--entity-default", hidden=True)


class Resource(NamedTuple):
    """The resource that is described or altered; `name` is empty for all brokers."""

    kind: int
    name: str

    def __str__(self) -> str:
        return f"{_NOUNS[self.kind]} {self.name}" if self.name else "all brokers"


@app.command()
def describe(
    topic: str | None = _TOPIC,
    broker: int | None = _BROKER,
    broker_defaults: bool = _DEFAULTS,
    group: str | None = _GROUP,
    client_metrics: str | None = _METRICS,
    broker_logger: int | None = _LOGGER,
    key: list[str] = typer.Option([], "--key", "-k", help="Only these; may be repeated."),
    every: bool = typer.Option(False, "--all", "-a", help="With the defaults."),
    docs: bool = typer.Option(False, "--docs", help="With a sentence on each key."),
    entity_type: str | None = _TYPE,
    entity_name: str | None = _NAME,
    entity_default: bool = _ENTITY_DEFAULT,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Keys with their values, where each value comes from, and what it overrides."""
    resource = resource_of(
        topic, broker, broker_defaults, group, client_metrics, broker_logger,
        entity_type, entity_name, entity_default,
    )  # fmt: skip
    with cluster(bootstrap, data) as connected:
        keys = _described(connected, resource)
    if key:
        known = {found.name for found in keys}
        for name in key:
            if name not in known:
                raise Failure(f"{resource} has no key {name}{_hint(name, known)}")
    chosen = [
        found
        for found in sorted(keys, key=lambda found: found.name)
        if (found.name in key if key else every or found.source != DEFAULT)
    ]
    columns = ["key", "value", "source", "read only", "overrides"] + ["documentation"] * docs
    table = table_of(f"{resource}: {len(chosen)} of {len(keys)} keys", *columns)
    for found in chosen:
        table.add_row(*_cells(found), *[found.documentation] * docs)
    show(as_json, [as_dict(found) for found in chosen], table)


@app.command()
def alter(
    topic: str | None = _TOPIC,
    broker: int | None = _BROKER,
    broker_defaults: bool = _DEFAULTS,
    group: str | None = _GROUP,
    client_metrics: str | None = _METRICS,
    broker_logger: int | None = _LOGGER,
    put: list[str] = typer.Option(
        [], "--set", "-s", "--add-config", metavar="KEY=VALUE", help="May be repeated."
    ),
    delete: list[str] = typer.Option(
        [], "--delete", "--delete-config", metavar="KEY", help="Back to what holds otherwise."
    ),
    append: list[str] = typer.Option([], "--append", metavar="KEY=ITEM", help="To a list."),
    subtract: list[str] = typer.Option([], "--subtract", metavar="KEY=ITEM", help="From a list."),
    dry_run: bool = DryRun,
    entity_type: str | None = _TYPE,
    entity_name: str | None = _NAME,
    entity_default: bool = _ENTITY_DEFAULT,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Change keys of one resource: all that is asked, or nothing."""
    resource = resource_of(
        topic, broker, broker_defaults, group, client_metrics, broker_logger,
        entity_type, entity_name, entity_default,
    )  # fmt: skip
    changes = changes_of(put, delete, append, subtract)
    with cluster(bootstrap, data) as connected:
        before = _values(connected, resource)
        _warn_of_unknown(resource, changes, before)
        change = change_configs(connected.client, *resource, changes, validate_only=dry_run)
        connected.call(change)
        after = before if dry_run else _values_with(connected, resource, changes, before)
    verb = "would be changed" if dry_run else "changed"
    table = table_of(f"{resource}: {verb}", "key", "before", "asked", "after")
    rows = []
    for key, operation, value in changes:
        shown = SECRET if value and is_secret(resource.kind, key) else value or ""
        asked = ("=", "deleted", "+", "-")[operation] + shown
        now = None if dry_run else after.get(key)
        rows.append({"key": key, "before": before.get(key), "after": now})
        table.add_row(key, before.get(key) or "-", asked, now or "-")
    show(as_json, {"resource": str(resource), "dry_run": dry_run, "changes": rows}, table)


def resource_of(
    topic: str | None,
    broker: int | None,
    broker_defaults: bool,
    group: str | None,
    client_metrics: str | None,
    broker_logger: int | None,
    entity_type: str | None,
    entity_name: str | None,
    entity_default: bool,
) -> Resource:
    """The one that the options name. Raises `Failure`."""
    named = [
        Resource(kind, str(name))
        for kind, name in (
            (TOPIC, topic),
            (BROKER, broker),
            (GROUP, group),
            (CLIENT_METRICS, client_metrics),
            (BROKER_LOGGER, broker_logger),
        )
        if name is not None
    ]
    if broker_defaults:
        named.append(Resource(BROKER, ""))
    if entity_type is not None:
        if entity_type not in ENTITY_TYPES:
            raise Failure(f"--entity-type is one of {', '.join(ENTITY_TYPES)}", USAGE)
        if entity_name is None and not entity_default:
            raise Failure("say --entity-name or --entity-default", USAGE)
        named.append(Resource(ENTITY_TYPES[entity_type], entity_name or ""))
    if len(named) != 1:
        raise Failure(
            "say whose configuration: one of --topic, --broker, --broker-defaults, --group,"
            " --client-metrics and --broker-logger",
            USAGE,
        )
    return named[0]


def changes_of(
    put: list[str], delete: list[str], append: list[str], subtract: list[str]
) -> list[ConfigEdit]:
    """Raises `Failure`, also where nothing is asked."""
    changes = []
    for operation, items in ((SET, put), (APPEND, append), (SUBTRACT, subtract)):
        for item in items:
            key, equals, value = item.partition("=")
            if not equals or not key.strip():
                raise Failure(f"a change is KEY=VALUE, not {item!r}", USAGE)
            changes.append(ConfigEdit(key.strip(), operation, value.strip().strip("[]")))
    changes += [ConfigEdit(key, DELETE, None) for key in delete]
    if not changes:
        raise Failure("say what to change: --set, --delete, --append or --subtract", USAGE)
    return changes


def as_dict(found: DescribedKey) -> dict[str, Any]:
    """The entry for programs."""
    return {
        **found._asdict(),
        "source": SOURCES.get(found.source, str(found.source)),
        "type": ConfigType(found.type).name,
        "synonyms": [
            {**s._asdict(), "source": SOURCES.get(s.source, str(s.source))} for s in found.synonyms
        ],
    }


def _cells(found: DescribedKey) -> list[str]:
    value = "(hidden)" if found.sensitive and found.value is None else found.value
    over = ", ".join(
        f"{SOURCES.get(s.source, s.source)}:{s.name}={'(hidden)' if found.sensitive else s.value}"
        for s in found.synonyms[1:]
    )
    source = SOURCES.get(found.source, str(found.source))
    return [
        found.name, "-" if value is None else value, source, "yes" if found.read_only else "", over,
    ]  # fmt: skip


def _described(connected: Connected, resource: Resource) -> list[DescribedKey]:
    """Raises `KafkaError`, and `Failure` for a broker that is not there."""
    if is_of_one_broker(*resource):
        brokers = sorted(connected.client.cluster.brokers)
        if int(resource.name) not in brokers:
            alive = ", ".join(map(str, brokers))
            raise Failure(
                f"broker {resource.name} tells its own configuration and is not there:"
                f" the brokers are {alive}"
            )
    return connected.call(describe_keys(connected.client, *resource))


def _values(connected: Connected, resource: Resource) -> dict[str, str | None]:
    """The values that hold; empty for a broker that is not there, whose configuration may be changed all
    the same."""
    try:
        return {found.name: found.value for found in _described(connected, resource)}
    except Failure:
        return {}
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return {}


def _values_with(
    connected: Connected,
    resource: Resource,
    changes: list[ConfigEdit],
    before: dict[str, str | None],
) -> dict[str, str | None]:
    """The values with `changes`, which are committed: the broker that is asked may hear of that a moment
    later than the one that answered the change."""
    found: dict[str, str | None] = {}

    def is_seen() -> bool:
        found.clear()
        found.update(_values(connected, resource))
        return all(_is_seen(change, before, found) for change in changes)

    left_ms = SEEN_MS_MAX
    while not is_seen() and left_ms > 0:
        connected.run_for(SEEN_CHECK_MS)
        left_ms -= SEEN_CHECK_MS
    return found


def _is_seen(change: ConfigEdit, before: dict[str, str | None], now: dict[str, str | None]) -> bool:
    """Whether `now` may be what holds after `change`. The value of a secret is hidden: it shows nothing."""
    old, value = before.get(change.name), now.get(change.name)
    if value != old or value is None:
        return True
    if change.operation == SET:
        return value == change.value
    if change.operation == DELETE:
        return False
    items = {item.strip() for item in value.split(",")}
    wanted = {item.strip() for item in (change.value or "").split(",")}
    return wanted <= items if change.operation == APPEND else not wanted & items


def _warn_of_unknown(
    resource: Resource, changes: list[ConfigEdit], before: Mapping[str, str | None]
) -> None:
    """A broker keeps keys that it does not know, as Kafka's does. Of the others the cluster refuses them.
    A key to delete may be of another release, and of none that the cluster tells."""
    for change in changes:
        if resource.kind == BROKER and broker_key(change.name) is None:
            near = nearest_key(change.name)
            meant = f"; did you mean {near}?" if near else ""
            say(f"warning: no broker reads the key {change.name}{meant}", err=True)
        elif change.operation == DELETE and before and change.name not in before:
            meant = _hint(change.name, set(before))
            say(f"warning: {resource} has no key {change.name}{meant}", err=True)


def _hint(name: str, known: set[str]) -> str:
    from barnabas.config.nearest import hint

    return hint(name, known)
