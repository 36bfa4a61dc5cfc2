"""A real replicated cluster for tests: node processes on loopback, to kill and to pause.

:mod:`barnabas.testing.cluster` starts one; :mod:`barnabas.testing.plugin` is the pytest plugin with the
fixture ``kafka_cluster`` and its relatives.
"""
