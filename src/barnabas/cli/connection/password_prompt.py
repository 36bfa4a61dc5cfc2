"""Asks for the password that a client's properties lack: a file may name the user alone.

    sasl.jaas.config=...ScramLoginModule required username="alice";

The terminal shows nothing of the answer, and it stays in this process. Without a terminal nothing is asked,
and the missing password is an error that names the key.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import typer

from barnabas.config.definition import ConfigError
from barnabas.security.jaas import OAUTHBEARER, check_mechanism, parse_login_module

JAAS, USER, PASSWORD = "sasl.jaas.config", "sasl.username", "sasl.password"


def with_password(properties: Mapping[str, str]) -> dict[str, str]:
    """`properties`, with the password that a person types where theirs is missing."""
    found = dict(properties)
    user = _user_without_password(found)
    if user and sys.stdin.isatty():
        password = typer.prompt(f"Password of {user}", hide_input=True, err=True)
        if JAAS in found:
            quoted = password.replace("\\", "\\\\").replace('"', '\\"')
            found[JAAS] = f'{found[JAAS].rstrip().rstrip(";")} password="{quoted}";'
        else:
            found[PASSWORD] = password
    return found


def _user_without_password(properties: Mapping[str, str]) -> str:
    """Empty where there is no user, or nothing is missing."""
    if not properties.get("security.protocol", "").strip().upper().startswith("SASL_"):
        return ""
    if JAAS not in properties:
        return "" if properties.get(PASSWORD) else properties.get(USER, "")
    try:
        mechanism = check_mechanism("sasl.mechanism", properties.get("sasl.mechanism", "").strip())
        if mechanism == OAUTHBEARER:
            return ""
        module = parse_login_module(JAAS, properties[JAAS], mechanism)
    except ConfigError:
        return ""  # `connect` says what is wrong
    return "" if "password" in module.options else module.username
