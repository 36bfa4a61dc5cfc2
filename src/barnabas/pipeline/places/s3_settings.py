"""The address and keys of an S3 store for Python: by Spark's settings for S3A, or the environment.

Owns the names. In tasks Spark's ``spark.hadoop.fs.s3a.*`` are local properties and go first, as they do for
S3A; elsewhere, and for what they do not say, the variables ``AWS_*`` of AWS's tools hold. ``barnabas pipeline
run`` and ``doctor`` carry each over to the other side (`shared_out`). Without any of these, Arrow asks AWS's
usual chain: profiles, roles of the machine, the bucket's region.

Source: Hadoop's "S3A Connection Settings", AWS's "Environment variables".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs as pafs

SCHEMES = frozenset({"s3", "s3a", "s3n"})
PREFIX = "spark.hadoop.fs.s3a."
NAMES = {
    "endpoint": ("endpoint", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("endpoint.region", "AWS_REGION", "AWS_DEFAULT_REGION"),
    "access_key": ("access.key", "AWS_ACCESS_KEY_ID"),
    "secret_key": ("secret.key", "AWS_SECRET_ACCESS_KEY"),
    "session_token": ("session.token", "AWS_SESSION_TOKEN"),
}
"""Field → S3A's setting and variables of the environment, the first that is set."""
IS_ENCRYPTED = PREFIX + "connection.ssl.enabled"
"""S3A's setting for an endpoint without a scheme."""
FIRST_REGION = "us-east-1"
"""The region of a store at an endpoint of its own, which has one region under any name."""


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Empty texts where nothing is said. `endpoint` is a URL."""

    endpoint: str = ""
    region: str = ""
    access_key: str = ""
    secret_key: str = ""
    session_token: str = ""

    def __repr__(self) -> str:
        return f"S3Settings({self.endpoint or 'AWS'}, {self.region or 'any region'})"

    def for_delta(self) -> dict[str, str]:
        """deltalake's ``storage_options``."""
        found = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region or (FIRST_REGION if self.endpoint else ""),
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_SESSION_TOKEN": self.session_token,
            "AWS_ALLOW_HTTP": "true" if self.endpoint.startswith("http://") else "",
        }
        return {name: value for name, value in found.items() if value}

    def for_iceberg(self) -> dict[str, str]:
        """Properties of a pyiceberg catalog."""
        found = {
            "s3.endpoint": self.endpoint,
            "s3.region": self.region or (FIRST_REGION if self.endpoint else ""),
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.session-token": self.session_token,
        }
        return {name: value for name, value in found.items() if value}


def settings_from(spark: Callable[[str], str | None], environment: Mapping[str, str]) -> S3Settings:
    """`spark` gives a setting of Spark's by its whole name, None where it is not set."""
    found = {}
    for field, (setting, *variables) in NAMES.items():
        values = [spark(PREFIX + setting), *(environment.get(variable) for variable in variables)]
        found[field] = next((value for value in values if value), "")
    endpoint = found["endpoint"]
    if endpoint and "://" not in endpoint:
        is_encrypted = (spark(IS_ENCRYPTED) or "true").lower() != "false"
        found["endpoint"] = f"{'https' if is_encrypted else 'http'}://{endpoint}"
    return S3Settings(**found)


def _nothing(name: str) -> None:
    return None


def settings_here() -> S3Settings:
    """In a task by its local properties, in a driver by its session, elsewhere by the environment."""
    ask: Callable[[str], str | None] = _nothing
    if "pyspark" in sys.modules:
        from pyspark import TaskContext

        context = TaskContext.get()
        session = sys.modules.get("pyspark.sql.session")
        running = None if session is None else session.SparkSession.getActiveSession()
        if context is not None:
            ask = context.getLocalProperty
        elif running is not None:
            ask = lambda name: running.conf.get(name, "")  # noqa: E731
    return settings_from(ask, os.environ)


def open_s3(uri: str) -> tuple[pafs.FileSystem, str] | None:
    """The file system and the path in it, or None where AWS's usual chain has keys and region. Raises
    `OSError`."""
    place = urlsplit(uri)
    path = f"{place.netloc}{place.path}".rstrip("/")
    settings = settings_here()
    if settings.endpoint:
        return _at_endpoint(settings), path
    if settings.access_key:
        region = settings.region or pafs.resolve_s3_region(place.netloc)
        return _with_keys(replace(settings, region=region)), path
    return None


def _keys(settings: S3Settings) -> dict[str, Any]:
    if not settings.access_key:
        return {}
    return {
        "access_key": settings.access_key,
        "secret_key": settings.secret_key,
        "session_token": settings.session_token or None,
    }


@lru_cache(maxsize=8)
def _at_endpoint(settings: S3Settings) -> pafs.FileSystem:
    where = urlsplit(settings.endpoint)
    return pafs.S3FileSystem(
        region=settings.region or FIRST_REGION,
        scheme=where.scheme,
        endpoint_override=where.netloc,
        **_keys(settings),
    )


@lru_cache(maxsize=8)
def _with_keys(settings: S3Settings) -> pafs.FileSystem:
    return pafs.S3FileSystem(region=settings.region, **_keys(settings))


def shared_out(settings: dict[str, str], environment: MutableMapping[str, str]) -> dict[str, str]:
    """Spark's `settings` with what only the `environment` says of endpoint and region; what only `settings`
    say is put into the environment, for the driver's Python processes. For use before the JVM starts."""
    given = settings_from(settings.get, environment)
    for field, (setting, *variables) in NAMES.items():
        value = getattr(given, field)
        if value and PREFIX + setting in settings:
            environment[variables[0]] = value
        elif value and field in ("endpoint", "region"):  # S3A takes the keys from the environment
            settings = {**settings, PREFIX + setting: value}
    if given.endpoint and PREFIX + "path.style.access" not in settings:
        settings = {**settings, PREFIX + "path.style.access": "true"}
    return settings


def of_session(conf: Callable[[str, str], str | None]) -> dict[str, str]:
    """S3A's settings in a session, by their whole names, for tasks outside of SQL. `conf` is
    ``spark.conf.get``."""
    names = [PREFIX + setting for setting, *_ in NAMES.values()] + [IS_ENCRYPTED]
    return {name: value for name in names if (value := conf(name, ""))}
