"""Users, access control entries, quotas and certificates; a change is shown before a button makes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from barnabas.client.acls import add_acls, list_acls, remove_acls
from barnabas.client.quotas import QuotaFilter, alter_quotas, describe_quotas
from barnabas.client.scram_users import (
    CODE_OF,
    ITERATIONS,
    list_users,
    remove_user,
    set_password,
)
from barnabas.console.cluster_views.access import (
    PATTERNS,
    PERMISSIONS,
    RESOURCES,
    AclRow,
    acl_rows,
    certificate_rows,
    entity_in,
    entity_options,
    entry_named,
    operations_of,
    query_of,
    quota_keys,
    quota_rows,
    row_of,
)
from barnabas.console.pages.page import Page, PageRequest
from barnabas.console.rendering import link
from barnabas.security.certificate_watch import WARNING_DAYS
from barnabas.security.scram import new_salt

ROWS = 500
Values = Mapping[str, Any]


# -- users ----------------------------------------------------------------------------------------


def load_users(asked: PageRequest) -> Values:
    text = asked.text("q")
    found = asked.connected.call(list_users(asked.connected.client))
    users = [user for user in found if text.lower() in user.name.lower()]
    return {"users": users[:ROWS], "found": len(users), "q": text, "mechanisms": sorted(CODE_OF)}


def load_user(asked: PageRequest) -> Values:
    name, mechanism, way = _user(asked)
    there = _has(asked, name, mechanism)
    verb = "remove" if way == "remove" else "add"
    refusal = f"{name} has no credential of {mechanism}" if way == "remove" and not there else ""
    return {
        "name": name, "mechanism": mechanism, "way": way, "is_there": there, "refusal": refusal,
        "command_words": ["users", verb, name, "--mechanism", mechanism],
    }  # fmt: skip


def change_user(asked: PageRequest) -> str:
    """Set or remove a credential; the password is the form's, and is salted here."""
    name, mechanism, way = _user(asked)
    connected = asked.connected
    if way == "remove":
        connected.call(remove_user(connected.client, name, [mechanism]))
        return link("/users", done=f"{name}'s {mechanism} was removed.")
    password = asked.form.get("password", "")
    if not password or password != asked.form.get("again", ""):
        raise ValueError("the password is empty, or the two differ")
    salt = new_salt(os.urandom)
    connected.call(set_password(connected.client, name, mechanism, password, salt, ITERATIONS))
    return link("/users", done=f"{name} has a new password of {mechanism}.")


def _has(asked: PageRequest, name: str, mechanism: str) -> bool:
    found = asked.connected.call(list_users(asked.connected.client))
    return any((user.name, user.mechanism) == (name, mechanism) for user in found)


def _user(asked: PageRequest) -> tuple[str, str, str]:
    mechanism, way = asked.text("mechanism"), asked.text("way", "set")
    if mechanism not in CODE_OF:
        raise ValueError(f"a mechanism is one of {', '.join(sorted(CODE_OF))}, not {mechanism!r}")
    if way not in ("set", "remove"):
        raise ValueError(f"a user's password is set or removed, not {way!r}")
    return asked.needed("name"), mechanism, way


# -- access control entries -----------------------------------------------------------------------


def load_acls(asked: PageRequest) -> Values:
    text, resource = asked.text("q"), asked.text("resource", "topic")
    rows = acl_rows(asked.connected, text)
    return {
        "rows": rows[:ROWS], "found": len(rows), "q": text, "resource": resource,
        "resources": list(RESOURCES), "patterns": list(PATTERNS), "permissions": list(PERMISSIONS),
        "operations": operations_of(resource),
    }  # fmt: skip


def load_acl(asked: PageRequest) -> Values:
    way, entry = _acl(asked)
    row = row_of(entry)
    found = asked.connected.call(list_acls(asked.connected.client, query_of(entry)))
    refusal = ""
    if bool(found) == (way == "add"):
        refusal = "this entry is there already" if found else "there is no such entry"
    command = ["acls", way, *row.command] if row.command else []
    return {"row": row, "way": way, "refusal": refusal, "command_words": command}


