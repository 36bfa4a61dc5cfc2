"""Clients that are connected before a node dies: how long each of them waits to do its next thing.

A `Client` acts when it is asked. A producer has a record acknowledged in every partition: its key is the
producer's name, its value the number of the act. A group's member reads such a record of every partition and
commits. An admin client creates a topic and asks for a group's offsets. `Deaths` kills a node by kill -9, has
all of them act at that moment, and notes how long each takes.
Between two deaths the cluster is whole again, and each client has acted once.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from barnabas.broker.coordinator.coordinators import partition_of
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from barnabas.types import OFFSETS_TOPIC
from tests.clients.access import Access
from tests.clients.checks import fresh, wait_for
from tests.process.load import wait_until_whole

PARTITIONS = 3
OFFSETS_PARTITIONS = 50
"""Of ``__consumer_offsets``, by default."""
KINDS = ("leader", "coordinator", "controller")
PATIENCE_S = 60.0
FAILURES_KEPT = 3
"""The last of a member's failures: one that fails at once each time has millions within its patience."""


class Client(Protocol):
    """One that stays connected; `name` says whose it is and what it does."""

    name: str

    def act(self, number: int) -> None:
        """Act for the `number`-th time; returns when it is done."""

    def close(self) -> None: ...


class Member:
    """A group's member: polls all the time, and commits what it has read."""

    def __init__(
        self, name: str, poll: Callable[[], list[tuple[int, int]]], commit: Callable[[], object]
    ) -> None:
        """`poll` gives (partition, number of the act) of each record that came."""
        self.name = name
        self._poll = poll
        self._commit = commit
        self._seen = dict.fromkeys(range(PARTITIONS), -1)
        self._committed = -1
        self._news = threading.Condition()
        self._ended = False
        self.failures: deque[Exception] = deque(maxlen=FAILURES_KEPT)
        """What polls and commits raised: it tries again, as applications do."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended:
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - whatever a client raises
                self.failures.append(error)

    def _turn(self) -> None:
        for partition, number in self._poll():
            self._seen[partition] = max(self._seen[partition], number)
        seen = min(self._seen.values())
        if seen > self._committed:
            self._commit()
            with self._news:
                self._committed = seen
                self._news.notify_all()

    def act(self, number: int) -> None:
        with self._news:
            done = self._news.wait_for(lambda: self._committed >= number, PATIENCE_S)
        assert done, f"{self.name} read up to {self._seen}, {[*self.failures]}"

    def close(self) -> None:
        self._ended = True
        self._thread.join(PATIENCE_S)


def groups_of_one_coordinator(count: int) -> list[str]:
    """Names of groups that one partition of ``__consumer_offsets`` keeps."""
    found: dict[int, list[str]] = {}
    while True:
        name = fresh("group")
        names = found.setdefault(partition_of(name, OFFSETS_PARTITIONS), [])
        names.append(name)
        if len(names) == count:
            return names


def act_at_once(
    clients: list[Client], number: int, given_up: list[str] | None = None
) -> dict[str, float]:
    """All act at the same moment; the seconds that each took. Raises what one of them raised; where
    `given_up` is a list it gets the names of those instead, with why, and their time is when they raised."""
    began = time.monotonic()
    took: dict[str, float] = {}
    failures: list[Exception] = []

    def act(client: Client) -> None:
        try:
            client.act(number)
        except Exception as error:  # noqa: BLE001 - raised in the caller's thread
            if given_up is None:
                failures.append(error)
                return
            given_up.append(f"{client.name}: {error}")
        took[client.name] = time.monotonic() - began

    threads = [threading.Thread(target=act, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise ExceptionGroup("clients that gave up", failures)
    return took


def dies_as(access: Access, kind: str, topic: str, group: str) -> int:
    """The node that leads partition 0 of `topic`, coordinates `group`, or is the active controller."""
    if kind == "coordinator":
        topic, partition = OFFSETS_TOPIC, partition_of(group, OFFSETS_PARTITIONS)
    else:
        partition = 0
    with connect(access.bootstrap, properties=access.properties) as client:
        if kind == "controller":
            return client.call(client.admin.describe_quorum()).leader_id
        wait_for(lambda: client.topic(topic).partitions[partition].leader >= 0, "a leader")
        return client.topic(topic).partitions[partition].leader


class Deaths:
    """Kills the node that has a role, and times what the clients do from that moment on."""

    def __init__(
        self,
        cluster: Cluster,
        access: Access,
        topic: str,
        group: str,
        clients: list[Client],
        new_clients: Callable[[], list[Client]] | None = None,
    ) -> None:
        """`access` is for asking who has a role. `new_clients` makes clients that connect while a node is
        dead: they act once as well."""
        self.cluster = cluster
        self.topic = topic
        self.clients = clients
        self._access = access
        self._group = group
        self._new_clients = new_clients
        self._number = 0
        self.seconds: dict[tuple[str, str], list[float]] = {}
        """By client and kind of death."""
        self.acted: list[tuple[str, int]] = []
        """Who acted, and the number of the act."""

    def all_act(self) -> dict[str, float]:
        self._number += 1
        took = act_at_once(self.clients, self._number)
        self.acted += [(name, self._number) for name in took]
        return took

    def play(self, kind: str) -> int:
        """One death, from a whole cluster to a whole cluster; who died."""
        self.all_act()
        victim = dies_as(self._access, kind, self.topic, self._group)
        self.cluster.kill(victim)
        try:
            for name, seconds in self.all_act().items():
                self.seconds.setdefault((name, kind), []).append(seconds)
            if self._new_clients is not None:
                self._let_new_clients_act(self._new_clients())
        finally:  # the tests that follow have a whole cluster
            self.cluster.restart(victim)
        wait_until_whole(self.cluster, self.topic)
        wait_until_whole(self.cluster, OFFSETS_TOPIC)
        return victim

    def _let_new_clients_act(self, clients: list[Client]) -> None:
        try:
            took = act_at_once(clients, self._number)
            self.acted += [(name, self._number) for name in took]
        finally:
            close_all(clients)

    def check_nothing_is_lost(self) -> None:
        """Every record that was acknowledged to one of the producers is in the topic. A producer writes its
        name as the key, and the number of its act as the value, to each partition."""
        with connect(self._access.bootstrap, properties=self._access.properties) as client:
            there = {
                (bytes(record.key or b"").decode(), int(record.value or b"-1"), record.partition)
                for record in client.read([self.topic])
            }
        promised = {
            (name, number, partition)
            for name, number in self.acted
            if name.endswith("producer")
            for partition in range(PARTITIONS)
        }
        assert promised and promised <= there, sorted(promised - there)

    def table(self) -> str:
        """The worst and the median of each, in seconds."""
        lines = []
        for (name, kind), seconds in sorted(self.seconds.items()):
            ordered = sorted(seconds)
            lines.append(
                f"{name:24} {kind + ' dies':18} worst {ordered[-1]:6.3f}"
                f"  median {ordered[len(ordered) // 2]:6.3f}  of {len(ordered)}"
            )
        return "\n".join(lines)

    def worst(self) -> float:
        return max(max(seconds) for seconds in self.seconds.values())

    def close(self) -> None:
        close_all(self.clients)


def close_all(clients: list[Client]) -> None:
    """Whatever state they are in."""
    for client in clients:
        with contextlib.suppress(Exception):
            client.close()
