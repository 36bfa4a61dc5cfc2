"""SCRAM-SHA-256 and -512: both ends of the exchange, and credentials (RFC 5802, 7677; KIP-84).

The server's end asks for a credential by user name. An unknown user gets a challenge as well, with a salt
that follows from the name and a secret of this process, and fails where a wrong password does: the two
cannot be distinguished. Channel binding is refused, as Kafka does. Names are compared as they come: Kafka
prepares no strings either.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple

from barnabas import limits
from barnabas.security import SaslError
from barnabas.security.jaas import SCRAM_SHA_256, SCRAM_SHA_512

HASHES = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
TYPES = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
"""``ScramMechanism``'s numbers in records and requests."""
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
"""The iterations that Kafka allows a credential."""
NONCE_BYTES = 18
SALT_BYTES = 24
_FIRST = re.compile(r"n=((?:[^=,]|=2C|=3D)+),r=([^,]+)((?:,[^=,]+=[^,]*)*)")
_FINAL = re.compile(r"c=([A-Za-z0-9+/=]+),r=([^,]+)(?:,[^,]+)*?,p=([A-Za-z0-9+/=]+)")
_TOKEN_EXTENSION = re.compile(r",tokenauth=true(?:,|$)", re.IGNORECASE)
TOKEN_EXTENSION = ",tokenauth=true"
"""The part of a client's first message that says that the user's name is a token's id."""
_CHALLENGE = re.compile(r"r=([^,]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,9})(?:,.*)?")


class ScramCredential(NamedTuple):
    """The part of a password that a server keeps."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential({self.iterations} iterations)"


class TokenCredential(NamedTuple):
    """The server's view of a delegation token: whose it is, and until when it is valid."""

    credential: ScramCredential
    owner: str
    """A user's name."""
    ends_at_ms: int
    """Milliseconds since 1970."""


Lookup = Callable[[str], ScramCredential | None]
TokenLookup = Callable[[str], TokenCredential | None]


def new_salt(random: Callable[[int], bytes]) -> bytes:
    """A salt with the entropy of `SALT_BYTES` random bytes, in ASCII: kafka-ts reads a salt as text."""
    return base64.b64encode(random(SALT_BYTES))


def salted_password(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, iterations)


