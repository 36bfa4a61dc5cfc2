"""Disks that fail: once, for good, for lack of room; and what becomes of them.

A node whose only directory fails ends itself, and its supervisor restarts it; a node that has other
directories continues without the failed one. A directory that fails for good is repaired with its contents,
or replaced by an empty one, within the budget.
"""

from __future__ import annotations

import contextlib
import itertools

from barnabas.log.directories.entry_names import CLEAN_SHUTDOWN_FILE
from barnabas.log.file_names import LOG, SEGMENT_SUFFIXES, offset_of
from barnabas.raft.storage.replica_log import DIRECTORY as METADATA_DIRECTORY
from barnabas.record.batch import CorruptBatchError, iterate
from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.injection import Strike

ROTS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
"""Which of a replica's files `rot_at_rest` hits. Not its leader epochs: they are digits without a checksum,
as in Kafka, so that no node can tell a wrong digit from the right one (seed 107236)."""


def disk_error(s: Strike) -> bool:
    """One call fails with EIO, soon."""
    node = s.any_node()
    if node is None:
        return False
    prefix = s.rng.choice(node.directories)
    nth = s.rng.choice([1, 5, 20, 80])
    s.note(f"node {node.id}: the {nth}. call below {prefix} fails")
    node.machine.disk.fail_call(nth, prefix=prefix)
    s.repair_later(s.rng.uniform(500, 3000), lambda: repair(s, node))
    return True


def disk_failure(s: Strike) -> bool:
    """Everything below one directory fails, until it is repaired or replaced."""
    node = s.any_node()
    if node is None:
        return False
    prefix = s.rng.choice(node.directories)
    s.note(f"node {node.id}: everything below {prefix} fails")
    node.machine.disk.fail_call(1, prefix=prefix, for_good=True)
    replaced = prefix != "/data" and s.rng.random() < 0.5 and s.budget.may_lose_data(node)
    if replaced:
        s.budget.on_lost(node)

    s.repair_later(s.wait_ms(500, 3000), lambda: repair(s, node, prefix if replaced else ""))
    return True


def disk_full(s: Strike) -> bool:
    """A device takes only a little more, for a while."""
    node = s.any_node()
    if node is None:
        return False
    disk = node.machine.disk
    disk.capacity_bytes = disk.used_bytes() + s.rng.choice([0, 1_000, 20_000])
    s.note(f"node {node.id}: the disk is full at {disk.capacity_bytes} bytes")
    s.repair_later(s.wait_ms(500, 3000), lambda: repair(s, node))
    return True


def rot(s: Strike) -> bool:
    """A process is killed, and while it is away a bit flips in a full segment of one replica, below its high
    watermark: in the log or in an index. Others hold the same records and give them back. Mostly it hits
    a partition whose preferred leader is this broker, so that clients read it. (A running process trusts what
    it wrote itself: it is in memory.)"""
    node = s.any_broker()
    if node is None or not s.budget.may_lose_data(node):
        return False
    paths = _full_segments(s, node)
    if not paths:
        return False
    _flip_while_away(s, node, s.rng.choice(paths))
    s.count("bits rotted")
    if s.rng.random() < 0.4:
        _rot_again(s, node, paths)
    return True


def _rot_again(s: Strike, node: SimNode, paths: list[str]) -> None:
    """A second damage at the same time: on the same broker, or on another one, where other brokers have all
    that either of the two may lose by it."""
    others = [other for other in s.cluster.up() if other.id in s.cluster.topology.broker_ids]
    others = [other for other in others if s.budget.others_have_all(node, other)]
    other = s.rng.choice([node, *others])
    paths = paths if other is node else _full_segments(s, other)
    if not paths:
        return
    if other is node:
        path = s.rng.choice(paths)
        flip(s, node, path, *_bit_of_full(s, node, path))
    else:
        _flip_while_away(s, other, s.rng.choice(paths))
    s.count("bits rotted, two at once")


def _full_segments(s: Strike, node: SimNode) -> list[str]:
    """The files of full segments below the high watermarks."""
    if node.broker is None:
        return []
    disk, paths = node.machine.disk, list[str]()
    broker, preferred = node.broker, s.rng.random() < 0.7
    for name, log in sorted(broker.logs.logs.items()):
        replica = broker.replicas.by_name.get(name)
        if preferred and (replica is None or replica.replicas[:1] != (node.id,)):
            continue
        for segment, following in itertools.pairwise(log.segments):
            if following.base_offset <= log.high_watermark:
                stem = segment.path.removesuffix(".log")
                suffixes = (".log", ".log", ".index", ".timeindex", ".txnindex")
                paths += [stem + suffix for suffix in suffixes]
    return [path for path in paths if path in disk.names and disk.content(path)]


