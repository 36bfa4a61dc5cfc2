"""How much may be broken at once, so that a failure is a bug and never an impossible demand.

* kill -9, pauses, netsplits, clocks and slowness come without limit: they lose nothing that was written.
* What loses or damages written bytes (power, a replaced disk, rot) hits a broker only while, as far as the
  newest metadata say, every partition that it holds has another copy in ISR or ELR on a broker that
  has all it ever had; and the next one waits until the one that was hit is whole again.
* Without ELR (an older `metadata.version`, or the feature off) there is no such hit: the last member of an
  ISR leads again whatever it lost, which is why KIP-966 made the ELR.
* Where `flush.messages` is 1 nothing unsynced is promised, and all may lose power at once.
* Replicas are not taken away while what is left may have rotted, or lacks what was lost with the power.
* Controllers change their address one at a time: the next one when the voters know where the last one is,
  with three voters at least, and where everybody finds another one at the place that the settings name.
* All voters but one are lost for good, and that one recovered offline, where it has the furthest log of
  all: then nothing that was committed is missing. Only of controllers that are no brokers. Where it was cut
  off before, nothing is promised any more.
* Else the quorum's log is synced before it counts, so power loss takes nothing of it; its directory is never
  replaced, and rots only where every other voter has what it has.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.metadata.features import DIRECTORIES_SINCE
from barnabas.metadata.image.image import MetadataImage
from barnabas.node import Node
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.disk_pages import PagedFile


class Budget:
    """Who was hit and is not whole yet."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.all_synced = cluster.topology.settings.get("log.flush.interval.messages") == "1"
        self._hit: dict[int, int] = {}
        """Broker → its epoch when it lost something, as the newest metadata had it."""
        self._rot: list[tuple[SimDisk, PagedFile]] = []
        """Files in which a byte rotted, under whatever name."""
        self._gone: list[tuple[SimDisk, str]] = []
        """Files that were lost."""
        self._newest = -1
        self.history_is_lost = False
        """Committed metadata were given up: what was the newest is no more."""
        self.voter_changes = 0
        """Under way, as far as those who asked know."""
        self.moves_asked = 0
        """That may take replicas away, and of which the metadata say nothing yet."""

    def image(self) -> MetadataImage | None:
        """The newest metadata that any node ever knew to be committed; None while no running broker has
        them."""
        nodes = [node.node for node in self.cluster.up() if node.node is not None]
        known = [node.quorum.high_watermark for node in nodes]
        if not self.history_is_lost:
            known += [self._newest, *(node.knew_to for node in self.cluster.nodes.values())]
        self._newest = max(known, default=-1)
        for node in nodes:  # a controller alone does not fill that image
            if node.broker is not None and self.is_newest(node):
                return node.metadata.image
        return None

    def is_newest(self, node: Node) -> bool:
        """Whether `node` has applied everything of which `image` knew that it is committed."""
        return node.quorum.applied_offset >= self._newest

    def what_differs(self) -> str:
        """The difference between running nodes and the newest metadata; empty where they lack nothing."""
        image = self.image()
        nodes = [node.node for node in self.cluster.up() if node.node is not None]
        late = image is None or any(n.quorum.high_watermark < image.offset for n in nodes)
        return "a node does not know what is committed" if late else ""

    def knows_newest(self, node: SimNode) -> bool:
        """Whether a running node knows the newest metadata."""
        return node.node is not None and self.is_newest(node.node)

    def may_lose_data(self, node: SimNode) -> bool:
        """Whether `node` may lose what it has not synced, or a whole directory of partitions."""
        if node.id not in self.cluster.topology.broker_ids:
            return True  # a controller syncs before it counts
        image = self.image()
        if image is None or not image.elr_enabled or self.rots() or self.moves_asked:
            return False
        return not self.any_broker_lacks_data() and self.others_have_all(node)

    def any_broker_lacks_data(self) -> bool:
        """Whether a broker that was hit is not whole again, as far as is known."""
        image = self.image()
        if image is not None:
            for broker in sorted(self._hit):
                if self._is_whole(image, broker):
                    del self._hit[broker]
        return bool(self._hit)

    def may_lose_metadata(self, node: SimNode) -> bool:
        """Whether `node` may lose some of the metadata log: it has no vote, or all others that have one have
        what it has, on disk. Not where votes move: with the log it may lose who has one."""
        if self.rots():
            return False
        controllers = self.cluster.topology.controller_ids
        if node.id not in controllers:
            return True
        voters = [self.cluster.nodes[i] for i in controllers if i != node.id]
        if self.cluster.may_change_voters or not voters or node.node is None:
            return False
        own = node.node.quorum.machine.log
        logs = [other.node.quorum.machine.log for other in voters if other.node is not None]
        return len(logs) == len(voters) and all(
            log.synced_offset >= own.end_offset and log.last_epoch == own.last_epoch for log in logs
        )

    def may_have_directories(self) -> bool:
        """Whether the level knows of log directories, so that a broker may have several."""
        if self.cluster.topology.first_level >= DIRECTORIES_SINCE:
            return True
        image = self.image()
        return image is not None and image.metadata_version >= DIRECTORIES_SINCE

    def may_lose_quorum(self) -> bool:
        """Whether nothing of the metadata log is damaged anywhere, and every voter is where it is known."""
        return not self.rots() and self.knows_voters()

    def may_move(self, node: SimNode) -> bool:
        """Whether a controller may come back at another address."""
        nodes, ids = self.cluster.nodes, self.cluster.topology.controller_ids
        others = [i for i in ids if i != node.id and not nodes[i].moved]
        active = self.cluster.active_controller()
        if not self.cluster.topology.dynamic or len(others) < 2 or self.voter_changes:
            return False
        if active is None or active.node is None or not self.knows_voters():
            return False
        return len(active.node.quorum.machine.voters.nodes) >= 3

    def knows_voters(self) -> bool:
        """Whether all voters are where the active controller knows that they are."""
        active = self.cluster.active_controller()
        if active is None or active.node is None:
            return False
        return all(
            endpoint.port == self.cluster.nodes[i].controller_port
            for i, voter in active.node.quorum.machine.voters.nodes.items()
            for endpoint in voter.endpoints.values()
        )

    def others_have_all(self, *nodes: SimNode) -> bool:
        """Whether every partition of `nodes` has another copy with everything acknowledged."""
        image, ids = self.image(), {node.id for node in nodes}
        return image is not None and all(
            keepers - ids for replicas, keepers in _copies(image) if ids.intersection(replicas)
        )

    def held_by_others(self, node: SimNode, partition: str) -> int:
        """The largest log end of `partition` on other members of ISR and ELR; -1 where none has a log."""
        image, ends = self.image(), [-1]
        for other in self.cluster.up():
            broker = other.broker if other is not node else None
            for name, log in broker.logs.logs.items() if broker is not None else ():
                topic = None if image is None else image.topics_by_name.get(name.topic)
                if str(name) == partition and topic is not None and topic.has(name.partition):
                    state = topic.partition(name.partition)
                    if other.id in (*state.isr, *state.elr):
                        ends.append(log.log_end_offset)
        return max(ends)

    def on_lost(self, node: SimNode) -> None:
        """`node` loses data now."""
        image = self.image()
        broker = image.brokers.get(node.id) if image is not None else None
        if node.id in self.cluster.topology.broker_ids:
            self._hit[node.id] = broker.epoch if broker is not None else -1

    def on_rot(self, disk: SimDisk, path: str) -> None:
        """A byte of a file was damaged."""
        self._rot.append((disk, disk.file(path)))

    def on_gone(self, disk: SimDisk, path: str) -> None:
        """A segment's files were lost."""
        self._gone.append((disk, path))

    def rots(self) -> bool:
        """Whether damage is left that no node has repaired or discarded."""
        # Once its node is up a file of one byte replaces a segment, until that is repaired.
        self._gone = [(disk, path) for disk, path in self._gone if len(disk.content(path)) < 2]
        if any(disk.content(path) for disk, path in self._gone):
            return True
        self._rot = [
            (disk, file)
            for disk, file in self._rot
            if file.is_rotten()
            and any(
                known is file and ".deleted" not in path and "-delete/" not in path
                for path, known in disk.names.items()
            )
        ]
        return bool(self._rot)

    def _is_whole(self, image: MetadataImage, node_id: int) -> bool:
        broker = image.brokers.get(node_id)
        if broker is None or broker.fenced or broker.epoch <= self._hit[node_id]:
            return False
        for topic in image.topics_by_id.values():
            for index in range(len(topic)):
                state = topic.partition(index)
                if node_id in state.replicas and node_id not in state.isr:
                    return False
        return True


def _copies(image: MetadataImage) -> Iterator[tuple[tuple[int, ...], set[int]]]:
    """(replicas, those that have everything acknowledged and stay) of every partition."""
    for topic in image.topics_by_id.values():
        for index in range(len(topic)):
            state = topic.partition(index)
            yield tuple(state.replicas), {*state.isr, *state.elr} - {*state.removing}
