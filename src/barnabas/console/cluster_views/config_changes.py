"""The configuration of one resource, and the change of one key with the difference that the cluster
would make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from barnabas.cli.commands.configs import APPEND, DEFAULT, DELETE, SET, SUBTRACT, changes_of
from barnabas.client.client import raise_for
from barnabas.client.operations import ConfigEdit, DescribedKey, change_configs, describe_keys
from barnabas.console.cluster_views.parts import EXPECTED, explained
from barnabas.host.client import Connected
from barnabas.metadata.image.image import BROKER, CLIENT_METRICS, GROUP, TOPIC
from barnabas.metadata.views.metadata_tree import SECRET, is_secret
from barnabas.types import is_int32
from barnabas.wire.messages.list_config_resources_request import ListConfigResourcesRequest

ALL_BROKERS = "brokers"
KINDS = {
    "topic": TOPIC,
    "broker": BROKER,
    ALL_BROKERS: BROKER,
    "group": GROUP,
    "client-metrics": CLIENT_METRICS,
}
"""The kinds of resources in addresses, and their numbers in the protocol."""
OWN_SOURCES = {"topic": 1, "broker": 2, ALL_BROKERS: 3, "client-metrics": 7, "group": 8}
"""Kafka's number of the source of what is set on a resource of this kind itself."""
TYPED = "(secret, typed below)"
WAYS = {"set": SET, "delete": DELETE, "append": APPEND, "subtract": SUBTRACT}


class ResourceName(NamedTuple):
    """The resource of a page; `name` is empty for all brokers."""

    kind: str
    name: str

    @property
    def number(self) -> int:
        return KINDS[self.kind]

    @property
    def options(self) -> list[str]:
        """The options of ``barnabas configs`` that name it."""
        return ["--broker-defaults"] if self.kind == ALL_BROKERS else [f"--{self.kind}", self.name]

    def __str__(self) -> str:
        return "all brokers" if self.kind == ALL_BROKERS else f"{self.kind} {self.name}"


@dataclass(frozen=True)
class KeyChange:
    """One key's change before it is made. `before` and `after` are what is set, as ``key=value``, or None;
    `refusal` says why the cluster would refuse it; `is_secret`: its value is typed with the button that makes
    it."""

    edit: ConfigEdit
    before: str | None
    after: str | None
    refusal: str
    is_secret: bool
    command: list[str]


def resource_named(kind: str, name: str) -> ResourceName:
    """Raises ``ValueError``."""
    if kind not in KINDS:
        raise ValueError(f"configurations are those of {', '.join(KINDS)}, not {kind!r}")
    if kind == ALL_BROKERS:
        return ResourceName(kind, "")
    if not name:
        raise ValueError("the address of this page needs name=")
    if kind == "broker" and not is_int32(name):
        raise ValueError(f"a broker is named by its id, not by {name!r}")
    return ResourceName(kind, name)


def names_of(connected: Connected, kind: str) -> list[str]:
    """The resources of a kind that the cluster has."""
    if kind == "topic":
        return sorted(view.name for view in connected.topics())
    if kind == "broker":
        return [str(broker.node_id) for broker in connected.describe_cluster().brokers]
    if kind == "group":
        groups = connected.call(connected.admin.list_groups())
        return [group.group_id for group in groups]
    asked = connected.client.ask_any(
        lambda: ListConfigResourcesRequest(resource_types=[CLIENT_METRICS]),
        lambda response: raise_for(response.error_code),
    )
    return sorted(found.resource_name for found in connected.call(asked).config_resources)


def keys_of(connected: Connected, resource: ResourceName) -> list[DescribedKey]:
    """All keys by name. Raises ``KafkaError``, ``ChannelError``."""
    if resource.number == BROKER:  # the broker itself answers, so its address has to be known
        connected.call(connected.client.cluster.refresh())
    elif resource.kind == "topic":  # a topic that does not exist fails at once
        connected.topic(resource.name)
    asked = describe_keys(connected.client, resource.number, resource.name)
    return sorted(connected.call(asked), key=lambda key: key.name)


