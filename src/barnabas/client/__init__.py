"""A sans-IO client of Kafka brokers: connections, metadata, producer, consumer, administration."""
