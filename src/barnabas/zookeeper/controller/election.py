"""Who is controller: an ephemeral znode, and an epoch that is raised in the same transaction.

Every broker watches ``/controller``. Where it is missing a broker makes it and raises
``/controller_epoch`` in one multi-operation, conditional on the epoch's version: one of them wins. All
that a controller writes is conditional on that version, so that one which has been replaced, and does
not know it yet, changes nothing.

A controller whose process has died keeps its znode until its session expires. A broker whose connection
to the controller ends and is then refused knows that the process is gone; it removes the znode,
conditional on the epoch's version. Had the controller lived it would have lost an election, not a
write.

Source: Kafka's ``KafkaController.elect`` and
``KafkaZkClient.registerControllerAndIncrementControllerEpoch``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from barnabas.client.network.channels import ChannelError
from barnabas.ports import Ports
from barnabas.types import Endpoint
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.schema import Message
from barnabas.zookeeper.errors import MultiFailed, NoNode, ZooKeeperError
from barnabas.zookeeper.layout.broker_znodes import BrokerZnode, broker_path
from barnabas.zookeeper.layout.cluster_state_znodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    ControllerEpochZnode,
    ControllerZnode,
)
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.operations import (
    CheckVersion,
    Create,
    Delete,
    Exists,
    GetData,
    Multi,
    NodeData,
    Operation,
    SetData,
    Stat,
)
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.session_keeper import SessionKeeper

ELECTION_RETRY_MS = 100.0
MENDED_LOOK_MS = 1_000.0
"""How often an epoch is read again that could not be read."""
MENDED_EPOCHS = 1_000
"""How many elections this broker may not have heard of."""
INITIAL_EPOCH = 0
PURPOSE = "controller watch"


class Leadership(NamedTuple):
    """A won election: the epoch, and the version of its znode, on which all writes are conditional."""

    epoch: int
    version: int

    @property
    def check(self) -> CheckVersion:
        return CheckVersion(CONTROLLER_EPOCH, self.version)


class ProbeNetwork(Protocol):
    """The part of :class:`barnabas.client.network.channels.Channels` that finds out who is gone."""

    def send(
        self,
        target: Endpoint,
        request: Message,
        on_done: Callable[[object], None],
        *,
        timeout_ms: float | None = None,
        purpose: str = "",
    ) -> None: ...

    def probe(self, target: Endpoint, on_done: Callable[[bool], None]) -> None: ...

    def watch(
        self,
        target: Endpoint,
        *,
        on_closed: Callable[[], None] | None = None,
        on_refused: Callable[[], None] | None = None,
    ) -> Callable[[], None]: ...


class ControllerElection:
    """This broker's part in the elections."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        node_id: int,
        network: ProbeNetwork,
        listener: str,
        own_endpoint: Callable[[], Endpoint],
    ) -> None:
        """`listener` is that on which controllers are reached."""
        self._ports = ports
        self._sessions = sessions
        self._node_id = node_id
        self._network = network
        self._listener = listener
        self._own_endpoint = own_endpoint
        self.controller_id = -1
        self.controller_endpoint: Endpoint | None = None
        self.leadership: Leadership | None = None
        self._epoch_version = -1
        self._watch = 0
        """Counts the controllers that were seen, so that a late answer about a former one is left alone."""
        self._looking = False
        """Whether it is being found out if the controller lives, or its znode is being removed: a refused
        connection says so again and again, and each removal is a transaction."""
        self._reading = False
        self._read_again = False
        self._unwatch: Callable[[], None] = lambda: None
        self.may_stand = False
        """A broker takes part once it is registered."""
        self.known_epoch: Callable[[], int] = lambda: -1
        """The latest controller epoch that this broker has obeyed; -1 where none."""
        self.is_kraft = False
        """Whether `/controller` is a KRaft controller's, which has taken the cluster over (KIP-866)."""
        self.on_change: Callable[[], None] = lambda: None
        self.on_elected: Callable[[Leadership], None] = lambda leadership: None
        self.on_lost: Callable[[str], None] = lambda reason: None

    # -- the session -------------------------------------------------------------------------------

    def on_connected(self, is_new: bool) -> None:
        self._read()

    def on_expired(self) -> None:
        self._lose("its ZooKeeper session has expired")
        self._set_controller(-1, None)

    def on_watch(self, event: WatchEvent) -> None:
        if event.path == CONTROLLER:
            self._read()

    def stand(self) -> None:
        """Take part from now on."""
        if not self.may_stand:
            self.may_stand = True
            if self._sessions.is_connected:
                self._read()

    # -- who it is ---------------------------------------------------------------------------------

    def _read(self) -> None:
        if self._reading:
            self._read_again = True
            return
        self._reading = True
        self._sessions.submit(GetData(CONTROLLER_EPOCH), self._on_epoch)

    def _on_epoch(self, result: NodeData | ZooKeeperError) -> None:
        if isinstance(result, NoNode):
            create = Create(CONTROLLER_EPOCH, ControllerEpochZnode(INITIAL_EPOCH).encode())
            self._sessions.submit(create, lambda _: self._done(again=True))
        elif isinstance(result, ZooKeeperError):
            self._done(again=self._sessions.is_connected)
        else:
            try:
                epoch = ControllerEpochZnode.decode(CONTROLLER_EPOCH, result.data).epoch
            except MalformedZnode as error:
                self._ports.log("error", "controller.znode_unreadable", error=error)
                self._mend(result.stat.version)
                return
            found = Leadership(epoch, result.stat.version)
            self._sessions.submit(GetData(CONTROLLER, watch=True), partial(self._on_node, found))

    def _mend(self, version: int) -> None:
        """The epoch cannot be read. Where this broker obeyed a controller it writes a later epoch than any
        that it may not have heard of; else it reads again, until another broker has."""
        known = self.known_epoch()
        if self.may_stand and known >= 0:
            mended = ControllerEpochZnode(known + MENDED_EPOCHS)
            self._ports.log("warning", "controller.epoch_mended", epoch=mended.epoch)
            write = SetData(CONTROLLER_EPOCH, mended.encode(), version)
            self._sessions.submit(write, lambda _: self._done(again=True))
            return
        self._done(again=False)
        at_ms = self._ports.clock.now_ms() + MENDED_LOOK_MS
        self._ports.wakeups.call_at(at_ms, self._read)

    def _on_node(self, found: Leadership, result: NodeData | ZooKeeperError) -> None:
        self._epoch_version = found.version
        if isinstance(result, NoNode):
            self.is_kraft = False
            self._lose("its znode is gone")
            self._set_controller(-1, None)
            if self.may_stand:
                self._stand(found)
            else:
                self._sessions.submit(Exists(CONTROLLER, watch=True), self._on_absent)
        elif isinstance(result, ZooKeeperError):
            self._done(again=self._sessions.is_connected)
        else:
            self._on_present(found, result)

    def _on_absent(self, result: Stat | ZooKeeperError | None) -> None:
        self._done(again=isinstance(result, Stat))

    def _on_present(self, found: Leadership, node: NodeData) -> None:
        try:
            znode = ControllerZnode.decode(CONTROLLER, node.data)
        except MalformedZnode as error:
            self._ports.log("error", "controller.znode_unreadable", error=error)
            self._done(again=False)
            return
        controller = znode.broker_id
        if znode.is_held_by_kraft(node.stat.ephemeral_owner):
            self._on_kraft(controller)
            return
        self.is_kraft = False
        if node.stat.ephemeral_owner == self._sessions.id and controller == self._node_id:
            self._set_controller(controller, self._own_endpoint())
            if self.leadership is None:
                self._win(found)  # the answer to its election was lost
            elif self.leadership != found:
                self._lose(f"epoch {found.epoch} has begun")
                self._win(found)
            self._done(again=False)
            return
        self._lose(f"broker {controller} is controller")
        if controller != self.controller_id or self.controller_endpoint is None:
            path = broker_path(controller)
            self._sessions.submit(GetData(path), partial(self._on_registration, controller))
        else:
            self._done(again=False)

    def _on_kraft(self, controller: int) -> None:
        """No broker is elected while this znode is there, and it is no session's."""
        self._lose(f"KRaft controller {controller} has taken over")
        was, self.is_kraft = self.is_kraft, True
        self._set_controller(controller, None)
        if not was:
            self.on_change()
        self._done(again=False)

    def _on_registration(self, controller: int, result: NodeData | ZooKeeperError) -> None:
        endpoint = None
        if isinstance(result, NodeData):
            try:
                path = broker_path(controller)
                endpoint = BrokerZnode.decode(path, result.data).endpoints.get(self._listener)
            except MalformedZnode as error:
                self._ports.log("error", "zookeeper.znode_unreadable", error=error)
        self._set_controller(controller, endpoint)
        self._done(again=endpoint is None and self._sessions.is_connected)

    def _done(self, *, again: bool) -> None:
        self._reading = False
        if self._read_again:
            self._read_again = False
            self._read()
        elif again:
            at_ms = self._ports.clock.now_ms() + ELECTION_RETRY_MS
            self._ports.wakeups.call_at(at_ms, self._read)

    def _set_controller(self, controller: int, endpoint: Endpoint | None) -> None:
        if (controller, endpoint) == (self.controller_id, self.controller_endpoint):
            return
        self.controller_id, self.controller_endpoint = controller, endpoint
        self._watch += 1
        self._looking = False
        self._unwatch()
        self._unwatch = lambda: None
        self._ports.log("info", "controller.known", controller=controller, at=str(endpoint))
        self.on_change()
        if endpoint is not None and controller != self._node_id:
            look = partial(self._read_epoch, self._watch, endpoint)
            self._unwatch = self._network.watch(endpoint, on_closed=look, on_refused=look)
            self._keep_connection(self._watch, endpoint)

    # -- an election -------------------------------------------------------------------------------

    def _stand(self, found: Leadership) -> None:
        wall_ms = self._ports.clock.wall_ms()
        data = ControllerZnode(self._node_id, wall_ms).encode()
        wanted = found.epoch + 1
        operations: tuple[Operation, ...] = (
            Create(CONTROLLER, data, ephemeral=True),
            SetData(CONTROLLER_EPOCH, ControllerEpochZnode(wanted).encode(), found.version),
        )

        def on_done(result: object) -> None:
            if isinstance(result, ZooKeeperError):
                # Another one won, or it is unknown who did: what is read next says it.
                self._done(again=self._sessions.is_connected or isinstance(result, MultiFailed))
                return
            assert isinstance(result, (list, tuple))
            stat = result[1]
            assert isinstance(stat, Stat)
            self._epoch_version = stat.version
            self._set_controller(self._node_id, self._own_endpoint())
            self._win(Leadership(wanted, stat.version))
            self._reading = False
            self._read()  # to watch the znode

        self._sessions.submit(Multi(operations), on_done)

    def _win(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self._ports.log("info", "controller.elected", epoch=leadership.epoch)
        self.on_elected(leadership)

    def _lose(self, reason: str) -> None:
        if self.leadership is not None:
            self.leadership = None
            self.on_lost(reason)

    def resign(self, reason: str) -> None:
        """Delete `/controller` after a write that failed or whose outcome is unknown. The next controller,
        which may be this broker, begins with what is written."""
        held = self.leadership
        if held is None:
            return
        self._ports.log("warning", "controller.resigning", reason=reason)
        self._lose(reason)
        self._remove(held.version)

    def _remove(self, version: int, then: Callable[[], None] = lambda: None) -> None:
        operations: tuple[Operation, ...] = (
            CheckVersion(CONTROLLER_EPOCH, version),
            Delete(CONTROLLER),
        )

        def on_done(result: object) -> None:
            at_ms = self._ports.clock.now_ms() + ELECTION_RETRY_MS
            self._ports.wakeups.call_at(at_ms, self._read)
            then()

        self._sessions.submit(Multi(operations), on_done)

    # -- a controller that died ---------------------------------------------------------------------

    def _keep_connection(self, watch: int, endpoint: Endpoint) -> None:
        """A connection whose end is a sign of the controller's end."""
        if watch != self._watch:
            return

        def on_answer(answer: object) -> None:
            if isinstance(answer, ChannelError):
                self._read_epoch(watch, endpoint)

        self._network.send(
            endpoint, ApiVersionsRequest(), on_answer, timeout_ms=5000.0, purpose=PURPOSE
        )

    def _read_epoch(self, watch: int, endpoint: Endpoint) -> None:
        if watch != self._watch or self._looking:
            return
        self._looking = True
        version = self._epoch_version

        def on_removed() -> None:
            # What is read then may be a later version of the epoch: it is looked at once more.
            at_ms = self._ports.clock.now_ms() + 2 * ELECTION_RETRY_MS
            self._ports.wakeups.call_at(at_ms, look_again)

        def look_again() -> None:
            if watch == self._watch:
                self._looking = False
                self._read_epoch(watch, endpoint)

        def on_probed(alive: bool) -> None:
            if watch != self._watch:
                return
            if alive:
                self._looking = False
                at_ms = self._ports.clock.now_ms() + ELECTION_RETRY_MS
                self._ports.wakeups.call_at(at_ms, partial(self._keep_connection, watch, endpoint))
                return
            self._ports.log(
                "warning", "controller.gone", controller=self.controller_id, at=str(endpoint)
            )
            self._remove(version, on_removed)

        self._network.probe(endpoint, on_probed)

    def describe(self) -> dict[str, object]:
        return {
            "controller": self.controller_id,
            "at": str(self.controller_endpoint),
            "epoch": None if self.leadership is None else self.leadership.epoch,
        }

    def __repr__(self) -> str:
        return f"ControllerElection(controller {self.controller_id}, {self.leadership})"