def _bit_of_full(s: Strike, node: SimNode, path: str) -> tuple[int, int]:
    """A bit as `any_bit` draws it; where no segment follows this one, no byte that recovery cannot verify
    after a kill."""
    position, bit = any_bit(s, node, path)
    disk, directory = node.machine.disk, path.rpartition("/")[0] + "/"
    behind = (other for other in disk.names if other > path and other.startswith(directory))
    if path.endswith(LOG) and not any(
        other.endswith(LOG) and disk.content(other) for other in behind
    ):
        position = not_believed(disk.content(path), position)
    return position, bit


def _flip_while_away(s: Strike, node: SimNode, path: str) -> None:
    position, bit = _bit_of_full(s, node, path)
    s.budget.on_lost(node)  # where it was not synced yet, the next start cuts it off
    node.kill()
    s.restart_later(node)
    flip(s, node, path, position, bit)


def any_bit(s: Strike, node: SimNode, path: str) -> tuple[int, int]:
    """Position and bit of a file that is not empty."""
    return s.rng.randrange(len(node.machine.disk.content(path))), s.rng.randrange(8)


def flip(s: Strike, node: SimNode, path: str, position: int, bit: int) -> None:
    """Flip a bit for good, as far as the disk is concerned."""
    disk = node.machine.disk
    s.note(f"node {node.id}: bit {bit} of byte {position} of {path} flips")
    disk.rot(path, position, bit)
    s.budget.on_rot(disk, path)


def rot_at_rest(s: Strike) -> bool:
    """Rot as `rot` does, after a clean shutdown, sometimes a kill, and wherever in a replica: its last
    batches, too. What the next start makes of that the one after it must know as well: so there mostly
    are two, close together."""
    node = s.any_broker()
    if node is None or not s.budget.may_lose_data(node):
        return False
    crashes = s.rng.random() < 0.3

    def flip() -> None:
        disk = node.machine.disk
        below = [f"{path}/" for path in node.directories]
        paths = [
            path
            for path in sorted(disk.names)
            if path.endswith(ROTS) and "/__cluster_metadata-" not in path and disk.content(path)
            and any(path.startswith(directory) for directory in below) and "-delete/" not in path
        ]  # fmt: skip
        if paths and not node.is_up and s.budget.others_have_all(node):  # they may have gone since
            path = s.rng.choice(paths)
            size = len(disk.content(path))
            # Of a log the end more often than the rest: no process has read back yet what was written last.
            last = s.rng.random() < 0.5
            position = s.rng.randrange(max(0, size - 300), size) if last else s.rng.randrange(size)
            bit = s.rng.randrange(8)
            if crashes and path.endswith(LOG):
                position = not_believed(disk.content(path), position)
            if crashes or _another_replica_has(s, node, path, position):
                s.note(f"node {node.id}: at rest bit {bit} of byte {position} of {path} flips")
                disk.rot(path, position, bit)
                s.budget.on_rot(disk, path)
                s.count("bits rotted at rest")
        s.world.after(s.wait_ms(20, 200, 1500), back)

    def back() -> None:
        node.start()
        if s.rng.random() < 0.7:  # it alone knows yet what it has just found
            killed_ms = s.wait_ms(1, 5, 20, 200)
            s.kill_later(killed_ms, node)
            s.world.after(killed_ms + s.wait_ms(100, 1000), node.start)

    s.budget.on_lost(node)
    if crashes:
        node.kill()
        s.count("crashes before rot")
        flip()
    else:
        node.shut_down(flip)
    return True


def _another_replica_has(s: Strike, node: SimNode, path: str, position: int) -> bool:
    """Whether another replica in sync has the batch at `position`. Otherwise no recovery from a crash cuts
    off what rots there, and no replica can give it back where this one leads."""
    if not path.endswith(LOG) or "-future/" in path:
        return True
    partition = path.rpartition("/")[0].rpartition("/")[2]
    with contextlib.suppress(CorruptBatchError):
        for batch in iterate(node.machine.disk.content(path), crc=True):
            if position < batch.position + batch.header.size:
                return batch.header.next_offset <= s.budget.held_by_others(node, partition)
    return False


def not_believed(content: bytes, position: int) -> int:
    """`position`, or one nearby: nothing verifies offset and epoch of the last batch of a log whose end is
    unknown. What lies behind an earlier flip is not read any more."""
    last = 0
    with contextlib.suppress(CorruptBatchError):
        for batch in iterate(content, crc=True):
            last = batch.position
    return position + 16 if last <= position < last + 16 <= len(content) - 16 else position


