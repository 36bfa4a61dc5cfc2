"""A schema registry with Confluent's REST interface: schemas by id and by subject, with what they refer to.

Owns requests, retries and a cache per process. The schema of an id never changes, so it is requested once.
An unknown id is requested again after `UNKNOWN_MS`, as it may be registered by then. Registering a schema
twice changes nothing, so that request is retried too.

A status of 400 to 499, except 429, is definite: 404 is `UnknownSchemaError` (the record is bad), the others
are `RegistryError`. After any other failure each URL is tried again for `TIMEOUT_MS`. Then `RegistryError`
ends the task, and Spark runs it again.

Source: Confluent's Schema Registry API, "Schemas" and "Subjects"; ``format=serialized`` for Protobuf.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from barnabas.config.definition import without_user
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.formats.value_options import RegistryOptions
from barnabas.pipeline.patience import now_ms

if TYPE_CHECKING:
    import ssl
    from urllib.error import HTTPError

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
    """`text` is the schema; for Protobuf the serialized file in base64. `references` are (name, schema)."""

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
        """The registry of this process for `options`, with its cache."""
        key = (options, serialized)
        if key not in cls._shared:
            cls._shared[key] = cls(options, serialized=serialized)
        return cls._shared[key]

    def by_id(self, number: int) -> RegisteredSchema:
        """The schema of this id, from the cache if it is there. Raises `RegistryError`."""
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
        """The schema of this subject and version. Raises `RegistryError`."""
        return self._schema_of(self._version(subject, version), ())

    def registered(self, subject: str, version: str) -> tuple[int, RegisteredSchema]:
        """The schema and its id. Raises `RegistryError`."""
        answer = self._version(subject, version)
        return self._id_in(answer), self._schema_of(answer, ())

    def register(
        self, subject: str, kind: str, text: str, references: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[int, int]:
        """Register a schema, unless the subject has it already; its id and version. Raises `RegistryError`,
        also for a schema that the registry finds incompatible with the subject."""
        body: dict[str, Any] = {"schema": text, "references": list(references)}
        if kind != "AVRO":
            body["schemaType"] = kind
        path = f"/subjects/{quote(subject, safe='')}"
        number = self._id_in(self._get(f"{path}/versions", body))
        version = self._get(path, body).get("version")
        if not isinstance(version, int):
            raise RegistryError(f"{without_user(self._options.urls[0])} answers without a version")
        return number, version

    def _id_in(self, answer: Mapping[str, Any]) -> int:
        number = answer.get("id")
        if not isinstance(number, int):
            raise RegistryError(f"{without_user(self._options.urls[0])} answers without an id")
        return number

    def _version(self, subject: str, version: str) -> dict[str, Any]:
        return self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")

    def _schema_of(self, answer: dict[str, Any], above: tuple[str, ...]) -> RegisteredSchema:
        text = answer.get("schema")
        if not isinstance(text, str):
            raise RegistryError(f"{without_user(self._options.urls[0])} answers without a schema")
        references = []
        for reference in answer.get("references") or ():
            name, subject, version = (
                reference["name"],
                reference["subject"],
                str(reference["version"]),
            )
            if f"{subject} {version}" in above or len(above) > REFERENCES_MAX:
                raise RegistryError(f"subject {subject} refers to itself")
            within = self._version(subject, version)
            references.append(
                (str(name), self._schema_of(within, (*above, f"{subject} {version}")))
            )
        return RegisteredSchema(answer.get("schemaType", "AVRO"), text, tuple(references))

    def _get(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """GET `path`, or POST `body` to it. Raises `RegistryError`."""
        from urllib.error import HTTPError

        deadline = now_ms() + self._patience_ms
        while True:
            for url in self._options.urls:
                try:
                    return self._ask(url, path, body)
                except (OSError, ValueError, RecursionError) as error:
                    if isinstance(error, HTTPError) and _is_definite(error.code):
                        raise self._refused(url, path, error) from error
                    last = without_user(f"{url}: {error}")
            if now_ms() >= deadline:
                raise RegistryError(f"the schema registry does not answer: {last}")
            time.sleep(PAUSE_S)

    def _ask(self, url: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        from urllib.request import Request, urlopen  # loads TLS: most queries have no registry

        headers = {"Accept": ACCEPT}
        if body is not None:
            headers["Content-Type"] = ACCEPT.partition(",")[0]
        url, user, password = split_user(url)
        if user or self._options.user:
            if not user:
                user, password = self._options.user, self._options.password
            pair = f"{user}:{password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        elif self._options.token:
            headers["Authorization"] = f"Bearer {self._options.token}"
        data = None if body is None else json.dumps(body).encode()
        target = url + path + (self._query if body is None else "")
        request = Request(target, data, headers)
        with urlopen(request, timeout=REQUEST_S, context=self._context) as answer:
            content = answer.read(BYTES_MAX + 1)
        if len(content) > BYTES_MAX:
            raise ValueError(f"an answer of more than {BYTES_MAX} bytes")
        found = json.loads(content)
        if not isinstance(found, dict):
            raise ValueError("an answer that is no JSON object")
        return found

    def _refused(self, url: str, path: str, error: HTTPError) -> RegistryError:
        try:
            said = json.loads(error.read(BYTES_MAX)).get("message", "")
        except (OSError, ValueError, AttributeError, RecursionError):
            said = ""
        sentence = f"{without_user(url)}{path}: {error.code} {said or error.reason}"
        return UnknownSchemaError(sentence) if error.code == 404 else RegistryError(sentence)


def split_user(url: str) -> tuple[str, str, str]:
    """The address without its user and password, and those; empty where it has none."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, "", ""
    name, _, password = user.partition(":")
    return urlunsplit(parts._replace(netloc=host)), unquote(name), unquote(password)


def _is_definite(code: int) -> bool:
    return code in DEFINITE and code != TOO_MANY_REQUESTS


def _tls_context(options: RegistryOptions) -> ssl.SSLContext | None:
    if not any(url.startswith("https:") for url in options.urls):
        return None
    import ssl

    try:
        context = ssl.create_default_context(cafile=options.truststore or None)
        if options.keystore:
            context.load_cert_chain(options.keystore, password=options.key_password or None)
    except OSError as error:  # SSLError is one
        where = options.keystore or options.truststore
        raise RegistryError(f"{where} cannot be used for TLS: {error}") from error
    return context
