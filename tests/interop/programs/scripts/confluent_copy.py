"""Copies a topic by confluent-kafka: BOOTSTRAP SOURCE TARGET GROUP."""

import sys

from confluent_kafka import Consumer, KafkaException, Producer

bootstrap, source, target, group = sys.argv[1:]
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
consumer.subscribe([source])
while True:
    for message in consumer.consume(100, timeout=0.5):
        if message.error() is None:
            producer.produce(target, message.value(), partition=message.partition())
    if producer.flush() == 0:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            print(error, file=sys.stderr)
