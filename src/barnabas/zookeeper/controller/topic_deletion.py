"""Topics that are being deleted: their replicas first, on every broker, then their znodes.

A topic leaves the controller's image when its deletion is decided, which
``/admin/delete_topics/<name>`` records. Each replica is then ReplicaDeletionStarted where its broker
lives, ReplicaDeletionIneligible where it does not, and ReplicaDeletionSuccessful when the broker has
answered StopReplica. When all are, the znodes go. A broker that returns is asked again; a new
controller finds the names in ``/admin/delete_topics``.

Source: Kafka's ``TopicDeletionManager`` and ``ReplicaStateMachine``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from barnabas.ports import Ports
from barnabas.types import Uuid, by_topic
from barnabas.zookeeper.controller.broker_orders import BrokerOrders
from barnabas.zookeeper.controller.journal import ZookeeperJournal
from barnabas.zookeeper.controller.order_queue import Stopped
from barnabas.zookeeper.cut_operations import take_operations
from barnabas.zookeeper.election.states import Leadership
from barnabas.zookeeper.errors import MultiFailed, NoNode, ZooKeeperError
from barnabas.zookeeper.layout.config_znodes import CONFIG
from barnabas.zookeeper.layout.request_znodes import DELETE_TOPICS
from barnabas.zookeeper.layout.topic_znodes import partition_path, state_path, topic_path
from barnabas.zookeeper.operations import Delete, Multi, Operation
from barnabas.zookeeper.session_keeper import SessionKeeper
from barnabas.zookeeper.states.controller_steps import ControllerSteps


class DeletedTopic(NamedTuple):
    """A topic that goes. `replicas` by partition."""

    name: str
    topic_id: Uuid
    replicas: Mapping[int, Sequence[int]]


class _Deletion:
    def __init__(self, topic: DeletedTopic) -> None:
        self.topic = topic
        self.left: dict[int, dict[Stopped, None]] = {}
        """The replicas that each broker still has."""
        for index in sorted(topic.replicas):
            for broker in topic.replicas[index]:
                self.left.setdefault(broker, {})[topic.name, index] = None
        self.removing = False


class TopicDeletion:
    """The deletions of one controller epoch after the other."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        journal: ZookeeperJournal,
        orders: BrokerOrders,
        steps: ControllerSteps,
    ) -> None:
        self._steps = steps
        self._ports = ports
        self._sessions = sessions
        self._journal = journal
        self._orders = orders
        self._under_way: dict[str, _Deletion] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._under_way

    def begin(self, topic: DeletedTopic) -> None:
        if topic.name in self._under_way:
            return
        deletion = self._under_way[topic.name] = _Deletion(topic)
        self._steps.on_deletion_found(topic.name, topic.replicas)
        self._ports.log("info", "topic.deletion_started", topic=topic.name)
        for broker in sorted(deletion.left):
            self._stop(deletion, broker)
        self._maybe_finish(deletion)

    def end(self) -> None:
        """This broker is no longer the controller."""
        self._under_way.clear()

    def on_broker(self, broker: int) -> None:
        """The broker lives (again)."""
        for deletion in list(self._under_way.values()):
            if broker in deletion.left:
                self._stop(deletion, broker)

    def _stop(self, deletion: _Deletion, broker: int) -> None:
        left = deletion.left[broker]
        if self._orders.is_alive(broker):
            self._steps.on_stopping(broker, left)
            self._orders.stop_replicas(broker, left)
        else:
            reason = f"broker {broker} is not alive; it is asked when it returns"
            self._ineligible(deletion.topic.name, broker, left, reason)

    def _ineligible(self, topic: str, broker: int, left: Iterable[Stopped], reason: str) -> None:
        self._steps.on_ineligible(broker, left, reason)
        self._ports.log(
            "info", "topic.deletion_ineligible", topic=topic, broker=broker, reason=reason
        )

    def on_stopped(self, broker: int, stopped: Iterable[Stopped]) -> None:
        """The broker has deleted its logs of these partitions."""
        stopped = list(stopped)
        self._steps.book.on_deleted(broker, stopped)
        for one in stopped:
            deletion = self._under_way.get(one[0])
            left = None if deletion is None else deletion.left.get(broker)
            if deletion is None or left is None:
                continue
            left.pop(one, None)
            if not left:
                del deletion.left[broker]
                self._maybe_finish(deletion)

    def on_not_stopped(self, broker: int, failed: Iterable[Stopped]) -> None:
        """The broker could not delete its logs of these partitions."""
        left = by_topic((one[0], one) for one in failed if one[0] in self._under_way)
        reason = (
            f"a log directory of broker {broker} has failed; it is asked when it registers again"
        )
        for name in sorted(left):
            self._ineligible(name, broker, left[name], reason)

    def _maybe_finish(self, deletion: _Deletion) -> None:
        leadership = self._journal.leadership
        if deletion.left or deletion.removing or leadership is None:
            return
        deletion.removing = True
        left = deque[Operation](Delete(path) for path in self._paths(deletion.topic))
        self._remove(deletion, leadership, left)

    def _paths(self, topic: DeletedTopic) -> list[str]:
        """Children first; the request for the deletion last."""
        paths = []
        for index in sorted(topic.replicas):
            paths += [state_path(topic.name, index), partition_path(topic.name, index)]
        at = topic_path(topic.name)
        config = f"{CONFIG}/topics/{topic.name}"
        return [*paths, f"{at}/partitions", at, config, f"{DELETE_TOPICS}/{topic.name}"]

    def _remove(self, deletion: _Deletion, leadership: Leadership, left: deque[Operation]) -> None:
        now = take_operations(left, self._ports.bounds.zookeeper, besides=1)
        done = partial(self._on_removed, deletion, leadership, now, left)
        self._sessions.submit(Multi((leadership.check, *now)), done)

    def _on_removed(
        self,
        deletion: _Deletion,
        leadership: Leadership,
        now: list[Operation],
        left: deque[Operation],
        result: object,
    ) -> None:
        name = deletion.topic.name
        if self._journal.leadership is not leadership:
            return
        if isinstance(result, MultiFailed) and result.index > 0:
            if isinstance(result.cause, NoNode):
                del now[result.index - 1]
                left.extendleft(reversed(now))
                self._remove(deletion, leadership, left)
                return
            self._ports.log("error", "topic.deletion_failed", topic=name, error=result)
            self._journal.give_up(f"the znodes of topic {name} cannot be removed: {result}")
        elif isinstance(result, ZooKeeperError):
            self._journal.give_up(f"the znodes of topic {name} were not removed: {result}")
        elif left:
            self._remove(deletion, leadership, left)
        else:
            del self._under_way[name]
            self._steps.on_znodes_gone(name)
            self._journal.forget_topic(name)
            self._ports.log("info", "topic.deletion_completed", topic=name)

    def describe(self) -> dict[str, object]:
        return {
            name: {str(broker): len(left) for broker, left in deletion.left.items()}
            for name, deletion in self._under_way.items()
        }

    def __repr__(self) -> str:
        return f"TopicDeletion({sorted(self._under_way)})"