def credential_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential that follows from a salted password."""
    client_key = _hmac(mechanism, salted, b"Client Key")
    stored_key = hashlib.new(HASHES[mechanism], client_key).digest()
    return ScramCredential(salt, stored_key, _hmac(mechanism, salted, b"Server Key"), iterations)


def new_credential(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    salted = salted_password(mechanism, password.encode(), salt, iterations)
    return credential_of(mechanism, salted, salt, iterations)


class ScramServer:
    """The server's end of one exchange. `user` is set once it has succeeded."""

    def __init__(
        self,
        mechanism: str,
        lookup: Lookup,
        nonce: str,
        pepper: bytes,
        tokens: TokenLookup | None = None,
    ) -> None:
        """`nonce` is this exchange's, `pepper` this process's secret for users that are not known, `tokens`
        looks delegation tokens up by their ids."""
        self.user: str | None = None
        self.ends_at_ms: int | None = None
        self.is_token = False
        self._mechanism = mechanism
        self._lookup = lookup
        self._tokens = tokens
        self._nonce = nonce
        self._client_nonce = ""
        self._pepper = pepper
        self._named = ""
        self._known = False
        self._credential: ScramCredential | None = None
        self._first_bare = self._server_first = self._header = ""

    def evaluate(self, token: bytes) -> bytes:
        """The next challenge. Raises :class:`SaslError`."""
        text = _text(token)
        return self._on_first(text) if self._credential is None else self._on_final(text)

    def _on_first(self, text: str) -> bytes:
        binding, _, rest = text.partition(",")
        authorization, comma, bare = rest.partition(",")
        if binding not in ("n", "y") or not comma:
            raise SaslError("channel binding is not supported")
        match = _FIRST.fullmatch(bare)
        if match is None:
            raise SaslError("the first SCRAM message is malformed")
        name = _unescape(match.group(1))
        if authorization and authorization != f"a={match.group(1)}":
            raise SaslError("a user may act for itself only")
        credential = self._find(name, match.group(3))
        self._known = credential is not None
        self._credential = credential or self._invented(name)
        self._header, self._first_bare = f"{binding},{authorization},", bare
        self._client_nonce = match.group(2)
        self._nonce = self._client_nonce + self._nonce
        salt = base64.b64encode(self._credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        return self._server_first.encode()

    def _find(self, name: str, extensions: str) -> ScramCredential | None:
        """The credential of a user, or of the token that the client says `name` is the id of (KIP-48)."""
        self._named = name
        if not _TOKEN_EXTENSION.search(extensions):
            return self._lookup(name)
        self.is_token = True
        token = None if self._tokens is None else self._tokens(name)
        if token is None:
            return None
        self._named, self.ends_at_ms = token.owner, token.ends_at_ms
        return token.credential

    def _on_final(self, text: str) -> bytes:
        """librdkafka before 2.6.1 writes its own nonce in front once more, which Kafka up to 3.9 accepts. The
        proof covers the message as it was sent, this exchange's random part included."""
        credential = self._credential
        assert credential is not None
        match = _FINAL.fullmatch(text)
        if match is None or _unbase64(match.group(1)) != self._header.encode():
            raise SaslError("the final SCRAM message is malformed")
        if match.group(2) not in (self._nonce, self._client_nonce + self._nonce):
            raise SaslError("the final SCRAM message has another nonce")
        without_proof = text[: text.rindex(",p=")]
        signed = f"{self._first_bare},{self._server_first},{without_proof}".encode()
        signature = _hmac(self._mechanism, credential.stored_key, signed)
        proof = _unbase64(match.group(3))
        client_key = _xor(proof, signature) if len(proof) == len(signature) else b""
        key = hashlib.new(HASHES[self._mechanism], client_key).digest()
        if not hmac.compare_digest(key, credential.stored_key) or not self._known:
            raise SaslError(
                "Authentication failed during authentication due to invalid credentials with SASL"
                f" mechanism {self._mechanism}"
            )
        self.user = self._named
        verifier = _hmac(self._mechanism, credential.server_key, signed)
        return b"v=" + base64.b64encode(verifier)

    def _invented(self, name: str) -> ScramCredential:
        """The credential of a user that is not known: the same each time it is asked for."""
        seed = hmac.new(self._pepper, name.encode(), "sha512").digest()
        size = hashlib.new(HASHES[self._mechanism]).digest_size
        salt = new_salt(lambda count: seed[:count])
        return ScramCredential(salt, seed[-size:], seed[-size:], MIN_ITERATIONS)


class ScramClient:
    """The client's end of one exchange. `is_done` once the server has proved that it knows the credential."""

    def __init__(
        self, mechanism: str, user: str, password: str, nonce: str, *, by_token: bool = False
    ) -> None:
        """`by_token`: `user` is a delegation token's id, and `password` its HMAC in base64."""
        self.is_done = False
        self._mechanism = mechanism
        self._password = password.encode()
        self._nonce = nonce
        self._first_bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        if by_token:
            self._first_bare += TOKEN_EXTENSION
        self._verifier = b""

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        """The answer; None once it is done. Raises :class:`SaslError`."""
        text = _text(challenge)
        if not self._verifier:
            return self._on_challenge(text)
        self._on_verifier(text)
        return None

    def _on_challenge(self, text: str) -> bytes:
        match = _CHALLENGE.fullmatch(text)
        if match is None or not match.group(1).startswith(self._nonce):
            raise SaslError("the server's SCRAM challenge is malformed")
        nonce, salt, iterations = match.group(1), _unbase64(match.group(2)), int(match.group(3))
        if not MIN_ITERATIONS <= iterations <= limits.SCRAM_ITERATIONS_MAX:
            raise SaslError(f"the server asks for {iterations} iterations of SCRAM")
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        credential = credential_of(self._mechanism, salted, salt, iterations)
        without_proof = f"c=biws,r={nonce}"
        signed = f"{self._first_bare},{text},{without_proof}".encode()
        signature = _hmac(self._mechanism, credential.stored_key, signed)
        proof = _xor(_hmac(self._mechanism, salted, b"Client Key"), signature)
        self._verifier = _hmac(self._mechanism, credential.server_key, signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _on_verifier(self, text: str) -> None:
        if text.startswith("e="):
            raise SaslError(f"the server refuses: {text[2:]}")
        if not text.startswith("v=") or not hmac.compare_digest(
            _unbase64(text[2:].partition(",")[0]), self._verifier
        ):
            raise SaslError("the server does not know this user's credential")
        self.is_done = True


def nonce_of(random: bytes) -> str:
    """Printable, without a comma."""
    return base64.b64encode(random).decode()


def _hmac(mechanism: str, key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, HASHES[mechanism]).digest()


def _xor(one: bytes, other: bytes) -> bytes:
    size = len(one)
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(size, "big")


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError as error:
        raise SaslError("a SCRAM message is no UTF-8") from error


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SaslError("a SCRAM message has no base64 where it should") from error


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
