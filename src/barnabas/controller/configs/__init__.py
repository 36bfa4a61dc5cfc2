"""Decisions about configuration, feature levels and producer ids.

Source: Kafka's ``ConfigurationControlManager``, ``FeatureControlManager``,
``ProducerIdControlManager``.
"""
