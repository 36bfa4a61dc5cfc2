"""An identity provider on a loopback port: publishes keys, issues signed tokens for client credentials."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from barnabas.cli.local.certificate_authority import Authority

ISSUER, AUDIENCE = "https://issuer.example", "kafka"
CLIENT, SECRET = "alice", "se:cret %/x"


class SigningKey:
    """An RSA key with its id."""

    def __init__(self, key_id: str, bits: int = 2048) -> None:
        self.key_id = key_id
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=bits)

    def published(self) -> dict[str, Any]:
        found = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.private.public_key()))
        return {**found, "kid": self.key_id, "use": "sig", "alg": "RS256"}

    def token(self, subject: str = CLIENT, lasts_s: float = 3600, **claims: Any) -> str:
        """Signed; a claim that is None is left out."""
        now = claims.pop("now", time.time())
        said = {
            "sub": subject, "iss": ISSUER, "aud": AUDIENCE, "scope": "kafka",
            "iat": int(now), "exp": int(now + lasts_s), **claims,
        }  # fmt: skip
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(said, self.private, "RS256", headers={"kid": self.key_id})


class IdentityProvider:
    """`with IdentityProvider() as provider`: `url` + ``/jwks`` and ``/token``. `faults` answer first."""

    def __init__(self, authority: Authority | None = None, lasts_s: float = 3600) -> None:
        self.keys = [SigningKey("one")]
        self.lasts_s = lasts_s
        self.asked: list[str] = []
        self.forms: list[dict[str, list[str]]] = []
        self.faults: list[int] = []
        """Statuses of the next answers."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.answer(self)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if authority is not None:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
                file.write(authority.identity("provider").pem())
                file.flush()
                context.load_cert_chain(file.name)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def jwks_url(self) -> str:
        return self.url + "/jwks"

    @property
    def token_url(self) -> str:
        return self.url + "/token"

    def jwks(self) -> bytes:
        return json.dumps({"keys": [key.published() for key in self.keys]}).encode()

    def token(self, **claims: Any) -> str:
        return self.keys[-1].token(**{"lasts_s": self.lasts_s, **claims})

    def write_jwks(self, path: Path) -> None:
        path.write_bytes(self.jwks())

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        size = int(handler.headers.get("Content-Length") or 0)
        form = parse_qs(handler.rfile.read(size).decode())
        self.asked.append(handler.path)
        self.forms.append(form)
        status, body = self._status_and_body(handler, form)
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _status_and_body(
        self, handler: BaseHTTPRequestHandler, form: dict[str, list[str]]
    ) -> tuple[int, bytes]:
        if self.faults:
            return self.faults.pop(0), b"{}"
        if handler.path == "/jwks":
            return 200, self.jwks()
        given = base64.b64decode((handler.headers.get("Authorization") or "").rpartition(" ")[2])
        user, _, secret = given.decode().partition(":")
        if secret != SECRET or form.get("grant_type") != ["client_credentials"]:
            return 401, b'{"error":"invalid_client"}'
        token = self.token(subject=user)
        found = {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lasts_s)}
        return 200, json.dumps(found).encode()
