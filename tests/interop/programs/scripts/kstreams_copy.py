"""Copies a topic by a stream of kstreams: BOOTSTRAP SOURCE TARGET GROUP."""

import asyncio
import functools
import sys

from kstreams import ConsumerRecord, Send, Stream, create_engine
from kstreams.backends.kafka import Kafka

bootstrap, source, target, group = sys.argv[1:]
backend = Kafka(bootstrap_servers=bootstrap.split(","))
# Its producer asks for one acknowledgement by default; then a killed leader may have the only copy.
producer = functools.partial(backend.producer_class, acks="all", enable_idempotence=True)
engine = create_engine(title=group, backend=backend, producer_class=producer)


@engine.stream(source, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
async def copy(record: ConsumerRecord, send: Send, stream: Stream):
    await send(target, value=record.value)
    await stream.commit()


async def main():
    await engine.start()
    await asyncio.Event().wait()


asyncio.run(main())
