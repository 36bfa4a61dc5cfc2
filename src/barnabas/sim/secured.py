"""The configuration of a secured cluster of the simulator: SASL on every listener, an authorizer,
and three users. Nodes and all usual clients are super users; the guest has what ACLs give it."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.client.delegation_tokens import DelegationToken
from barnabas.security.client_security import ClientSecurity
from barnabas.security.sasl_client import SaslCredential

PROTOCOL = "SASL_PLAINTEXT"
GUEST = "guest"
GUEST_PRINCIPAL = f"User:{GUEST}"
ADMIN_PRINCIPAL = "User:admin"
TOKEN_MECHANISM = "SCRAM-SHA-256"
TOKENS_SINCE = 14
"""3.6-IV2: metadata before hold no delegation tokens."""
PASSWORDS = {"node": "of-nodes", "admin": "of-clients", GUEST: "of-guests"}
_USERS = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
SETTINGS: Mapping[str, str] = {
    "listener.security.protocol.map": f"PLAINTEXT:{PROTOCOL},CONTROLLER:{PROTOCOL}",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node;User:admin",
    "delegation.token.secret.key": "of-tokens",
    "delegation.token.expiry.time.ms": "4000",
    "delegation.token.expiry.check.interval.ms": "1000",
}


def node_settings() -> dict[str, str]:
    """The security settings of each node's ``server.properties``."""
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' username="node" password="{PASSWORDS["node"]}" {_USERS};'
    )
    found = dict(SETTINGS)
    for listener in ("plaintext", "controller"):
        found[f"listener.name.{listener}.plain.sasl.jaas.config"] = jaas
    return found


def security_of(user: str, mechanism: str = "PLAIN") -> ClientSecurity:
    """How a client of the simulator connects as `user`."""
    return ClientSecurity(PROTOCOL, None, SaslCredential(mechanism, user, PASSWORDS[user]))


def security_of_token(token: DelegationToken) -> ClientSecurity:
    """How a client of the simulator connects by `token`."""
    credential = SaslCredential(TOKEN_MECHANISM, token.token_id, token.password, by_token=True)
    return ClientSecurity(PROTOCOL, None, credential)
