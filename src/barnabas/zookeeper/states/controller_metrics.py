"""The metrics of ZooKeeper mode's controller, under the names of Kafka 3.9's ``KafkaController``.

As the quorum's controller counts it, but for the offsets and dates of a metadata log, and with the deletions
that are under way.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.controller.active.metrics import KAFKA, OWN, count_then
from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.zookeeper.states.state_book import StateBook

OF_A_LOG = (f"{KAFKA}LastApplied", f"{KAFKA}LastCommitted")


def count_all(
    decider: QuorumController,
    book: StateBook,
    topics_left_out: int,
    on_counted: Callable[[dict[str, int]], None],
) -> None:
    """Call `on_counted` with every metric by its name, after this turn or some later one."""

    def add(counted: dict[str, int]) -> None:
        found = {name: value for name, value in counted.items() if not name.startswith(OF_A_LOG)}
        to_delete, ineligible = book.deletions()
        found |= {
            f"{KAFKA}TopicsToDeleteCount": len(to_delete),
            f"{KAFKA}ReplicasToDeleteCount": sum(to_delete.values()),
            f"{KAFKA}TopicsIneligibleToDeleteCount": len(ineligible),
            f"{KAFKA}ReplicasIneligibleToDeleteCount": sum(ineligible.values()),
            f"{OWN}TopicsLeftOut": topics_left_out,
        }
        on_counted(found)

    count_then(decider, add)
