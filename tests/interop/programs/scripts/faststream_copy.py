"""Copies a topic by FastStream: BOOTSTRAP SOURCE TARGET GROUP."""

import asyncio
import sys

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker, KafkaMessage

bootstrap, source, target, group = sys.argv[1:]
broker = KafkaBroker(bootstrap.split(","), acks="all", enable_idempotence=True, logger=None)


@broker.subscriber(
    source, group_id=group, auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR
)
@broker.publisher(target)
async def copy(message: KafkaMessage) -> bytes:
    return message.body


asyncio.run(FastStream(broker, logger=None).run())
