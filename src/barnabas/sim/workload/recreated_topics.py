"""A topic that a group reads is deleted, and another one with its name is there at once: the group reads on.

Where that begins is promised nowhere: an offset of the former topic may be one of the other, too. That one
is longer than the former was, so that its last record comes in any case.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.admin import NewTopic
from barnabas.client.consumers.consumer import Consumer, ConsumerSettings
from barnabas.client.consumers.group_member import GroupMemberSettings
from barnabas.client.network.channels import ChannelError
from barnabas.client.producers.producer import Producer, ProducerSettings
from barnabas.client.records import ProducerRecord
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.sim.workload.operator import Operator

REQUEST_TIMEOUT_MS = 5_000.0
FORMER_MAX, LATER = 8, 20
"""Records."""


class RemadeTopic:
    """One such topic, and the member that reads it."""

    def __init__(self, operator: Operator, name: str) -> None:
        self.name = name
        self.seen: set[bytes] = set()
        self.last: bytes | None = None
        """The last record that was written to the topic that stays."""
        group = GroupMemberSettings(session_timeout_ms=6_000, heartbeat_interval_ms=500.0)
        self.consumer = Consumer(
            operator.client,
            f"{name}-group",
            ConsumerSettings(auto_offset_reset="earliest", group=group),
            on_data=self._poll_all,
        )

    def _poll_all(self) -> None:
        while records := self.consumer.poll():
            self.seen.update(record.value or b"" for record in records)

    def late(self) -> str:
        """In words; empty where it has read the last record."""
        if self.consumer.failure is not None:
            return f"the reader of {self.name}, which was recreated: {self.consumer.failure}"
        if self.last is not None and self.last not in self.seen:
            places = {tp: self.consumer.position(tp) for tp in self.consumer.assignment}
            return f"the reader of {self.name}, which was recreated, is at {places}"
        return ""


async def remake_what_is_read(o: Operator) -> None:
    if any(remade.name.startswith(f"{o.name}-") for remade in o.workload.remade):
        return
    remade = RemadeTopic(o, f"{o.name}-read")
    o.workload.remade.append(remade)
    remade.consumer.subscribe([remade.name])
    await _create(o, remade.name)
    await _write(o, remade.name, b"former", o.rng.randrange(1, FORMER_MAX))
    await o.client.tasks.sleep(o.rng.uniform(0, 2_000))
    if o.rng.random() < 0.7:
        try:
            await remade.consumer.commit()
        except (ChannelError, KafkaError):
            pass  # it may be no member yet
    await _delete(o, remade.name)
    await o.client.tasks.sleep(o.rng.choice([0, 0, 500]) * o.rng.random())
    await _create(o, remade.name)
    await o.client.tasks.sleep(o.rng.uniform(0, 500))
    remade.last = await _write(o, remade.name, b"later", LATER)
    o.workload.cluster.world.totals["topics recreated under a reader"] += 1


async def _create(o: Operator, name: str) -> None:
    topic = NewTopic(name, 1, o.workload.replication, {})
    (outcome,) = await o.admin.create_topics([topic], timeout_ms=REQUEST_TIMEOUT_MS)
    if outcome.error is not None and outcome.error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
        raise outcome.error


async def _delete(o: Operator, name: str) -> None:
    (outcome,) = await o.admin.delete_topics([name], timeout_ms=REQUEST_TIMEOUT_MS)
    if outcome.error is not None and outcome.error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise outcome.error


async def _write(o: Operator, name: str, what: bytes, count: int) -> bytes:
    """The last one, which is acknowledged. Raises where it is not."""
    producer = Producer(o.client, ProducerSettings(linger_ms=0.0, delivery_timeout_ms=30_000.0))
    values = [b"%s/%d" % (what, number) for number in range(count)]
    outcomes = [producer.send(ProducerRecord(name, value, None, 0)) for value in values]
    for outcome in outcomes:
        await outcome
    return values[-1]


READ: Mapping[str, Callable[[Operator], Awaitable[None]]] = {
    "remakes what is read": remake_what_is_read
}
