"""A schema registry on loopback: HTTP, ids, subjects with versions, references, basic authentication.

Answers as Confluent's Schema Registry does; Protobuf schemas are kept serialized, as ``?format=serialized``
gives them.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Registry:
    """What is registered, and what was asked. `fails` counts requests that are answered with 503."""

    url: str = ""
    user_info: str = ""
    by_id: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    fails: int = 0
    closed: set[str] = field(default_factory=set)
    """Subjects that take no further schema."""
    content: bytes = b""
    """Content of every answer in place of its JSON."""

    def register(
        self, subject: str, schema: str, *, kind: str = "AVRO", references: Any = ()
    ) -> int:
        number = len(self.by_id) + 1
        self.by_id[number] = {"schema": schema, "schemaType": kind, "references": list(references)}
        if kind == "AVRO":
            del self.by_id[number]["schemaType"]
        self.subjects.setdefault(subject, []).append(number)
        return number

    def take(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """A POST: registers a schema once, or says which version of a subject it is."""
        self.asked.append(path)
        kind = body.get("schemaType", "AVRO")
        _, subject, *versions = path.strip("/").split("/")
        same = {"schema": body["schema"], "references": body.get("references", [])}
        ids = self.subjects.get(subject, [])
        found = [each for each in ids if same.items() <= self.by_id[each].items()]
        if versions and subject in self.closed and not found:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
        if versions and not found:
            found = [
                self.register(subject, body["schema"], kind=kind, references=same["references"])
            ]
        if not found:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        number = found[0]
        if versions:
            return 200, {"id": number}
        return 200, {"id": number, "version": self.subjects[subject].index(number) + 1, **same}

    def answer(self, path: str, authorization: str) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        expected = base64.b64encode(self.user_info.encode()).decode()
        if self.user_info and authorization != f"Basic {expected}":
            return 401, {"error_code": 40101, "message": "Unauthorized"}
        if self.fails > 0:
            self.fails -= 1
            return 503, {"error_code": 50003, "message": "starting"}
        match path.partition("?")[0].strip("/").split("/"):
            case ["schemas", "ids", id_]:
                found = self.by_id.get(int(id_))
                return (200, found) if found else (404, {"error_code": 40403, "message": "no"})
            case ["subjects", subject, "versions", version]:
                ids = self.subjects.get(subject, [])
                at = len(ids) if version == "latest" else int(version)
                if not 0 < at <= len(ids):
                    return 404, {"error_code": 40401, "message": "Subject not found"}
                number = ids[at - 1]
                named = {"subject": subject, "version": at, "id": number}
                return 200, {**named, **self.by_id[number]}
        return 404, {"error_code": 404, "message": "HTTP 404"}


@contextmanager
def registry_server(
    user_info: str = "", context: ssl.SSLContext | None = None
) -> Iterator[Registry]:
    registry = Registry(user_info=user_info)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.say(*registry.answer(self.path, self.headers.get("Authorization", "")))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.say(*registry.take(self.path, body))

        def say(self, code: int, answer: dict[str, Any]) -> None:
            content = registry.content or json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Tests read `asked`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        registry.url = registry.url.replace("http:", "https:")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
