"""The four states that a partition can be in.

* NonExistent: there is no record of it, or its topic was deleted.
* New: created, and it has never had a leader (its replicas were fenced).
* Online: it has a leader. Offline: it had one and has none now.

Source: the partition state machine of Kafka's controller.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.metadata.image.topic import NO_LEADER, Topic

NON_EXISTENT, NEW, ONLINE, OFFLINE = "NonExistent", "New", "Online", "Offline"
STATES = (NON_EXISTENT, NEW, ONLINE, OFFLINE)
FIRST_EPOCH = 0
"""The leader epoch that a partition is created in."""


def state_of(leader: int, leader_epoch: int) -> str:
    """The state of a partition that exists."""
    if leader != NO_LEADER:
        return ONLINE
    return NEW if leader_epoch <= FIRST_EPOCH else OFFLINE


def count_states(topics: Iterable[Topic]) -> dict[str, int]:
    """How many partitions are in each state that an existing one can be in."""
    counts = dict.fromkeys((NEW, ONLINE, OFFLINE), 0)
    for topic in topics:
        without = topic.leader.count(NO_LEADER)
        counts[ONLINE] += len(topic) - without
        if without:
            for index, leader in enumerate(topic.leader):
                if leader == NO_LEADER and topic.replicas[index]:
                    counts[state_of(leader, topic.leader_epoch[index])] += 1
    return counts
