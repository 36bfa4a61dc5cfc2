"""All logs of a broker in its ``log.dirs``: opening, upkeep, cleaning, moving, shutdown.

Source: Kafka's ``LogManager``.
"""
