"""Which checkers to call after an event: those for which there may be something new."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from barnabas.log.partition.partition_log import PartitionLog
from barnabas.metadata.image.image import MetadataImage
from barnabas.raft.core.election_state import ElectionState
from barnabas.raft.core.states import State
from barnabas.raft.raft_node import RaftNode
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.quorum_logs import log_of
from barnabas.sim.cluster import SimCluster, SimNode

Check = Callable[[SimCluster, SimNode], None]


class Seen:
    """The state that a node showed when it was looked at last. Objects are held, so that none can be
    mistaken for another that came later."""

    __slots__ = (
        "end",
        "high_watermark",
        "image",
        "image_offset",
        "log",
        "node",
        "quorum",
        "saved",
        "saves",
        "state",
        "synced",
    )

    def __init__(self, node: SimNode) -> None:
        self.node = node
        self.image: MetadataImage | None = None
        self.image_offset = -1
        self.quorum: RaftNode | None = None
        self.log: PartitionLog

    def note_quorum(self, quorum: RaftNode) -> None:
        """All that those look at who judge the quorum."""
        if quorum is not self.quorum:
            self.quorum, self.log = quorum, log_of(quorum)
        machine = quorum.machine
        self.state: State = machine.state
        self.saved: ElectionState = machine.saved
        self.saves = quorum.is_saving
        self.synced = machine.log.synced_offset
        self.high_watermark = machine.high_watermark
        self.end = self.log.log_end_offset


class Judges:
    """The checkers of one run, by what makes them look."""

    def __init__(self, cluster: SimCluster, checkers: list[Checker]) -> None:
        self._cluster = cluster
        judging = [c for c in checkers if type(c).check is not Checker.check]
        self._at_each: list[Check] = []
        self._at_image: list[Check] = []
        self._at_quorum: list[Check] = []
        self._seldom: list[tuple[int, Check]] = []
        for checker in judging:
            if checker.EVENTS_BETWEEN_CHECKS > 1:
                self._seldom.append((checker.EVENTS_BETWEEN_CHECKS, checker.check))
            elif checker.LOOKS_AT_IMAGE:
                self._at_image.append(checker.check)
            elif checker.LOOKS_AT_QUORUM:
                self._at_quorum.append(checker.check)
            else:
                self._at_each.append(checker.check)
        self._pace = gcd(*(every for every, _ in self._seldom)) or 1
        """After fewer events none of the seldom ones is due."""
        self._events = 0
        self._seen: dict[object, Seen] = {}
        """The last look at each node."""

    def on_event(self, touched: object) -> None:
        """An event ran on a node. Raises :class:`barnabas.sim.history.Violation`."""
        seen = self._seen.get(touched)
        if seen is None:
            if not isinstance(touched, SimNode):
                return
            seen = self._seen[touched] = Seen(touched)
        node = seen.node
        inside, process = node.node, node.process
        if inside is None or process is None or not process.alive:
            return
        quorum = inside.quorum
        machine = quorum.machine
        if not (
            quorum is seen.quorum
            and machine.state is seen.state
            and machine.high_watermark == seen.high_watermark
            and seen.log.log_end_offset == seen.end
            and machine.log.synced_offset == seen.synced
            and machine.saved is seen.saved
            and not seen.saves
        ):
            seen.note_quorum(quorum)
            for check in self._at_quorum:
                check(self._cluster, node)
        self._call_checkers(seen, node, inside.metadata.image)

    def _call_checkers(self, seen: Seen, node: SimNode, image: MetadataImage) -> None:
        """Call those who look at a node's broker."""
        for check in self._at_each:
            check(self._cluster, node)
        if image is not seen.image or image.offset != seen.image_offset:
            seen.image, seen.image_offset = image, image.offset
            for check in self._at_image:
                check(self._cluster, node)
        self._events = events = self._events + 1
        if events % self._pace == 0:
            for every, check in self._seldom:
                if events % every == 0:
                    check(self._cluster, node)
