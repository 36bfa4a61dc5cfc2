"""Streams groups: the members of one Kafka Streams application share its tasks (KIP-1071).

A member says with its first heartbeat what its topology is: subtopologies with source, repartition and
changelog topics. A task is one subtopology and one partition of its sources. The coordinator checks the
topology against the topics that exist, has internal topics created that are missing, assigns every task
to one member as *active* and to others as *standby*, and moves tasks so that no task is active twice.

Where what is: `streams_group` is the state, a function of the records (`records`, `replay`); `topology` is
what members sent, `configured_topology` what it means with the topics that exist; `heartbeat` decides with
`joining`, `sticky` (the assignor) and `current_assignment`, and `answering` says it; `leaving` and
`deadlines` remove members; `committing` and `describing` are for offsets and tools. A node loads none of it
before its first streams group.

Source: ``GroupMetadataManager`` and the package ``streams`` beside it of Apache Kafka 4.4; KIP-1071,
KIP-1284, KIP-1331.
"""
