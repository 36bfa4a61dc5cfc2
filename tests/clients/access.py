"""How a client reaches a cluster, in the words of each library: where, by which mechanism, and as whom.

``Access("host:port")`` is for a cluster without security. `as_user`, `by_bearer_token` and
`by_delegation_token` are for one that ``barnabas up --secure`` made. A delegation token needs ``tokenauth``,
which Java's clients and ours can say.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.delegation_tokens import create_token
from barnabas.config.properties import format_properties
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.identity_provider import AUDIENCE, CLIENT, ISSUER, SECRET, IdentityProvider

LOGIN = "org.apache.kafka.common.security."
OAUTH = "sasl.oauthbearer."
CREDENTIALS = OAUTH + "client.credentials.client."


@dataclass(frozen=True, slots=True)
class Access:
    """Where a cluster is, and who its client is."""

    bootstrap: str
    mechanism: str = ""
    """Empty: no security."""
    user: str = ""
    password: str = field(default="", repr=False)
    authority: str = ""
    """The file with the certificate that the client trusts."""
    provider: IdentityProvider | None = None
    """Issues the tokens of OAUTHBEARER."""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of our client and of Java's."""

    def librdkafka(self) -> dict[str, Any]:
        """confluent-kafka, and by ``-X`` kcat."""
        found: dict[str, Any] = {"bootstrap.servers": self.bootstrap}
        if not self.mechanism:
            return found
        found |= {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority,
            "sasl.mechanism": self.mechanism,
        }
        provider = self.provider
        if provider is not None:
            return found | {
                "oauth_cb": lambda _: (provider.token(), time.time() + provider.lasts_s)
            }
        return found | {"sasl.username": self.user, "sasl.password": self.password}

    def kafka_python(self) -> dict[str, Any]:
        found: dict[str, Any] = {"bootstrap_servers": self.bootstrap.split(",")}
        if not self.mechanism:
            return found
        found |= {"ssl_cafile": self.authority, **self._sasl()}
        if self.provider is not None:
            found["sasl_oauth_token_provider"] = _tokens_for_kafka_python(self.provider)
        return found

    def aiokafka(self) -> dict[str, Any]:
        found: dict[str, Any] = {"bootstrap_servers": self.bootstrap}
        if not self.mechanism:
            return found
        found |= {
            "ssl_context": ssl.create_default_context(cafile=self.authority),
            **self._sasl(),
        }
        if self.provider is not None:
            found["sasl_oauth_token_provider"] = _tokens_for_aiokafka(self.provider)
        return found

    def _sasl(self) -> dict[str, Any]:
        """What kafka-python and aiokafka call alike."""
        found = {"security_protocol": "SASL_SSL", "sasl_mechanism": self.mechanism}
        if self.provider is not None:
            return found
        return found | {
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }

    def file(self) -> str:
        """The text of a ``client.properties``."""
        return format_properties({"bootstrap.servers": self.bootstrap, **self.properties})

    def java_options(self) -> list[str]:
        """Java's clients fetch tokens only from a URL that an option of the Java machine allows."""
        if self.provider is None:
            return []
        return [f"-Dorg.apache.kafka.{OAUTH}allowed.urls={self.provider.token_url}"]


def _tokens_for_kafka_python(provider: IdentityProvider) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return provider.token()

    return Tokens()


def _tokens_for_aiokafka(provider: IdentityProvider) -> Any:
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return provider.token()

    return Tokens()


# -- into a cluster of `barnabas up --secure` --------------------------------------------------------


def authority_of(cluster: Cluster) -> str:
    return str(cluster.directory / "cluster/security/ca.pem")


def password_of(cluster: Cluster, user: str) -> str:
    file = cluster.directory / "cluster/security/passwords.json"
    return str(json.loads(file.read_text())[user])


def trust_of(cluster: Cluster) -> dict[str, str]:
    """The properties of any client of `cluster`, without those that say who it is."""
    return {k: v for k, v in cluster.client_properties.items() if not k.startswith("sasl.")}


def as_user(cluster: Cluster, mechanism: str, user: str, password: str = "") -> Access:
    """By PLAIN or SCRAM; with a `password` that is not given, the one that the cluster was made with."""
    password = password or password_of(cluster, user)
    kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    login = f'{LOGIN}{kind}LoginModule required username="{user}" password="{password}";'
    properties = {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
    return Access(
        cluster.bootstrap,
        mechanism,
        user,
        password,
        authority_of(cluster),
        properties=trust_of(cluster) | properties,
    )


def by_bearer_token(cluster: Cluster, provider: IdentityProvider) -> Access:
    """As `CLIENT`, by OAUTHBEARER."""
    properties = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{LOGIN}oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": f"{LOGIN}oauthbearer.OAuthBearerLoginModule required;",
        OAUTH + "token.endpoint.url": provider.token_url,
        CREDENTIALS + "id": CLIENT,
        CREDENTIALS + "secret": SECRET,
    }
    return Access(
        cluster.bootstrap,
        "OAUTHBEARER",
        authority=authority_of(cluster),
        provider=provider,
        properties=trust_of(cluster) | properties,
    )


def by_delegation_token(cluster: Cluster) -> Access:
    """As the administrator, by a token that was made for it."""
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        token = client.call(create_token(client.client))
    properties = token.properties(cluster.client_properties)
    return Access(
        cluster.bootstrap,
        properties["sasl.mechanism"],
        token.token_id,
        token.password,
        authority_of(cluster),
        properties=properties,
    )


def checking_tokens_of(provider: IdentityProvider) -> dict[str, str]:
    """What brokers need to know of `provider`."""
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        OAUTH + "jwks.endpoint.url": provider.jwks_url,
        OAUTH + "expected.audience": AUDIENCE,
        OAUTH + "expected.issuer": ISSUER,
    }
