"""The four-letter words: what an operator asks a server on its client port.

Source: ZooKeeper's administrator's guide; ``org.apache.zookeeper.server.command``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from barnabas import __version__

WORDS = frozenset((
    "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok", "srst", "srvr",
    "stat", "stmk", "wchc", "wchp", "wchs",
))  # fmt: skip
"""Those of ZooKeeper; anything else is a frame's length."""
SERVED = ("conf", "envi", "isro", "mntr", "ruok", "srvr", "stat")
LEVEL = "3.9.3"
"""The ZooKeeper whose client protocol is served: tools compare it."""
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"


class ServerStats:
    """Counts of one server. Times are milliseconds."""

    def __init__(self) -> None:
        self.received = self.sent = self.answered = 0
        self.latency_max = self.latency_sum = 0.0
        self.latency_min = 0.0

    def on_answered(self, waited_ms: float) -> None:
        self.latency_min = waited_ms if not self.answered else min(self.latency_min, waited_ms)
        self.answered += 1
        self.latency_sum += waited_ms
        self.latency_max = max(self.latency_max, waited_ms)

    @property
    def latency_average(self) -> float:
        return self.latency_sum / self.answered if self.answered else 0.0


class Facts(NamedTuple):
    """The facts that the words tell of a server."""

    stats: ServerStats
    mode: str
    """standalone, leader, follower; empty where it does not serve."""
    zxid: int
    znodes: int
    ephemerals: int
    data_bytes: int
    watches: int
    outstanding: int
    clients: tuple[str, ...]
    """One line each."""
    settings: tuple[tuple[str, object], ...]
    followers: int


def answer(word: str, whitelist: Collection[str], facts: Callable[[], Facts]) -> str:
    """The text that `word` is answered with."""
    if word not in SERVED or not ({word, "*"} & set(whitelist)):
        return f"{word} is not executed because it is not in the whitelist.\n"
    if word == "ruok":
        return "imok"
    if word == "envi":
        return f"Environment:\nzookeeper.version={_version()}\n"
    if word == "conf":
        return "".join(f"{key}={value}\n" for key, value in facts().settings)
    found = facts()
    if not found.mode:
        return NOT_SERVING
    if word == "isro":
        return "rw"
    return _mntr(found) if word == "mntr" else _summary(found, with_clients=word == "stat")


def _version() -> str:
    return f"{LEVEL}-barnabas-{__version__}, built on the quorum of Barnabas"


def _summary(facts: Facts, *, with_clients: bool) -> str:
    stats = facts.stats
    times = f"{stats.latency_min:.0f}/{stats.latency_average:.4f}/{stats.latency_max:.0f}"
    lines = [f"Zookeeper version: {_version()}"]
    if with_clients:
        lines += ["Clients:", *facts.clients, ""]
    lines += [
        f"Latency min/avg/max: {times}",
        f"Received: {stats.received}",
        f"Sent: {stats.sent}",
        f"Connections: {len(facts.clients)}",
        f"Outstanding: {facts.outstanding}",
        f"Zxid: {facts.zxid:#x}",
        f"Mode: {facts.mode}",
        f"Node count: {facts.znodes}",
    ]
    return "\n".join(lines) + "\n"


def _mntr(facts: Facts) -> str:
    stats = facts.stats
    values: list[tuple[str, object]] = [
        ("version", _version()),
        ("server_state", facts.mode),
        ("avg_latency", f"{stats.latency_average:.4f}"),
        ("max_latency", f"{stats.latency_max:.0f}"),
        ("min_latency", f"{stats.latency_min:.0f}"),
        ("packets_received", stats.received),
        ("packets_sent", stats.sent),
        ("num_alive_connections", len(facts.clients)),
        ("outstanding_requests", facts.outstanding),
        ("znode_count", facts.znodes),
        ("watch_count", facts.watches),
        ("ephemerals_count", facts.ephemerals),
        ("approximate_data_size", facts.data_bytes),
    ]
    if facts.mode == "leader":
        values.append(("synced_followers", facts.followers))
    return "".join(f"zk_{name}\t{value}\n" for name, value in values)
