"""Damage that a node finds long after it was done: while the node runs, or when it begins to lead."""

from __future__ import annotations

from barnabas.raft.storage.replica_log import DIRECTORY as METADATA_DIRECTORY
from barnabas.record.batch import CRC_AT, CRC_FROM, HEADER_SIZE, iterate
from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.disks import any_bit, flip, not_believed
from barnabas.sim.faults.injection import Strike
from barnabas.types import OFFSETS_TOPIC

CHECK_INTERVAL_MS, CHECKS_MAX = 20.0, 300
"""How often, and how many times at most, the fault checks whether a replica is in sync again."""


def misread_metadata(s: Strike) -> bool:
    """A node is killed, and when it is about to come back the disk of another, mostly of the active
    controller, gives one wrong bit of the metadata log or of a snapshot: of what was written last more often
    than the rest. So it is until that is started again, or repaired. Nothing is lost by it."""
    up = s.cluster.up()
    if len(up) < 2:
        return False
    away = s.rng.choice(up)
    s.note(f"node {away.id} is to miss some metadata")
    away.kill()

    def back() -> None:
        active = s.cluster.active_controller() if s.rng.random() < 0.8 else s.any_node()
        if active is not None and active is not away and not s.cluster.is_healed:
            _misread(s, active)
        s.world.after(s.wait_ms(1, 20), away.start)

    s.world.after(s.wait_ms(200, 1000, 3000), back)
    return True


def _misread(s: Strike, node: SimNode) -> None:
    disk = node.machine.disk
    paths = [
        path
        for path in disk.below(f"/data/{METADATA_DIRECTORY}")
        if path.endswith((".log", ".checkpoint")) and disk.content(path)
    ]
    if not paths:
        return
    snapshots = [path for path in paths if path.endswith(".checkpoint")]
    logs = [path for path in paths if path.endswith(".log")]
    path = s.rng.choice([*snapshots[-1:], *logs[-1:], *logs[-1:], s.rng.choice(paths)])
    size = len(disk.content(path))
    last = path.endswith(".log") and s.rng.random() < 0.7
    position = s.rng.randrange(max(0, size - 800), size) if last else s.rng.randrange(size)
    bit, wrong = s.rng.randrange(8), [disk.file(path)]
    flip(s, node, path, position, bit)
    disk.totals["metadata_bits_rotted"] += 1
    s.count("metadata bits misread")

    def heal() -> None:
        while wrong:  # once: what is wrong later is another bit
            file = wrong.pop()
            if file.is_rotten() and position in file.damage:
                file.rot(position, bit)

    node.before_start.append(heal)
    s.repair_later(s.wait_ms(3000, 6000), heal)


def misread(s: Strike) -> bool:
    """The disk gives one wrong bit of a batch once, or a few times, to its next readers: a follower or a
    consumer of what was written last, compaction, a coordinator that loads. Nothing is lost by it."""
    node = s.any_broker()
    if node is None:
        return False
    assert node.broker is not None
    logs = node.broker.logs.logs
    names = [name for name in sorted(logs) if logs[name].log_end_offset]
    compacted = [n for n in names if logs[n].config.compact and len(logs[n].segments) > 1]
    if compacted and s.rng.random() < 0.5:
        names = compacted
    if not names:
        return False
    log, disk = logs[s.rng.choice(names)], node.machine.disk
    segment = log.active if s.rng.random() < 0.5 else s.rng.choice(log.segments)
    batches = list(iterate(disk.content(segment.path)[: segment.size]))
    if not batches:
        return False
    batch = s.rng.choice(batches[-3:] if s.rng.random() < 0.7 else batches)
    # Not where no CRC covers, nor in the rest of a header: an offset lookup trusts those, as in Kafka.
    places = [*range(CRC_AT, CRC_FROM), *range(HEADER_SIZE, batch.header.size)]
    position, bit = batch.position + s.rng.choice(places), s.rng.randrange(8)
    s.note(f"node {node.id}: bit {bit} of byte {position} of {segment.path} is to be misread")
    disk.misread(segment.path, position, bit, s.rng.choice([1, 1, 2, 5]))
    file = disk.file(segment.path)

    def heal() -> None:
        file.to_misread = None

    s.repair_later(s.wait_ms(3000, 10_000), heal)
    return True


def rot_of_coordinator(s: Strike) -> bool:
    """A follower of a partition of the offsets topic is killed, and while it is away a bit flips in its log.
    When it is in sync again the leader is killed: the next coordinator reads what rotted."""
    image, node = s.budget.image(), s.any_broker()
    if image is None or node is None or not s.budget.may_lose_data(node):
        return False
    topic = image.topics_by_name.get(OFFSETS_TOPIC)
    followed = [
        state
        for state in (topic.partitions() if topic is not None else ())
        if node.id in state.isr and state.leader not in (-1, node.id)
    ]
    disk = node.machine.disk
    found = [
        (path, state.partition)
        for state in followed
        for directory in node.directories
        for path in disk.below(f"{directory}/{OFFSETS_TOPIC}-{state.partition}")
        if path.endswith(".log") and disk.content(path)
    ]
    if not found:
        return False
    path, partition = s.rng.choice(found)
    position, bit = any_bit(s, node, path)
    position = not_believed(disk.content(path), position)
    s.budget.on_lost(node)
    node.kill()
    flip(s, node, path, position, bit)
    s.count("coordinators' bits rotted")
    s.world.after(s.wait_ms(20, 200), node.start)
    _kill_leader_when_in_sync(s, node, partition)
    return True


def _kill_leader_when_in_sync(s: Strike, node: SimNode, partition: int) -> None:
    def leader() -> int | None:
        """The leader where the node follows in sync."""
        image = s.budget.image() if node.is_up else None
        topic = image.topics_by_name.get(OFFSETS_TOPIC) if image is not None else None
        broker = image.brokers.get(node.id) if image is not None else None
        if topic is None or broker is None or broker.fenced:
            return None
        state = topic.partition(partition)
        return state.leader if node.id in state.isr and state.leader not in (-1, node.id) else None

    def kill() -> None:
        leads = leader()
        assert leads is not None
        s.note(f"node {leads}, which leads {OFFSETS_TOPIC}-{partition}, is killed")
        s.cluster.nodes[leads].kill()
        s.restart_later(s.cluster.nodes[leads])

    s.when(lambda: leader() is not None, kill, CHECK_INTERVAL_MS, CHECKS_MAX)
