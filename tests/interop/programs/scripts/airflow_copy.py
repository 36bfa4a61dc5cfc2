"""Copies a topic by the hooks of Airflow's provider: BOOTSTRAP SOURCE TARGET GROUP FOLDER."""

import json
import os
import sys

bootstrap, source, target, group, folder = sys.argv[1:]
os.environ["AIRFLOW_HOME"] = folder
common = {"bootstrap.servers": bootstrap}
reading = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
for name, extra in (("IN", {**common, **reading}), ("OUT", {**common, "enable.idempotence": True})):
    connection = {"conn_type": "kafka", "extra": extra}
    os.environ[f"AIRFLOW_CONN_KAFKA_{name}"] = json.dumps(connection)

from airflow.providers.apache.kafka.hooks.consume import KafkaConsumerHook  # noqa: E402
from airflow.providers.apache.kafka.hooks.produce import KafkaProducerHook  # noqa: E402
from confluent_kafka import KafkaException  # noqa: E402

consumer = KafkaConsumerHook([source], kafka_config_id="kafka_in").get_consumer()
producer = KafkaProducerHook(kafka_config_id="kafka_out").get_producer()
while True:
    for message in consumer.consume(100, timeout=0.5):
        if message.error() is None:
            producer.produce(target, message.value(), partition=message.partition())
    if producer.flush() == 0:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            print(error, file=sys.stderr)
