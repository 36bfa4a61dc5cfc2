"""Topics with a znode that cannot be read: the controller leaves them out, and serves all others.

A block of producer ids that cannot be read costs new ids: none is allocated until the znode can be read, for
a block that is not known would be given out twice.

Nothing is elected, ordered or written for such a topic; brokers serve it with what they know. Its name stays
taken, and a request for its deletion waits. The znode is watched: once it can be read, or is gone, this
controller resigns, and the next one reads everything.

Kafka 3.9 takes a state znode that is no JSON for a missing one, so that the partition stays in state New; a
field that is missing in the JSON ends the leadership of every controller that is elected
(``TopicPartitionStateZNode.decode``, ``KafkaController.elect``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from barnabas.ports import Ports
from barnabas.zookeeper.errors import NoNode, ZooKeeperError
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.layout.topic_znodes import STATE_PATH, TOPICS
from barnabas.zookeeper.layout.znode_table import decode_znode
from barnabas.zookeeper.operations import GetData, NodeData
from barnabas.zookeeper.states.controller_steps import ControllerSteps


class UnreadableTopics:
    """Those of the present controller epoch."""

    def __init__(
        self,
        ports: Ports,
        steps: ControllerSteps,
        ask: Callable[[Any, Any], None],
        resign: Callable[[str], None],
    ) -> None:
        """`ask` reads while this broker is the controller, and logs a `MalformedZnode` of the callback."""
        self._ports = ports
        self._steps = steps
        self._ask = ask
        self._resign = resign
        self._topics: dict[str, MalformedZnode] = {}
        self._watched: dict[str, None] = {}
        """Paths of the znodes."""
        self.producer_ids: MalformedZnode | None = None
        """Why no producer ids are allocated."""

    def __contains__(self, name: object) -> bool:
        return name in self._topics

    def __len__(self) -> int:
        return len(self._topics)

    def why(self, name: str) -> str:
        return str(self._topics[name])

    def begin(
        self, errors: Iterable[MalformedZnode], producer_ids: MalformedZnode | None = None
    ) -> None:
        """Begin with those that a new controller has found."""
        self.end()
        for error in errors:
            self.add(error)
        if producer_ids is not None:
            self.producer_ids = producer_ids
            self._ports.log("error", "controller.producer_ids_withheld", error=producer_ids)
            self._watched[producer_ids.path] = None
            self.look_at(producer_ids.path)

    def end(self) -> None:
        """This broker is no longer the controller."""
        self._topics.clear()
        self._watched.clear()
        self.producer_ids = None

    def add(self, error: MalformedZnode) -> None:
        name = topic_of(error.path)
        if name not in self._topics:
            self._topics[name] = error
            self._steps.on_unreadable(name, str(error))
            self._ports.log("error", "controller.topic_left_out", topic=name, error=error)
        self._watched[error.path] = None
        self.look_at(error.path)

    def is_watched(self, path: str) -> bool:
        return path in self._watched

    def look_at(self, path: str) -> None:
        """Read the znode again, and watch it."""
        self._ask(GetData(path, watch=True), partial(self._on_data, path))

    def _on_data(self, path: str, result: NodeData | ZooKeeperError) -> None:
        if isinstance(result, NodeData):
            decode_znode(path, result.data)
        elif not isinstance(result, NoNode):
            return
        self._resign(f"znode {path}, which could not be read, can be read, or is gone")

    def describe(self) -> dict[str, str]:
        return {name: str(error) for name, error in self._topics.items()}

    def __repr__(self) -> str:
        return f"UnreadableTopics({sorted(self._topics)})"


def topic_of(path: str) -> str:
    """The topic of an assignment's or a state's znode."""
    state = STATE_PATH.fullmatch(path)
    return path.removeprefix(f"{TOPICS}/") if state is None else state[1]


def is_of_topic(path: str) -> bool:
    """Whether a topic's assignment or the state of one of its partitions is at `path`."""
    return path.startswith(f"{TOPICS}/")
