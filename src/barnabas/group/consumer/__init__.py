"""Consumer groups: the protocol in which the coordinator assigns (KIP-848).

The group's epoch grows with every change of its members, their subscriptions and their topics'
metadata. Each epoch has a target assignment; each member is reconciled with it on its own: first it
gives up partitions that it no longer has, then it receives partitions that others have given up.
The modules: `member` and `consumer_group` are the state, a function of the records (`records`,
`replay`). `heartbeat` and `leaving` decide, with `target_assignment` (the assignment that all
members shall have, by `assignors`) and `current_assignment` (the next step of one member); `regex`
resolves regular expressions; `classic_members` serves members of the classic protocol in a consumer
group, `upgrade` and `downgrade` convert a group between the kinds; `committing` says who commits
and reads offsets; `describing` is the read side.

Source: ``GroupMetadataManager`` and ``modern.consumer`` of Apache Kafka 4.3; KIP-848, KIP-1101
(topic hashes), KIP-1251 (assignment epochs), KIP-1263 (the interval between assignments).
"""
