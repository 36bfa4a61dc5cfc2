"""The producer: record accumulator, batches in order, acknowledgements.

Source: Kafka's ``KafkaProducer``, ``RecordAccumulator``, ``Sender``.
"""
