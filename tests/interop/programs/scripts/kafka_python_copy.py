"""Copies a topic by kafka-python: BOOTSTRAP SOURCE TARGET GROUP."""

import sys

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

bootstrap, source, target, group = sys.argv[1:]
servers = bootstrap.split(",")
consumer = KafkaConsumer(
    source,
    bootstrap_servers=servers,
    group_id=group,
    auto_offset_reset="earliest",
    enable_auto_commit=False,
)
producer = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)
while True:
    polled = consumer.poll(timeout_ms=500, max_records=100)
    sent = [
        producer.send(target, record.value, partition=record.partition)
        for records in polled.values()
        for record in records
    ]
    for future in sent:
        future.get(timeout=120)
    if sent:
        try:
            consumer.commit()
        except KafkaError as error:
            print(error, file=sys.stderr)
