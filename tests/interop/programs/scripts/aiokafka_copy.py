"""Copies a topic by aiokafka: BOOTSTRAP SOURCE TARGET GROUP."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

bootstrap, source, target, group = sys.argv[1:]


async def main() -> None:
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    await consumer.start()
    while True:
        polled = await consumer.getmany(timeout_ms=500, max_records=100)
        sent = [
            await producer.send(target, record.value, partition=record.partition)
            for records in polled.values()
            for record in records
        ]
        await asyncio.gather(*sent)
        if sent:
            try:
                await consumer.commit()
            except KafkaError as error:
                print(error, file=sys.stderr)


asyncio.run(main())
