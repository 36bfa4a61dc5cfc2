"""Quotas and SCRAM credentials as the texts of a `/config` znode.

Source: ``ZkConfigMigrationClient.writeClientQuotas`` (whole numbers where the key is one),
``Double.toString``, ``ScramCredentialUtils``.
"""

from __future__ import annotations

import base64
import binascii

from barnabas.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.security.scram import TYPES
from barnabas.zookeeper.layout.json_bytes import MalformedZnode

WHOLE_QUOTAS = frozenset({"producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"})
EPSILON = 1e-6
_PARTS = ("salt", "stored_key", "server_key", "iterations")


def quota_text(key: str, value: float) -> str:
    """The text of one quota in the znode."""
    if key in WHOLE_QUOTAS and abs(int(value + EPSILON) - value) <= EPSILON:
        return str(int(value + EPSILON))
    return double_text(value)


def quota_value(path: str, key: str, text: str) -> float:
    """Raises `MalformedZnode`."""
    try:
        return float(text)
    except ValueError:
        raise MalformedZnode(path, f"{key} is {text!r}, no number") from None


def double_text(value: float) -> str:
    """The text of Java's ``Double.toString``: with an exponent below a thousandth and from ten million on."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        return text if "e" not in text else f"{value:.17f}".rstrip("0")
    mantissa, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits = repr(value).replace(".", "").replace("-", "").strip("0")
        power = len(str(int(abs(value)))) - 1 if abs(value) >= 1 else _first_digit(value)
        sign = "-" if value < 0 else ""
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _first_digit(value: float) -> int:
    """The power of ten of the first digit of a number below one."""
    decimals = repr(abs(value)).partition(".")[2]
    return -(len(decimals) - len(decimals.lstrip("0")) + 1)


def scram_text(record: UserScramCredentialRecord) -> str:
    values = (record.salt, record.stored_key, record.server_key)
    keys = [base64.b64encode(bytes(one)).decode() for one in values]
    parts = zip(_PARTS, (*keys, str(record.iterations)))
    return ",".join(f"{name}={value}" for name, value in parts)


def scram_record(path: str, user: str, mechanism: str, text: str) -> UserScramCredentialRecord:
    """Raises `MalformedZnode`; the text is a secret and stays out of it."""
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        return UserScramCredentialRecord(
            name=user,
            mechanism=TYPES[mechanism],
            salt=base64.b64decode(parts["salt"], validate=True),
            stored_key=base64.b64decode(parts["stored_key"], validate=True),
            server_key=base64.b64decode(parts["server_key"], validate=True),
            iterations=int(parts["iterations"]),
        )
    except (KeyError, ValueError, binascii.Error):
        raise MalformedZnode(path, f"{mechanism} is no SCRAM credential") from None
