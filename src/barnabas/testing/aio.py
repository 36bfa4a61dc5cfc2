"""Producers and consumers of aiokafka for a cluster of a test, on whatever loop the test runs."""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    from barnabas.testing.cluster import Cluster


class AiokafkaClients:
    """Makes clients of one cluster, as its administrator where it is secure."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a client of aiokafka: addresses, and security where the cluster has it."""
        found: dict[str, Any] = {"bootstrap_servers": self._cluster.bootstrap}
        properties = self._cluster.client_properties
        if properties:
            jaas = properties["sasl.jaas.config"]
            found |= {
                "security_protocol": properties["security.protocol"],
                "sasl_mechanism": properties["sasl.mechanism"],
                "sasl_plain_username": _quoted(jaas, "username"),
                "sasl_plain_password": _quoted(jaas, "password"),
                "ssl_context": ssl.create_default_context(
                    cafile=properties["ssl.truststore.location"]
                ),
            }
        return found

    def producer(self, **settings: Any) -> AIOKafkaProducer:
        from aiokafka import AIOKafkaProducer

        return AIOKafkaProducer(**{**self.settings, **settings})

    def consumer(self, *topics: str, **settings: Any) -> AIOKafkaConsumer:
        """A consumer that begins with the first record."""
        from aiokafka import AIOKafkaConsumer

        chosen = {**self.settings, "auto_offset_reset": "earliest", **settings}
        return AIOKafkaConsumer(*topics, **chosen)


def _quoted(jaas: str, name: str) -> str:
    """A value of the line that Kafka's clients call ``sasl.jaas.config``. Raises ``ValueError``."""
    found = re.search(rf'{name}="([^"]*)"', jaas)
    if found is None:
        raise ValueError(f"sasl.jaas.config has no {name}")
    return found[1]
