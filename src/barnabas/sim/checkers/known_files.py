"""Files on disk and known partitions, at the end: every partition's directory in a log directory that is
in use belongs to a log that its broker has, and every segment in it to that log; nothing is left of a segment
that compaction or a mending gave up."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.broker.broker import Broker
from barnabas.log.file_names import CLEANED, LOG, REPAIRED, SWAP
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation


class EveryFileIsKnown(Checker):
    def finish(self, cluster: SimCluster) -> None:
        for node in cluster.up():
            if node.broker is not None:
                _check(node, node.broker)


def _check(node: SimNode, broker: Broker) -> None:
    names = node.machine.disk.names
    work = broker.logs.cleaner.under_way
    busy = {work.log.partition} if work is not None else set()
    for directory in broker.logs.directories:
        if not directory.is_online:
            continue
        for found in directory.partitions():
            log = directory.logs.get(found.partition)
            path = f"{directory.path}/{found.name}"
            if log is None:
                raise Violation(f"node {node.id}: no replica owns the log in {path}")
            if log.partition not in busy:
                _check_leftovers(node, directory.path, path, names.below(path))
            segments = {segment.path for segment in log.segments}
            strange = [n for n in names.below(path) if n.endswith(LOG) and n not in segments]
            if strange or log.directory != path:
                raise Violation(
                    f"node {node.id}: {strange} in {path} belongs to no log ({log.directory})"
                )


def _check_leftovers(node: SimNode, directory: str, log_dir: str, paths: Iterable[str]) -> None:
    process, kinds = node.process, [SWAP]
    if process is None or not process.background.is_busy(f"clean {directory}"):
        kinds.append(CLEANED)
    if process is None or not process.background.is_busy(f"repair {log_dir}"):
        kinds.append(REPAIRED)
    left = [path for path in paths if path.endswith(tuple(kinds))]
    if left:
        raise Violation(f"node {node.id}: {left} was written for a place that it does not get")
