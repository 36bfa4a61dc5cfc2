"""The share coordinator of one partition of ``__share_group_state``, as a pure machine (KIP-932).

A share partition is a topic partition for one share group. `key` names it, `state` is its kept
state, and `delivery` has the states of its records and batches of offsets with one state. `machine`
has the operations, `record_codec` the records in Kafka's format. The leader keeps the locks of
records (`barnabas.broker.share`); they are not written.
"""