def lost_segment(s: Strike) -> bool:
    """After a clean shutdown all files of a segment of one replica are gone, or its batches alone. Not of the
    segment that was written last, nor one that no other replica in sync has: if this replica led, no other
    could restore it."""
    node = s.any_broker()
    if node is None or not s.budget.may_lose_data(node):
        return False

    def lose() -> None:
        disk, full = node.machine.disk, list[str]()
        for directory in node.directories:
            if f"{directory}/{CLEAN_SHUTDOWN_FILE}" not in disk.names:
                continue  # it was offline
            logs = [path for path in disk.below(directory) if path.endswith(LOG)]
            for path, following in itertools.pairwise(sorted(logs)):
                log_dir = path.rpartition("/")[0]
                if following.startswith(f"{log_dir}/") and "/__cluster_metadata-" not in path:
                    held_to = s.budget.held_by_others(node, log_dir.rpartition("/")[2])
                    end = offset_of(following.rpartition("/")[2])
                    full += [path] if end is not None and end <= held_to else []
        if full and not node.is_up and s.budget.others_have_all(node):
            path = s.rng.choice(full)
            stem = path.removesuffix(LOG)
            ends = (
                (LOG,) if s.rng.random() < 0.3 and path not in _firsts(full) else SEGMENT_SUFFIXES
            )
            lost = [stem + end for end in ends if stem + end in disk.names]
            s.note(f"node {node.id}: {', '.join(lost)} are gone")
            disk.lose(lost)
            s.budget.on_gone(disk, path)
            s.count("segments lost")
        s.restart_later(node)

    s.budget.on_lost(node)
    node.shut_down(lose)
    return True


def _firsts(paths: list[str]) -> set[str]:
    """The first one of each directory: of these the batches alone may be what retention was about to take."""
    log_dirs = {path.rpartition("/")[0] for path in paths}
    return {min(path for path in paths if path.startswith(f"{log_dir}/")) for log_dir in log_dirs}


def rot_metadata(s: Strike) -> bool:
    """A process is killed, and while it is away a bit flips in its metadata log. A voter is hit only where
    all other voters have on disk what it has; it gets that back from them. (With a damaged snapshot a node
    does not start, and says so.)"""
    node = s.any_node()
    if node is None or not s.budget.may_lose_metadata(node):
        return False
    disk = node.machine.disk
    paths = [
        path
        for path in disk.below(f"/data/{METADATA_DIRECTORY}")
        if path.endswith(".log") and disk.content(path)
    ]
    if not paths:
        return False
    _flip_while_away(s, node, s.rng.choice(paths))
    disk.totals["metadata_bits_rotted"] += 1
    s.count("metadata bits rotted")
    return True


def disk_away(s: Strike) -> bool:
    """A machine comes back without one of its log directories, which it cannot read for a while. Nothing
    in it is lost."""
    node = s.any_broker()
    if node is None or len(node.directories) < 2:
        return False
    prefix = s.rng.choice(node.directories[1:])

    def away() -> None:
        s.note(f"node {node.id}: {prefix} cannot be read from its start on")
        node.machine.disk.fail_call(1, prefix=prefix, for_good=True)
        s.restart_later(node)
        s.repair_later(s.wait_ms(2000, 6000), lambda: repair(s, node))

    s.end(node, away)
    return True


def other_directories(s: Strike) -> bool:
    """A broker is started again with one log directory more, or with one less: what that one had is gone."""
    node = s.any_broker()
    if node is None:
        return False
    others = node.directories[1:]
    shrinks = bool(others) and s.rng.random() < 0.6
    if not (s.budget.may_lose_data(node) if shrinks else s.budget.may_have_directories()):
        return False
    chosen = s.rng.choice(others) if shrinks else ""

    def change() -> None:
        if node.is_up:
            return  # it was killed while it left, and is back
        if not shrinks:
            free = [f"/data{n}" for n in range(2, 5) if f"/data{n}" not in node.directories]
            node.directories += free[:1]
            node.needs_format = True
        elif chosen in node.directories and s.budget.others_have_all(node):
            node.directories.remove(chosen)
            node.machine.disk.wipe(chosen)
        s.note(f"node {node.id}: its log directories are {node.directories}")
        s.restart_later(node)

    if shrinks:
        s.budget.on_lost(node)
    if s.rng.random() < 0.4:
        node.kill()
        change()
    else:
        node.shut_down(change)
    return True


def repair(s: Strike, node: SimNode, replaced: str = "") -> None:
    """The device is sound again. A process that took a directory offline learns it when it is started
    again, as Kafka's does."""
    disk = node.machine.disk
    failed, disk.is_troubled = disk.is_troubled, False
    disk.fail_call(0)
    disk.capacity_bytes = 1 << 40
    if not failed and not replaced:
        return
    s.note(
        f"node {node.id}: its disk is sound again" + f", {replaced} an empty one" * bool(replaced)
    )
    s.count("disks repaired")
    if node.is_up:
        node.kill()
    if replaced:
        disk.wipe(replaced)
        node.needs_format = True
    node.start()