def change_acl(asked: PageRequest) -> str:
    way, entry = _acl(asked)
    connected = asked.connected
    if way == "add":
        connected.call(add_acls(connected.client, [entry]))
        return link("/acls", done=f"An entry of {entry.principal} was added.")
    removed = connected.call(remove_acls(connected.client, [query_of(entry)]))
    if not removed:
        raise ValueError("there is no such entry any more")
    return link("/acls", done=f"An entry of {entry.principal} was removed.")


def _acl(asked: PageRequest) -> tuple[str, Any]:
    way = asked.text("way", "add")
    if way not in ("add", "remove"):
        raise ValueError(f"an entry is added or removed, not {way!r}")
    fields = {name: asked.query.get(name, "") for name in AclRow._fields}
    if way == "add":
        fields = {name: text.strip() for name, text in fields.items()}
    return way, entry_named(AclRow(**fields))


# -- quotas ---------------------------------------------------------------------------------------


def load_quotas(asked: PageRequest) -> Values:
    text = asked.text("q").lower()
    rows = [
        row
        for row in quota_rows(asked.connected)
        if any(text in (name or "").lower() for _, name in row["entity"])
    ]
    return {
        "rows": rows[:ROWS], "found": len(rows), "q": asked.text("q"),
        "keys": sorted({*quota_keys((("user", None),)), *quota_keys((("ip", None),))}),
    }  # fmt: skip


def load_quota(asked: PageRequest) -> Values:
    entity, key, value = _quota(asked)
    connected = asked.connected
    found = connected.call(
        describe_quotas(connected.client, QuotaFilter(dict(entity), strict=True))
    )
    before = found.get(entity, {}).get(key)
    asked_for = ["--delete", key] if value is None else ["--set", f"{key}={value:.15g}"]
    return {
        "entity": entity, "key": key, "before": None if before is None else f"{key}={before:.15g}",
        "after": None if value is None else f"{key}={value:.15g}",
        "command_words": ["quotas", "alter", *entity_options(entity), *asked_for],
    }  # fmt: skip


def change_quota(asked: PageRequest) -> str:
    entity, key, value = _quota(asked)
    asked.connected.call(alter_quotas(asked.connected.client, entity, {key: value}))
    return link("/quotas", done=f"{key} was {'removed' if value is None else 'set'}.")


def _quota(asked: PageRequest) -> tuple[Any, str, float | None]:
    """Whose quota, which, and its limit; None removes it."""
    entity, key, text = entity_in(asked.query), asked.needed("key"), asked.text("limit")
    if key not in quota_keys(entity):
        known = ", ".join(quota_keys(entity))
        raise ValueError(f"a quota of this entity is one of {known}, not {key!r}")
    if not text:
        return entity, key, None
    try:
        return entity, key, float(text)
    except ValueError:
        raise ValueError(f"a limit is a number, not {text!r}") from None


# -- certificates ---------------------------------------------------------------------------------


def load_certificates(asked: PageRequest) -> Values:
    is_tls = asked.settings.protocol.endswith("SSL")
    rows = certificate_rows(asked.connected, is_tls=is_tls)
    return {"rows": rows, "warning_days": WARNING_DAYS}


PAGES = (
    Page("/users", "users.html", "security", load_users),
    Page("/user", "user.html", "security", load_user, change=change_user),
    Page("/acls", "acls.html", "security", load_acls),
    Page("/acl", "acl.html", "security", load_acl, change=change_acl),
    Page("/quotas", "quotas.html", "security", load_quotas),
    Page("/quota", "quota.html", "security", load_quota, change=change_quota),
    Page("/certificates", "certificates.html", "security", load_certificates),
)
