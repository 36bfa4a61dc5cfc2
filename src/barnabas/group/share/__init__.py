"""Share groups: members share the records of their partitions (KIP-932).

Several members may have one partition, so no member has to give up a partition before another one
gets it: a member has its new assignment with its next heartbeat. A partition is assigned once its
state is initialized at the share coordinator.

The modules: `share_group` is the state, a function of the records (`records`, `replay`).
`heartbeat` and `leaving` decide, with `simple` (the assignor). `state_topics` has the partitions
with state at the share coordinator, and `offsets` changes and deletes such states. `describing` is
the read side. A node loads none of these modules before its first share group.

Source: ``GroupMetadataManager`` and ``modern.share`` of Apache Kafka 4.3; KIP-932, KIP-1043.
"""
