"""Options ``value.format`` and ``value.schema.*``: checked and typed, without a cluster or a registry.

Owns which options belong to which format. A file that is named here is read here, on the driver.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from barnabas.config.definition import without_user
from barnabas.pipeline.errors import OptionError

FORMATS = ("json", "csv", "avro", "protobuf")
REGISTRY = "value.schema.registry"
LATEST_VERSION = "latest"


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """How to reach a schema registry. Paths are those of PEM files, which every executor has."""

    urls: tuple[str, ...]
    user: str = ""
    password: str = ""
    token: str = ""
    truststore: str = ""
    keystore: str = ""
    key_password: str = ""

    def __repr__(self) -> str:
        return f"RegistryOptions({without_user(', '.join(self.urls))})"


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """How values are decoded. `schema` is a DDL for json and csv, an Avro schema, or a Protobuf descriptor
    set in base64; empty where the registry has it, as `version` of `subject`."""

    format: str
    schema: str = ""
    message: str = ""
    delimiter: str = ","
    registry: RegistryOptions | None = None
    subject: str = ""
    version: str = LATEST_VERSION


def value_options(options: Mapping[str, str]) -> ValueOptions | None:
    """The value options of a reader, None where values stay bytes. Raises `OptionError`."""
    name = format_of(options)
    if name is None:
        return None
    registry = registry_options(options)
    delimiter = _delimiter(options)
    if registry is not None and name == "csv":
        raise OptionError(f"{REGISTRY} is for json, avro and protobuf, not for csv")
    schema = _schema_text(options, name)
    if not schema and registry is None:
        raise OptionError(f"value.format needs value.schema: {_WANTED[name]}")
    message = _message(options, name, is_needed=bool(schema))
    subject = _subject(
        options, options.get("subscribe", ""), is_needed=registry is not None and not schema
    )
    return ValueOptions(name, schema, message, delimiter, registry, subject, _version(options))


def write_value_options(options: Mapping[str, str]) -> ValueOptions | None:
    """The value options of a writer: `version` is empty unless an option names it, and then the registry
    has the schema. Raises `OptionError`."""
    name = format_of(options)
    if name is None:
        return None
    registry = registry_options(options)
    if registry is not None and name == "csv":
        raise OptionError(f"{REGISTRY} is for json, avro and protobuf, not for csv")
    schema = _schema_text(options, name)
    version = _version(options) if "value.schema.version" in options else ""
    if version and registry is None:
        raise OptionError(f"value.schema.version needs {REGISTRY}")
    if version and schema:
        raise OptionError("value.schema or value.schema.version, not both")
    if schema and (name == "csv" or (name == "json" and registry is None)):
        raise OptionError(
            f"value.schema is not for writing {name}: the fields of column value are what is written"
        )
    if name == "protobuf" and not schema and not version:
        raise OptionError(
            "value.format protobuf needs value.schema, a descriptor set as @FILE or base64; or"
            f" {REGISTRY} and value.schema.version"
        )
    message = _message(options, name, is_needed=bool(schema))
    subject = _subject(options, options.get("topic", ""), is_needed=registry is not None)
    return ValueOptions(name, schema, message, _delimiter(options), registry, subject, version)


def format_of(options: Mapping[str, str]) -> str | None:
    """Raises `OptionError`."""
    name = options.get("value.format")
    if name is None:
        given = sorted(option for option in options if option.lower().startswith("value.schema"))
        if given:
            raise OptionError(f"{given[0]} needs value.format")
        return None
    name = name.lower()
    if name not in FORMATS:
        raise OptionError(f"value.format is one of {', '.join(FORMATS)}, not {name!r}")
    return name


def _delimiter(options: Mapping[str, str]) -> str:
    delimiter = options.get("csv.delimiter", ",")
    if len(delimiter) != 1:
        raise OptionError("csv.delimiter is one character")
    return delimiter


def _message(options: Mapping[str, str], name: str, *, is_needed: bool) -> str:
    message = options.get("value.schema.message", "")
    if message and name != "protobuf":
        raise OptionError("value.schema.message is for value.format protobuf")
    if name == "protobuf" and is_needed and not message:
        raise OptionError("value.schema.message names the Protobuf message: package.Message")
    return message


_WANTED = {
    "json": "a DDL as 'id BIGINT, name STRING', or @FILE",
    "csv": "a DDL as 'id BIGINT, name STRING', or @FILE",
    "avro": "an Avro schema as JSON, or @FILE; or value.schema.registry",
    "protobuf": "a descriptor set (protoc --descriptor_set_out --include_imports) as @FILE or base64;"
    " or value.schema.registry",
}


def _schema_text(options: Mapping[str, str], name: str) -> str:
    schema = options.get("value.schema", "").strip()
    if not schema.startswith("@"):
        if name == "protobuf" and schema:
            try:
                base64.b64decode(schema, validate=True)
            except (binascii.Error, ValueError) as error:
                raise OptionError(
                    "value.schema of protobuf is a descriptor set: base64, or @FILE"
                ) from error
        return schema
    try:
        with open(schema[1:], "rb") as file:
            content = file.read()
    except OSError as error:
        raise OptionError(f"value.schema: {error}") from error
    if name == "protobuf":
        return base64.b64encode(content).decode()
    try:
        return content.decode().strip()
    except UnicodeDecodeError as error:
        raise OptionError(f"value.schema: {schema[1:]} is no UTF-8 text") from error


def _subject(options: Mapping[str, str], of_topics: str, *, is_needed: bool) -> str:
    """The subject as Confluent's TopicNameStrategy has it where none is given."""
    given = options.get("value.schema.subject", "").strip()
    if given or not is_needed:
        return given
    topics = [topic.strip() for topic in of_topics.split(",") if topic.strip()]
    if len(topics) != 1:
        raise OptionError(
            "value.schema.subject names the registry's subject that has the schema: there is not one topic"
            " by name"
        )
    return f"{topics[0]}-value"


def _version(options: Mapping[str, str]) -> str:
    version = options.get("value.schema.version", LATEST_VERSION).strip().lower()
    if version != LATEST_VERSION and not (version.isdigit() and int(version) > 0):
        raise OptionError(f"value.schema.version is latest or a number from 1 on, not {version!r}")
    return version


def registry_options(options: Mapping[str, str]) -> RegistryOptions | None:
    """The options of ``value.schema.registry`` and the keys below it. Raises `OptionError`."""
    text = options.get(REGISTRY)
    below = sorted(option for option in options if option.lower().startswith(f"{REGISTRY}."))
    if text is None:
        if below:
            raise OptionError(f"{below[0]} needs {REGISTRY}, the registry's URL")
        return None
    urls = tuple(url.strip().rstrip("/") for url in text.split(",") if url.strip())
    for url in urls or ("",):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError(f"{REGISTRY} has URLs as http://host:8081")
        if parts.username is not None:
            raise OptionError(f"{REGISTRY} has no password in its URL: {REGISTRY}.user, .password")
    found = RegistryOptions(
        urls,
        options.get(f"{REGISTRY}.user", ""),
        options.get(f"{REGISTRY}.password", ""),
        options.get(f"{REGISTRY}.token", ""),
        options.get(f"{REGISTRY}.ssl.truststore.location", ""),
        options.get(f"{REGISTRY}.ssl.keystore.location", ""),
        options.get(f"{REGISTRY}.ssl.key.password", ""),
    )
    if found.token and found.user:
        raise OptionError(f"{REGISTRY}.user or {REGISTRY}.token, not both")
    return found
