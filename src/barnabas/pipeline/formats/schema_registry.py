"""A schema registry with Confluent's REST interface: schemas by id and by subject, with what they refer to.

Owns requests, retries and a cache per process. A schema under an id never changes, so it is asked for once.
An answer that says no is definite (`UnknownSchemaError`: the record is bad); a registry that does not answer
is asked again, at each of its URLs, until the time for it is over (`RegistryError`: the task fails, and Spark
runs it again). An id that was unknown is asked for again after a while, as it may be registered by then.

Source: Confluent's Schema Registry API, "Schemas" and "Subjects"; ``format=serialized`` for Protobuf.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from barnabas.pipeline.broker_connection import now_ms
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.formats.value_options import RegistryOptions

REQUEST_S = 10.0
TIMEOUT_MS = 30_000.0
PAUSE_S = 0.25
UNKNOWN_MS = 10_000.0
DEFINITE = range(400, 500)
TOO_MANY_REQUESTS = 429
BYTES_MAX = 16 << 20
REFERENCES_MAX = 1000
ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


class RegistryError(PipelineError):
    """The registry did not answer, refused the credential, or answered what is no schema."""


class UnknownSchemaError(RegistryError):
    """The registry has no such schema."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """`text` is the schema; of Protobuf the serialized file in base64. `references` are (name, schema), each
    after those that it refers to itself."""

    kind: str
    text: str
    references: tuple[tuple[str, RegisteredSchema], ...] = ()


class SchemaRegistry:
    """One registry as this process sees it."""

    _shared: ClassVar[dict[tuple[RegistryOptions, bool], SchemaRegistry]] = {}

    def __init__(
        self, options: RegistryOptions, *, serialized: bool, patience_ms: float = TIMEOUT_MS
    ) -> None:
        """`serialized`: Protobuf schemas as files in bytes rather than as text."""
        self._options = options
        self._query = "?format=serialized" if serialized else ""
        self._patience_ms = patience_ms
        self._by_id: dict[int, RegisteredSchema] = {}
        self._unknown: dict[int, tuple[float, str]] = {}
        self._context = _tls_context(options)

    @classmethod
    def shared(cls, options: RegistryOptions, *, serialized: bool) -> SchemaRegistry:
        """This process's, with what it has learned."""
        key = (options, serialized)
        if key not in cls._shared:
            cls._shared[key] = cls(options, serialized=serialized)
        return cls._shared[key]

    def by_id(self, number: int) -> RegisteredSchema:
        """Raises `RegistryError`."""
        found = self._by_id.get(number)
        if found is not None:
            return found
        asked_ms, sentence = self._unknown.get(number, (-UNKNOWN_MS, ""))
        if now_ms() - asked_ms < UNKNOWN_MS:
            raise UnknownSchemaError(sentence)
        try:
            found = self._schema_of(self._get(f"/schemas/ids/{number}"), ())
        except UnknownSchemaError as error:
            sentence = f"schema {number} is not in the registry"
            self._unknown[number] = (now_ms(), sentence)
            raise UnknownSchemaError(sentence) from error
        self._by_id[number] = found
        return found

    def by_subject(self, subject: str, version: str) -> RegisteredSchema:
        """Raises `RegistryError`."""
        return self._schema_of(self._version(subject, version), ())

    def _version(self, subject: str, version: str) -> dict[str, Any]:
        return self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")

    def _schema_of(self, answer: dict[str, Any], above: tuple[str, ...]) -> RegisteredSchema:
        text = answer.get("schema")
        if not isinstance(text, str):
            raise RegistryError(f"{self._options.urls[0]} answers without a schema")
        references = []
        for each in answer.get("references") or ():
            name, subject, version = each["name"], each["subject"], str(each["version"])
            if f"{subject} {version}" in above or len(above) > REFERENCES_MAX:
                raise RegistryError(f"subject {subject} refers to itself")
            within = self._version(subject, version)
            references.append(
                (str(name), self._schema_of(within, (*above, f"{subject} {version}")))
            )
        return RegisteredSchema(answer.get("schemaType", "AVRO"), text, tuple(references))

    def _get(self, path: str) -> dict[str, Any]:
        deadline = now_ms() + self._patience_ms
        while True:
            for url in self._options.urls:
                try:
                    return self._ask(url, path)
                except (OSError, ValueError) as error:
                    if isinstance(error, urllib.error.HTTPError) and _is_definite(error.code):
                        raise self._refused(url, path, error) from error
                    last = f"{url}: {error}"
            if now_ms() >= deadline:
                raise RegistryError(f"the schema registry does not answer: {last}")
            time.sleep(PAUSE_S)

    def _ask(self, url: str, path: str) -> dict[str, Any]:
        headers = {"Accept": ACCEPT}
        if self._options.user:
            pair = f"{self._options.user}:{self._options.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        elif self._options.token:
            headers["Authorization"] = f"Bearer {self._options.token}"
        request = urllib.request.Request(url + path + self._query, headers=headers)
        with urllib.request.urlopen(request, timeout=REQUEST_S, context=self._context) as answer:
            content = answer.read(BYTES_MAX + 1)
        if len(content) > BYTES_MAX:
            raise ValueError(f"an answer of more than {BYTES_MAX} bytes")
        found = json.loads(content)
        if not isinstance(found, dict):
            raise ValueError("an answer that is no JSON object")
        return found

    def _refused(self, url: str, path: str, error: urllib.error.HTTPError) -> RegistryError:
        try:
            said = json.loads(error.read(BYTES_MAX)).get("message", "")
        except (OSError, ValueError, AttributeError):
            said = ""
        sentence = f"{url}{path}: {error.code} {said or error.reason}"
        return UnknownSchemaError(sentence) if error.code == 404 else RegistryError(sentence)


def _is_definite(code: int) -> bool:
    return code in DEFINITE and code != TOO_MANY_REQUESTS


def _tls_context(options: RegistryOptions) -> ssl.SSLContext | None:
    if not any(each.startswith("https:") for each in options.urls):
        return None
    try:
        context = ssl.create_default_context(cafile=options.truststore or None)
        if options.keystore:
            context.load_cert_chain(options.keystore, password=options.key_password or None)
    except OSError as error:  # SSLError is one
        where = options.keystore or options.truststore
        raise RegistryError(f"{where} cannot be used for TLS: {error}") from error
    return context
