"""The acts of members of groups beside reading: they seek back, pause, change their subscription, or
block for so long that their group continues without them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.offsets import EARLIEST
from barnabas.ports import Rng
from barnabas.sim.world.process import SimProcess

if TYPE_CHECKING:
    from barnabas.sim.workload.consumers import ConsumerClient

STALL_MS = (300.0, 3_000.0, 8_000.0)
"""The last one is longer than a member's session."""


async def seek(c: ConsumerClient, rng: Rng) -> None:
    """Back to a place that it has passed, or to the beginning."""
    consumer = c.consumer
    for tp in consumer.assignment:
        position = consumer.position(tp)
        if position is not None and rng.random() < 0.5:
            if rng.random() < 0.3:
                consumer.seek(tp, EARLIEST)
                c.reading.last.pop(tp, None)
            else:
                offset = rng.randrange(position + 1)
                consumer.seek(tp, offset)
                c.reading.last[tp] = offset - 1


async def pause(c: ConsumerClient, rng: Rng) -> None:
    """Some partitions, for a while; a rebalance ends that, too."""
    consumer = c.consumer
    for tp in consumer.assignment:
        if rng.random() < 0.5:
            consumer.pause(tp)
            c.paused.add(tp)
    await c.client.tasks.sleep(rng.uniform(0, 1_000))
    for tp in consumer.assignment if consumer is c.consumer else ():
        consumer.pause(tp, paused=False)
    c.paused.clear()


async def subscribe_again(c: ConsumerClient, rng: Rng) -> None:
    """Now and then twice in a row: the group rebalances already."""
    for _ in range(rng.choice([1, 1, 2])):
        topics = [topic for topic in c.plan.topics if rng.random() < 0.7]
        c.topics = tuple(topics or c.plan.topics)
        c.consumer.subscribe(c.topics)
        await c.client.tasks.sleep(rng.uniform(0, 300))


async def stall(c: ConsumerClient, rng: Rng) -> None:
    process = c.client.ports
    assert isinstance(process, SimProcess)
    process.pause(rng.choice(STALL_MS))


WHIMS: Mapping[str, Callable[[ConsumerClient, Rng], Awaitable[None]]] = {
    "seeks": seek,
    "pauses": pause,
    "subscribes again": subscribe_again,
    "stalls": stall,
}
