"""Kafka's configuration keys: names, types, defaults, bounds, who may change them and when.

`definition` has the kinds of keys and the checks, `tables/` the keys themselves as text,
`properties` reads a ``server.properties``, `node` gives one node's settings as typed values,
`topic` what holds for one topic, `group` for one group, `quota` for clients. Nothing here
acts on a value. Source: Apache Kafka 4.4.0's definitions.
"""
