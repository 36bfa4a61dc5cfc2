"""Performs the election of this broker: asks ZooKeeper what the machine of `moves` wants to know.

Every broker watches ``/controller``. Where it is missing a broker makes it and raises ``/controller_epoch``
in one multi-operation, conditional on the epoch's version: one of them wins. All that a controller writes is
conditional on that version, so that one which has been replaced, and does not know it yet, changes nothing.

A controller whose process has died keeps its znode until its session expires. A broker whose connection to
the controller ends and is then refused knows that the process is gone; it removes the znode, conditional on
the epoch's version. Had the controller lived it would have lost an election, not a write.

Source: Kafka's ``KafkaController.elect`` and ``KafkaZkClient.registerControllerAndIncrementControllerEpoch``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from barnabas.client.network.channels import ChannelError
from barnabas.ports import Ports
from barnabas.types import Endpoint
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.schema import Message
from barnabas.zookeeper.election import states as to
from barnabas.zookeeper.election.moves import step
from barnabas.zookeeper.election.states import ELECTION_RETRY_MS, Event, Leadership, ZnodeElection
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
    SetData,
    Stat,
)
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.session_keeper import SessionKeeper

INITIAL_EPOCH = 0
PURPOSE = "controller watch"


class ElectionListener(Protocol):
    """The controller role of this broker."""

    def on_elected(self, leadership: Leadership) -> None: ...
    def on_lost(self, reason: str) -> None: ...


class NoListener:
    """A broker without the role: no listener hears of its elections."""

    def on_elected(self, leadership: Leadership) -> None:
        return

    def on_lost(self, reason: str) -> None:
        return


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
        own_endpoint: Endpoint,
        known_epoch: Callable[[], int],
        on_change: Callable[[], None],
    ) -> None:
        """`listener` is that on which controllers are reached. `known_epoch` is the latest controller epoch
        that this broker has obeyed, or -1. `on_change` is called when another controller is known, or
        none."""
        self._ports = ports
        self._sessions = sessions
        self._network = network
        self._listener = listener
        self._known_epoch = known_epoch
        self._on_change = on_change
        self._election_listener: ElectionListener = NoListener()
        self._unwatch: Callable[[], None] = lambda: None
        self.election = ZnodeElection(node_id, own_endpoint)

    def listen(self, role: ElectionListener) -> None:
        """Tell `role` of the elections of this broker. Call this before the first event."""
        self._election_listener = role

    @property
    def controller_id(self) -> int:
        return self.election.controller_id

    @property
    def controller_endpoint(self) -> Endpoint | None:
        return self.election.endpoint

    @property
    def known_epoch(self) -> int:
        """The epoch of the controller that is known, or whose end is; -1 where neither is."""
        return self.election.known_epoch

    @property
    def leadership(self) -> Leadership | None:
        return self.election.leadership

    @property
    def is_kraft(self) -> bool:
        """Whether `/controller` is a KRaft controller's."""
        return self.election.is_kraft

    # -- events ------------------------------------------------------------------------------------

    def on_connected(self, is_new: bool) -> None:
        self._handle(to.LookDue())

    def on_expired(self) -> None:
        self._handle(to.SessionEnded())

    def on_watch(self, event: WatchEvent) -> None:
        if event.path == CONTROLLER:
            self._handle(to.LookDue())

    def stand(self) -> None:
        """Take part from now on."""
        self._handle(to.Registered(self._sessions.is_connected))

    def resign(self, reason: str) -> None:
        """Give `/controller` up after a write that failed or whose outcome is unknown. The next controller,
        which may be this broker, begins with what is written."""
        self._handle(to.ControllerResigned(reason))

    def _handle(self, event: Event) -> None:
        self.election, effects = step(self.election, event)
        for effect in effects:
            if not self._ask_ensemble(effect):
                self._perform(effect)

    def _handle_at(self, after_ms: float, event: Event) -> None:
        at_ms = self._ports.clock.now_ms() + after_ms
        self._ports.wakeups.call_at(at_ms, partial(self._handle, event))

    # -- effects -----------------------------------------------------------------------------------

    def _ask_ensemble(self, effect: to.Effect) -> bool:
        """Ask the ensemble; False where the effect is another one."""
        submit = self._sessions.submit
        match effect:
            case to.ReadEpoch():
                submit(GetData(CONTROLLER_EPOCH), self._on_epoch)
            case to.MakeEpoch():
                data = ControllerEpochZnode(INITIAL_EPOCH).encode()
                submit(Create(CONTROLLER_EPOCH, data), self._on_epoch_written)
            case to.MendEpoch(epoch, version):
                self._ports.log("warning", "controller.epoch_mended", epoch=epoch)
                data = ControllerEpochZnode(epoch).encode()
                submit(SetData(CONTROLLER_EPOCH, data, version), self._on_epoch_written)
            case to.ReadController():
                submit(GetData(CONTROLLER, watch=True), self._on_node)
            case to.WatchAbsence():
                submit(Exists(CONTROLLER, watch=True), self._on_absent)
            case to.ReadRegistration(controller):
                read = GetData(broker_path(controller))
                submit(read, partial(self._on_registration, controller))
            case to.Stand(found):
                self._stand(found)
            case to.Remove(version, watch):
                self._remove(version, watch)
            case _:
                return False
        return True

    def _perform(self, effect: to.Effect) -> None:
        match effect:
            case to.LookLater(after_ms):
                self._handle_at(after_ms, to.LookDue())
            case to.Win(leadership):
                self._ports.log("info", "controller.elected", epoch=leadership.epoch)
                self._election_listener.on_elected(leadership)
            case to.Lose(reason):
                self._election_listener.on_lost(reason)
            case to.ResignController(reason):
                self._ports.log("warning", "controller.resigning", reason=reason)
            case to.Forget():
                self._unwatch()
                self._unwatch = lambda: None
            case to.Announce(controller, at):
                self._ports.log("info", "controller.known", controller=controller, at=str(at))
                self._on_change()
            case to.AnnounceKraft():
                self._on_change()
            case to.Watch(endpoint, watch):
                ended = partial(self._handle, to.ConnectionEnded(watch))
                self._unwatch = self._network.watch(endpoint, on_closed=ended, on_refused=ended)
            case to.Connect(endpoint, watch):
                self._connect(endpoint, watch)
            case to.ConnectLater(watch):
                self._handle_at(ELECTION_RETRY_MS, to.ConnectionDue(watch))
            case to.Probe(endpoint, watch, version):
                self._probe(endpoint, watch, version)
            case to.ReportGone(controller, at):
                self._ports.log("warning", "controller.gone", controller=controller, at=str(at))

    def _stand(self, found: Leadership) -> None:
        data = ControllerZnode(self.election.node_id, self._ports.clock.wall_ms()).encode()
        epoch = ControllerEpochZnode(found.epoch + 1).encode()
        operations = (
            Create(CONTROLLER, data, ephemeral=True),
            SetData(CONTROLLER_EPOCH, epoch, found.version),
        )
        self._sessions.submit(Multi(operations), self._on_stood)

    def _remove(self, version: int, watch: int | None) -> None:
        def on_done(_: object) -> None:
            self._handle_at(ELECTION_RETRY_MS, to.LookDue())
            if watch is not None:
                # What is read then may be a later version of the epoch: it is looked at once more.
                self._handle_at(2 * ELECTION_RETRY_MS, to.SuspicionDue(watch))

        operations = (CheckVersion(CONTROLLER_EPOCH, version), Delete(CONTROLLER))
        self._sessions.submit(Multi(operations), on_done)

    def _connect(self, endpoint: Endpoint, watch: int) -> None:
        def on_answer(answer: object) -> None:
            if isinstance(answer, ChannelError):
                self._handle(to.ConnectionEnded(watch))

        self._network.send(
            endpoint, ApiVersionsRequest(), on_answer, timeout_ms=5000.0, purpose=PURPOSE
        )

    def _probe(self, endpoint: Endpoint, watch: int, version: int) -> None:
        def on_probed(alive: bool) -> None:
            self._handle(to.Probed(watch, version, alive))

        self._network.probe(endpoint, on_probed)

    # -- answers of the ensemble ---------------------------------------------------------------------

    def _on_failed(self) -> None:
        self._handle(to.AnswerFailed(self._sessions.is_connected))

    def _on_epoch(self, result: NodeData | ZooKeeperError) -> None:
        if isinstance(result, NoNode):
            self._handle(to.EpochMissing())
        elif isinstance(result, ZooKeeperError):
            self._on_failed()
        else:
            version = result.stat.version
            try:
                epoch = ControllerEpochZnode.decode(CONTROLLER_EPOCH, result.data).epoch
            except MalformedZnode as error:
                self._ports.log("error", "controller.znode_unreadable", error=error)
                self._handle(to.EpochUnreadable(version, self._known_epoch()))
                return
            self._handle(to.EpochFound(epoch, version))

    def _on_epoch_written(self, result: object) -> None:
        self._handle(to.EpochWritten())

    def _on_node(self, result: NodeData | ZooKeeperError) -> None:
        if isinstance(result, NoNode):
            self._handle(to.ControllerMissing())
        elif isinstance(result, ZooKeeperError):
            self._on_failed()
        else:
            try:
                znode = ControllerZnode.decode(CONTROLLER, result.data)
            except MalformedZnode as error:
                self._ports.log("error", "controller.znode_unreadable", error=error)
                self._handle(to.ControllerUnreadable())
                return
            owner = result.stat.ephemeral_owner
            is_own = owner == self._sessions.id and znode.broker_id == self.election.node_id
            is_kraft = znode.is_held_by_kraft(owner)
            self._handle(to.ControllerFound(znode.broker_id, is_kraft, is_own))

    def _on_absent(self, result: Stat | ZooKeeperError | None) -> None:
        self._handle(to.AbsenceWatched(isinstance(result, Stat)))

    def _on_registration(self, controller: int, result: NodeData | ZooKeeperError) -> None:
        endpoint = None
        if isinstance(result, NodeData):
            try:
                path = broker_path(controller)
                endpoint = BrokerZnode.decode(path, result.data).endpoints.get(self._listener)
            except MalformedZnode as error:
                self._ports.log("error", "zookeeper.znode_unreadable", error=error)
        connected = self._sessions.is_connected
        self._handle(to.RegistrationRead(controller, endpoint, connected))

    def _on_stood(self, result: object) -> None:
        if isinstance(result, ZooKeeperError):
            # Another one won, or it is unknown who did: what is read next says it.
            again = self._sessions.is_connected or isinstance(result, MultiFailed)
            self._handle(to.AnswerFailed(again))
            return
        assert isinstance(result, (list, tuple))
        stat = result[1]
        assert isinstance(stat, Stat)
        self._handle(to.ElectionWon(stat.version))

    def describe(self) -> dict[str, object]:
        return {
            "controller": self.controller_id,
            "at": str(self.controller_endpoint),
            "epoch": None if self.leadership is None else self.leadership.epoch,
        }

    def __repr__(self) -> str:
        return f"ControllerElection(controller {self.controller_id}, {self.leadership})"
