"""The share coordinator of one partition of ``__share_group_state``, as a pure machine (KIP-932).

A share partition is a topic partition as one share group sees it. `delivery` has the states of its records
and batches of offsets with one state, `key` names it, `state` is what is kept of it, `machine` has the
operations, `record_codec` the records as Kafka writes them. The locks of records are the leader's
(`barnabas.broker.share`); they are not kept.
"""
