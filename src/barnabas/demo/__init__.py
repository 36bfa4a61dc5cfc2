"""``make demo``: three nodes, a year of flights, a killed leader, and Spark at the end.

Orchestrates what everyday use offers (``barnabas up``, ``barnabas node start``, any Kafka client,
``format("barnabas")``) and checks the outcome against figures that owe nothing to any of it.

:mod:`story` tells it step by step. :mod:`flights` reads the data and knows the truth,
:mod:`producer` streams it, :mod:`failover` measures what a killed leader costs, :mod:`job` is the
Spark program (a process of its own, :mod:`spark_process` its other end), :mod:`outcome` reads what
landed and compares, :mod:`progress` shows it all.
"""
