"""Share groups: members share the records of their partitions (KIP-932).

Several members may have one partition, so that nothing has to be given up before it is given on: a member
has its new assignment with its next heartbeat. A partition is assigned once its state is initialized at
the share coordinator.

Where what is: `share_group` is the state, a function of the records (`records`, `replay`); `heartbeat` and
`leaving` decide, with `simple` (the assignor); `state_topics` says of which partitions the share
coordinator has state, `offsets` changes and deletes that; `describing` is the read side. A node loads none
of it before its first share group.

Source: ``GroupMetadataManager`` and ``modern.share`` of Apache Kafka 4.3; KIP-932, KIP-1043.
"""
