"""The group coordinator: members, generations and committed offsets of one partition's groups.

A pure machine (:class:`~barnabas.group.machine.GroupMachine`): operations get the request and the
instant and return an :class:`~barnabas.group.outcome.Outcome`; deadlines are data. What must
survive the coordinator stands in records of ``__consumer_offsets`` (`record_codec`); who waits for
a rebalance does not.

Where what is: `classic_group` and `rebalance`, `join`, `sync`, `membership` are the classic
protocol, `offset_table` and `offsets` the committed offsets, `queries` the read side, `timeline`
what makes records undoable before they are committed. The consumer, share and streams protocols
(KIP-848, KIP-932, KIP-1071) are not here yet; their groups come beside `classic_group`, their
records pass `record_codec` unread until then.

Source: ``GroupMetadataManager`` and ``OffsetMetadataManager`` of Apache Kafka 4.3; KIP-62, KIP-134,
KIP-345, KIP-394, KIP-447, KIP-800, KIP-814.
"""