def hides(resource: ResourceName, key: str, known: DescribedKey | None) -> bool:
    """Whether the value of a key is never shown."""
    return is_secret(resource.number, key) or (known is not None and known.sensitive)


def edit_of(resource: ResourceName, key: str, way: str, value: str) -> ConfigEdit:
    """The change that an address or a form asks for, read as ``barnabas configs alter`` reads it. Raises
    ``ValueError``, ``Failure``."""
    if way not in WAYS:
        raise ValueError(f"a key is changed by {', '.join(WAYS)}, not {way!r}")
    if "=" in key:
        raise ValueError(f"no key has an equals sign, as {key!r} has")
    if way == "delete":
        return changes_of([], [key], [], [])[0]
    item = [f"{key}={value}"]
    lists: dict[str, list[str]] = {"set": [], "append": [], "subtract": []}
    lists[way] = item
    return changes_of(lists["set"], [], lists["append"], lists["subtract"])[0]


def plan_change(
    connected: Connected, resource: ResourceName, known: DescribedKey | None, edit: ConfigEdit
) -> KeyChange:
    """Plan a change and ask the cluster whether it would accept it; nothing changes."""
    secret = hides(resource, edit.name, known)
    before = None if known is None or known.value is None else f"{edit.name}={known.value}"
    if secret:
        before = f"{edit.name}={SECRET}" if known is not None and known.source != DEFAULT else None
        after = None if edit.operation == DELETE else f"{edit.name}={TYPED}"
        refusal = ""
    else:
        after = setting_after(resource, known, edit)
        refusal = _refusal(connected, resource, edit)
    way = next(name for name, number in WAYS.items() if number == edit.operation)
    value = SECRET if secret else edit.value
    asked = edit.name if edit.operation == DELETE else f"{edit.name}={value}"
    command = ["configs", "alter", *resource.options, f"--{way}", asked]
    return KeyChange(edit, before, after, refusal, secret and after is not None, command)


def make_change(connected: Connected, resource: ResourceName, edit: ConfigEdit) -> None:
    """Raises ``KafkaError``, ``ChannelError``."""
    connected.call(
        change_configs(
            connected.client, resource.number, resource.name, [edit], validate_only=False
        )
    )


def setting_after(
    resource: ResourceName, known: DescribedKey | None, edit: ConfigEdit
) -> str | None:
    """The setting after the change, as far as a page knows it: a list's new items, or the value of
    another key or place."""
    present = "" if known is None or known.value is None else known.value
    items = [item for item in present.split(",") if item]
    asked = [item.strip() for item in (edit.value or "").split(",")]
    if edit.operation == DELETE:
        return _without_own(resource, known)
    if edit.operation == APPEND:
        value = ",".join(dict.fromkeys([*items, *asked]))
    elif edit.operation == SUBTRACT:
        value = ",".join(item for item in items if item not in asked)
    else:
        value = edit.value or ""
    return f"{edit.name}={value}"


def _without_own(resource: ResourceName, known: DescribedKey | None) -> str | None:
    """The setting when the resource itself has none. A key in another unit may set it, as
    ``log.retention.hours`` sets ``retention.ms``."""
    if known is None:
        return None
    if known.source != OWN_SOURCES[resource.kind]:
        return f"{known.name}={known.value}"
    others = [found for found in known.synonyms if found.source != known.source]
    return f"{others[0].name}={others[0].value}" if others else None


def _refusal(connected: Connected, resource: ResourceName, edit: ConfigEdit) -> str:
    asked: Any = change_configs(
        connected.client, resource.number, resource.name, [edit], validate_only=True
    )
    try:
        connected.call(asked)
    except EXPECTED as error:
        return explained(error)
    return ""
