"""A producer, a group's member and an admin client of Barnabas' own that stay connected."""

from __future__ import annotations

from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected, connect
from tests.clients.access import Access
from tests.clients.checks import fresh
from tests.clients.connected import PARTITIONS, Client, Member


def connected(access: Access) -> Connected:
    return connect(access.bootstrap, properties=access.properties)


class OurProducer:
    name = "own producer"

    def __init__(self, access: Access, topic: str) -> None:
        self._topic = topic
        self._client = connected(access)
        self._producer = self._client.producer()

    def act(self, number: int) -> None:
        key, value = self.name.encode(), b"%d" % number
        for partition in range(PARTITIONS):
            self._producer.send(ProducerRecord(self._topic, value, key, partition=partition))
        self._producer.flush()

    def close(self) -> None:
        self._client.close()


class OurAdmin:
    name = "own admin"

    def __init__(self, access: Access, group: str) -> None:
        self._group = group
        self._client = connected(access)

    def act(self, number: int) -> None:
        self._client.create_topic(fresh("by-own"), 1, 2)
        self._client.committed(self._group)

    def close(self) -> None:
        self._client.close()


class OurMember(Member):
    def __init__(self, access: Access, topic: str, group: str) -> None:
        self._client = connected(access)
        settings = ConsumerSettings(auto_offset_reset="earliest")
        self._consumer = self._client.consumer(group, settings)
        self._consumer.inner.subscribe([topic])
        super().__init__("own member", self._read, self._consumer.commit)

    def _read(self) -> list[tuple[int, int]]:
        records = self._consumer.poll(20)
        return [(record.partition, int(record.value or b"-1")) for record in records]

    def close(self) -> None:
        super().close()
        self._consumer.close()
        self._client.close()


def our_clients(access: Access, topic: str, group: str) -> list[Client]:
    return [OurProducer(access, topic), OurMember(access, topic, group), OurAdmin(access, group)]
