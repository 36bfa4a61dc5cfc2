"""Messages of Kafka 3.9 that Kafka 4 no longer has: the controller's commands to brokers."""
