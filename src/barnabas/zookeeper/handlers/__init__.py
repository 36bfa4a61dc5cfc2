"""The APIs by which a controller of ZooKeeper mode gives orders to brokers, one module each.

Source: Kafka 3.9's ``KafkaApis``.
"""
