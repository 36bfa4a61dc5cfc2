"""Kafka's text of a UUID: url-safe base64 of its sixteen bytes, without padding."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

from barnabas.types import Uuid
from barnabas.zookeeper.layout.json_bytes import MalformedZnode


def uuid_to_text(value: Uuid) -> str:
    return urlsafe_b64encode(value).decode().rstrip("=")


def uuid_from_text(path: str, text: str) -> Uuid:
    """Parse a UUID in the znode `path`. Raises `MalformedZnode`."""
    try:
        value = urlsafe_b64decode(text + "==")
    except ValueError:
        value = b""
    if len(value) != 16:
        raise MalformedZnode(path, f"{text!r} is no topic id")
    return Uuid(value)
