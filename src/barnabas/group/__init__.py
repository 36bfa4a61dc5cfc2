"""The group coordinator: members, generations and committed offsets of one partition's groups.

A pure machine (:class:`~barnabas.group.machine.GroupMachine`): operations get the request and the
instant and return an :class:`~barnabas.group.outcome.Outcome`; deadlines are data. State that must
survive the coordinator is written as records of ``__consumer_offsets`` (`record_codec`); requests
that wait for a rebalance are lost with it.

One table holds groups of several kinds, each a class of its own: `classic_group`, `consumer` (KIP-848),
`share` (KIP-932) and `streams` (KIP-1071). They share the timeline, the deadlines and the offsets. The
modules of share and streams groups are loaded with the first such group.

The modules: `classic_group`, `rebalance`, `join`, `sync` and `membership` are the classic protocol;
`consumer`, `share` and `streams` are the other protocols. `cluster_topics` has the topics as groups
see them, `offset_table` and `offsets` the committed offsets. `queries` is the read side,
`replaying` applies records, and `barnabas.timeline` can undo them until they are committed.

Source: ``GroupMetadataManager`` and ``OffsetMetadataManager`` of Apache Kafka 4.3; KIP-62, KIP-134,
KIP-345, KIP-394, KIP-447, KIP-800, KIP-814, KIP-848, KIP-1043.
"""
