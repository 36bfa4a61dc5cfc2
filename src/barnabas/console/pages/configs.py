"""Configurations: the resources, the keys of one resource, and one key. A key is changed after its
difference was shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.cli.commands.configs import DEFAULT, SOURCES
from barnabas.client.operations import DescribedKey
from barnabas.config.definition import ConfigType
from barnabas.console.cluster_views.config_changes import (
    ALL_BROKERS,
    KINDS,
    WAYS,
    edit_of,
    hides,
    keys_of,
    make_change,
    names_of,
    plan_change,
    resource_named,
)
from barnabas.console.cluster_views.parts import part
from barnabas.console.pages.page import Page, PageRequest
from barnabas.console.rendering import link
from barnabas.metadata.views.metadata_tree import SECRET

ROWS = 200
Values = Mapping[str, Any]


def load(asked: PageRequest) -> Values:
    kind, name = asked.text("kind", "topic"), asked.query.get("name", "")
    text, first = asked.text("q"), asked.number("first", 0)
    every = asked.text("all") == "1"
    values = {"kinds": list(KINDS), "kind": kind, "q": text, "every": every, "first": first}
    if kind not in KINDS:
        raise ValueError(f"configurations are those of {', '.join(KINDS)}, not {kind!r}")
    if not name and kind != ALL_BROKERS:
        none: list[str] = []
        names = part(lambda: names_of(asked.connected, kind), none)
        found = [one for one in names.value if text.lower() in one.lower()]
        shown = found[first : first + ROWS]
        return {
            **values, "names": shown, "problem": names.problem, "found": len(found), "step": ROWS,
            "resource": None, "rows": [],
        }  # fmt: skip
    resource = resource_named(kind, name)
    keys = keys_of(asked.connected, resource)
    rows = [
        _row(key, is_hidden=hides(resource, key.name, key))
        for key in keys
        if text.lower() in key.name.lower() and (every or text or key.source != DEFAULT)
    ]
    return {
        **values, "names": [], "problem": "", "found": len(rows), "step": ROWS, "resource": resource,
        "rows": rows, "known": len(keys),
        "command_words": ["configs", "describe", *resource.options, *["--all"] * every],
    }  # fmt: skip


def load_one(asked: PageRequest) -> Values:
    resource = resource_named(asked.text("kind"), asked.query.get("name", ""))
    key = asked.needed("key").strip()
    known = {found.name: found for found in keys_of(asked.connected, resource)}.get(key)
    way = asked.text("way")
    is_hidden = hides(resource, key, known)
    plan = None
    if way:
        value = SECRET if is_hidden else asked.text("value")
        plan = plan_change(asked.connected, resource, known, edit_of(resource, key, way, value))
    return {
        "resource": resource, "key": key, "row": None if known is None else _row(known, is_hidden=is_hidden),
        "ways": list(WAYS), "way": way, "value": "" if is_hidden else asked.text("value"),
        "is_hidden": is_hidden, "plan": plan,
    }  # fmt: skip


def change(asked: PageRequest) -> str:
    """Change the key as this address says; a secret's value is the form's."""
    resource = resource_named(asked.text("kind"), asked.query.get("name", ""))
    key, way = asked.needed("key").strip(), asked.text("way")
    known = {found.name: found for found in keys_of(asked.connected, resource)}.get(key)
    is_hidden = hides(resource, key, known)
    value = asked.form.get("secret", "") if is_hidden else asked.text("value")
    if is_hidden and way != "delete" and not value:
        raise ValueError(f"type the value of {key}")
    make_change(asked.connected, resource, edit_of(resource, key, way, value))
    return link(
        "/config", kind=resource.kind, name=resource.name, key=key, done=f"{key} was changed."
    )


def _row(found: DescribedKey, *, is_hidden: bool) -> dict[str, Any]:
    """One key as a page shows it."""
    try:
        kind = ConfigType(found.type).name.lower()
    except ValueError:
        kind = ""
    return {
        "name": found.name,
        "value": SECRET if is_hidden and found.source != DEFAULT else found.value,
        "source": SOURCES.get(found.source, str(found.source)),
        "is_set": found.source != DEFAULT,
        "read_only": found.read_only,
        "type": kind,
        "documentation": found.documentation,
        "overrides": [
            (SOURCES.get(one.source, str(one.source)), one.name, SECRET if is_hidden else one.value)
            for one in found.synonyms
        ],
    }


PAGE = Page("/configs", "configs.html", "configs", load)
ONE = Page("/config", "config.html", "configs", load_one, live_ms=3_000, change=change)
