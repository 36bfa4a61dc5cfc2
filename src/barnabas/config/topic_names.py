"""Which names a topic may have. Source: Kafka's ``Topic.validate``."""

from __future__ import annotations

import re

NAME_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def check_topic_name(name: str) -> str | None:
    """Why a topic's name is invalid, as a sentence; None if it is valid."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > NAME_MAX:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length"
            f" {NAME_MAX}"
        )
    if not _LEGAL.match(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII"
            " alphanumerics, '.', '_' and '-'"
        )
    return None
