"""A node's properties from variables and a mounted file, as Apache Kafka's image takes them.

``KAFKA_NODE_ID=1`` is ``node.id=1``: one underscore is a dot, two are an underscore, three are a dash. A
``server.properties`` that is mounted at `MOUNTED` comes first and variables win. Without either the node is a
cluster of its own. Two things differ from that image: data go to its volume where ``log.dirs`` says nothing,
and ``metrics.listeners`` has a loopback address, which ``barnabas node health`` asks.

Source: ``docker/`` of Apache Kafka 4.4 (KIP-975).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from barnabas.cli.failure import Failure
from barnabas.config.properties import parse_properties

PREFIX = "KAFKA_"
MOUNTED = Path("/mnt/shared/config/server.properties")
SECRETS = Path("/etc/kafka/secrets")
DATA = "/var/lib/kafka/data"
METRICS = "http://127.0.0.1:9404"
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
"""The id that Apache Kafka's image gives a cluster whose `CLUSTER_ID` nothing sets."""
NO_PROPERTIES = frozenset(
    PREFIX + name
    for name in (
        "VERSION", "HEAP_OPTS", "LOG4J_OPTS", "OPTS", "JMX_OPTS", "JVM_PERFORMANCE_OPTS", "GC_LOG_OPTS",
        "LOG4J_ROOT_LOGLEVEL", "LOG4J_LOGGERS", "TOOLS_LOG4J_LOGLEVEL", "JMX_HOSTNAME", "JMX_PORT",
        "SSL_KEYSTORE_FILENAME", "SSL_KEY_CREDENTIALS", "SSL_KEYSTORE_CREDENTIALS",
        "SSL_TRUSTSTORE_FILENAME", "SSL_TRUSTSTORE_CREDENTIALS",
    )
)  # fmt: skip
"""Variables that the image knows and that are no property: those of its JVM, and names of files."""
ALONE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""The properties of a node to which nothing gives any."""


def property_of(variable: str) -> str:
    """The property that a variable sets."""
    name = variable.removeprefix(PREFIX).lower().replace("_", ".")
    return name.replace("...", "-").replace("..", "_")


def node_properties(
    environment: Mapping[str, str], mounted: Path = MOUNTED, secrets: Path = SECRETS
) -> dict[str, str]:
    """The properties of the node. Raises :class:`Failure` where files or variables contradict each other."""
    _refuse_jaas_file(environment)
    given = _mounted_properties(mounted)
    given |= {
        property_of(name): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and name not in NO_PROPERTIES
    }
    properties = given or dict(ALONE)
    if properties.get("process.roles") == "controller":
        if properties.pop("advertised.listeners", ""):
            raise Failure(
                "KAFKA_ADVERTISED_LISTENERS is for brokers: this node is a controller only"
            )
    advertised = properties.get("advertised.listeners", "")
    if advertised and not properties.get("listeners"):
        properties["listeners"] = re.sub(r"://(\[[^]]*\]|[^:]*):", "://0.0.0.0:", advertised)
    properties |= _stores(environment, advertised, secrets)
    if "log.dirs" not in properties and "log.dir" not in properties:
        properties["log.dirs"] = DATA
    return {"metrics.listeners": METRICS, **properties}


def cluster_id(environment: Mapping[str, str]) -> str:
    return environment.get("CLUSTER_ID") or CLUSTER_ID


def _mounted_properties(path: Path) -> dict[str, str]:
    try:
        return dict(parse_properties(path.read_text(encoding="utf-8", errors="replace")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Failure(f"{path} cannot be read: {error}") from error


def _refuse_jaas_file(environment: Mapping[str, str]) -> None:
    if "java.security.auth.login.config" in environment.get(f"{PREFIX}OPTS", ""):
        raise Failure(
            "KAFKA_OPTS names a JAAS file, which is Java's: set the listener's own property instead, such as"
            " KAFKA_LISTENER_NAME_SASL__PLAINTEXT_PLAIN_SASL_JAAS_CONFIG"
        )


def _stores(environment: Mapping[str, str], advertised: str, secrets: Path) -> dict[str, str]:
    """Locations and passwords of the key store and the trust store, whose files' names variables give."""
    if "SSL://" not in advertised:
        return {}
    found = {}
    for store in ("KEYSTORE", "TRUSTSTORE"):
        name = environment.get(f"{PREFIX}SSL_{store}_FILENAME")
        if name:
            found[f"ssl.{store.lower()}.location"] = str(_existing(secrets / name))
    for password in ("KEY", "KEYSTORE", "TRUSTSTORE"):
        name = environment.get(f"{PREFIX}SSL_{password}_CREDENTIALS")
        if name:
            text = _existing(secrets / name).read_text(encoding="utf-8")
            found[f"ssl.{password.lower()}.password"] = text.rstrip("\n")
    return found


def _existing(path: Path) -> Path:
    if not path.exists():
        raise Failure(f"{path} does not exist")
    return path
