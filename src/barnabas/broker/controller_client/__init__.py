"""A broker's requests to the active controller: lifecycle, forwarding, producer ids, new topics.

Source: Kafka's ``NodeToControllerChannelManager``, ``ForwardingManager``,
``BrokerLifecycleManager``.
"""
