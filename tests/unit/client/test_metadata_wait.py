"""Who has made a topic, or ended one, may ask any broker of it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.client import Client
from barnabas.client.metadata_wait import WAIT_MS, until_known, until_unknown
from barnabas.types import Endpoint
from tests.unit.broker.world import Cluster


class Asking:
    """A client of three brokers, one of which, cut off from the others, hears late of what is decided."""

    def __init__(self) -> None:
        self.cluster = Cluster(3)
        self.client = Client(self.cluster.client, [Endpoint("n1", 9092)])
        self.admin = Admin(self.client)
        active = self.cluster.sim.active_controller()
        assert active is not None
        self.late = next(node for node in self.cluster.ids if node != active.id)
        self.links = [(f"n{self.late}", f"n{n}") for n in self.cluster.ids if n != self.late]
        self.links += [(b, a) for a, b in self.links]
        self.call(self.client.cluster.refresh())

    def cut_off(self) -> None:
        self.client.cluster.avoid(self.client.cluster.brokers[self.late])
        for source, target in self.links:
            self.cluster.sim.network.cut(source, target)

    def heal(self) -> None:
        for source, target in self.links:
            self.cluster.sim.network.heal(source, target)

    def begin(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.client.tasks.start(coroutine)

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        task = self.begin(coroutine)
        self.cluster.until(lambda: task.done)
        return task.result()

    def knows(self) -> bool:
        return "t" in self.cluster.broker(self.late).image.topics_by_name


def test_all_brokers_are_waited_for() -> None:
    asking = Asking()
    asking.cut_off()
    (made,) = asking.call(asking.admin.create_topics([NewTopic("t", 1, 2)]))
    waiting = asking.begin(until_known(asking.client, "t", made.topic_id))
    asking.cluster.run(300)
    assert not waiting.done and not asking.knows()
    asking.heal()
    asking.cluster.until(lambda: waiting.done)
    assert asking.knows() and waiting.result() is None

    asking.cut_off()
    asking.call(asking.admin.delete_topics(["t"]))
    waiting = asking.begin(until_unknown(asking.client, "t"))
    asking.cluster.run(300)
    assert not waiting.done and asking.knows()
    asking.heal()
    asking.cluster.until(lambda: waiting.done)
    assert not asking.knows()


def test_a_client_that_is_cut_off_waits_briefly_for_metadata() -> None:
    asking = Asking()
    asking.cut_off()
    (made,) = asking.call(asking.admin.create_topics([NewTopic("t", 1, 2)]))
    began = asking.client.now_ms()
    asking.call(until_known(asking.client, "t", made.topic_id))
    assert WAIT_MS / 2 <= asking.client.now_ms() - began <= 2 * WAIT_MS and not asking.knows()
