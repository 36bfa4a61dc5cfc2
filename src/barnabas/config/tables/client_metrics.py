"""The keys of a subscription to clients' metrics (KIP-714).

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
metrics | list | "" | list | cluster-wide | medium
    What the names of the metrics begin with that clients shall send; * is all of them.
interval.ms | int | 300000 | any | cluster-wide | medium
    How often clients shall send, in milliseconds: from 100 to 3600000.
match | list | "" | list | cluster-wide | medium
    Which clients: name=pattern, all of which must fit; none is all clients.
"""
