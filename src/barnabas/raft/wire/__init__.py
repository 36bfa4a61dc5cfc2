"""The quorum's messages as values and as Kafka's protocol."""
