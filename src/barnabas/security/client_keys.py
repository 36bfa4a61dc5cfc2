"""The security of outgoing connections from Kafka's client keys ``security.protocol``, ``sasl.*``, ``ssl.*``.

Combinations that cannot work are refused with a sentence. Source: Kafka's ``CommonClientConfigs``,
``SaslConfigs``, ``SslConfigs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from barnabas.config.definition import ConfigError
from barnabas.config.listeners import PROTOCOLS
from barnabas.security.client_security import ClientSecurity
from barnabas.security.jaas import OAUTHBEARER, PLAIN, check_mechanism, parse_login_module
from barnabas.security.oauth.settings import oauth_login
from barnabas.security.sasl_client import SaslCredential
from barnabas.security.tls_settings import SecurityKeys, tls_settings


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """The security in a client's properties ``security.protocol``, ``sasl.*`` and ``ssl.*``. Raises
    :class:`ConfigError`."""
    key = "security.protocol"
    protocol = properties.get(key, "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ConfigError(key, protocol, f"it must be one of {', '.join(PROTOCOLS)}")
    keys = SecurityKeys(properties)
    credential = None
    if protocol.startswith("SASL_"):
        key = "sasl.mechanism"
        mechanism = check_mechanism(key, properties.get(key, "GSSAPI").strip().upper())
        credential = _client_credential(properties, mechanism)
    tls = tls_settings(keys, is_server=False) if protocol.endswith("SSL") else None
    return ClientSecurity(protocol, tls, credential)


def _client_credential(properties: Mapping[str, str], mechanism: str) -> SaslCredential:
    """The credential of ``sasl.jaas.config``, or of librdkafka's ``sasl.username`` and ``sasl.password``."""
    key = "sasl.jaas.config"
    if mechanism == OAUTHBEARER:
        options: Mapping[str, str] = {}
        if key in properties:
            options = parse_login_module(key, properties[key], mechanism).options
        return SaslCredential(mechanism, login=oauth_login(SecurityKeys(properties), options))
    if key in properties:
        module = parse_login_module(key, properties[key], mechanism)
        found = credential_of_login(key, module.username, module.password, mechanism)
        return replace(found, by_token=module.is_token and mechanism != PLAIN)
    user, password = properties.get("sasl.username", ""), properties.get("sasl.password", "")
    return credential_of_login(key, user, password, mechanism)


def credential_of_login(key: str, user: str, password: str, mechanism: str) -> SaslCredential:
    """A credential of user and password. Raises :class:`ConfigError` if one of them is missing."""
    if not user or not password:
        raise ConfigError(key, "(hidden)", f"{mechanism} needs its username and password")
    return SaslCredential(mechanism, user, password)
