"""Copies a topic by Arroyo's steps: BOOTSTRAP SOURCE TARGET GROUP."""

import sys

from arroyo.backends.kafka import KafkaConsumer, KafkaProducer
from arroyo.backends.kafka.configuration import (
    build_kafka_configuration,
    build_kafka_consumer_configuration,
)
from arroyo.commit import ONCE_PER_SECOND
from arroyo.processing import StreamProcessor
from arroyo.processing.strategies import CommitOffsets, ProcessingStrategyFactory, Produce
from arroyo.types import Topic

bootstrap, source, target, group = sys.argv[1:]
producer = KafkaProducer(
    build_kafka_configuration(
        {}, bootstrap.split(","), {"enable.idempotence": True, "linger.ms": 5}
    )
)


class Copies(ProcessingStrategyFactory):
    def create_with_partitions(self, commit, partitions):
        return Produce(producer, Topic(target), CommitOffsets(commit))


consumer = KafkaConsumer(
    build_kafka_consumer_configuration(
        {}, group, "earliest", bootstrap_servers=bootstrap.split(",")
    )
)
StreamProcessor(consumer, Topic(source), Copies(), ONCE_PER_SECOND).run()
