"""The invariants of streams groups that need a look inside: what coordinators hold, and what comes of it.

A task is active at one member at most, those counted that have yet to give it up; the epochs of a group and
of its target assignment never go back; an internal topic has the partitions that its topology asks for. After
healing each task is active at one member that is there, and its copies are at other processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from barnabas.group.classic_group import GroupState
from barnabas.group.streams.member import StreamsMember, TaskId
from barnabas.group.streams.streams_group import StreamsGroup
from barnabas.metadata.image.image import MetadataImage
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.coordinators import serving
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.sim.workload.streams.plan import StreamsPlan

Tasks = dict[TaskId, list[StreamsMember]]


def served_streams(node: SimNode) -> Iterator[tuple[int, StreamsGroup]]:
    """The streams groups that the node coordinates, each with the leader epoch of its coordinator."""
    for shard in serving(node):
        for _, group in shard.machine.table.groups.committed_items():
            if isinstance(group, StreamsGroup):
                yield shard.leader_epoch, group


class StreamsGroups(Checker):
    """Judges the streams groups that coordinators have committed."""

    EVENTS_BETWEEN_CHECKS = 20

    def __init__(self, plan: StreamsPlan) -> None:
        self._plan = plan
        self._epochs: dict[str, tuple[int, tuple[int, int]]] = {}
        """The newest coordinator's leader epoch, and the epochs of the group and of its target."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        for leader_epoch, group in served_streams(node):
            self._check_epochs(leader_epoch, group, node.id)
            for task, members in active_tasks(group).items():
                if len(members) > 1:
                    raise Violation(
                        f"{group.group_id}: task {task.subtopology}_{task.partition} is active at"
                        f" {[m.member_id for m in members]} (coordinator on node {node.id})"
                    )
        self._check_topics(node.image)

    def finish(self, cluster: SimCluster) -> None:
        for node in cluster.up():
            self.check(cluster, node)

    def _check_epochs(self, leader_epoch: int, group: StreamsGroup, node: int) -> None:
        epochs, target = group.committed_epochs()
        now = (epochs.epoch, target.epoch)
        if now[1] > now[0]:
            raise Violation(f"{group.group_id}: its target is ahead of it: {now} on node {node}")
        known, before = self._epochs.get(group.group_id, (-1, (-1, -1)))
        if leader_epoch < known:
            return  # it does not know of its successor yet
        if now[0] < before[0] or now[1] < before[1]:
            raise Violation(
                f"{group.group_id}: the epochs of the group and its target were {before}, and are {now}"
                f" on node {node}"
            )
        for member_id, member in group.members.committed_items():
            if member.epoch > now[0]:
                raise Violation(f"{group.group_id}: {member_id} is ahead of it: {member.epoch}")
        self._epochs[group.group_id] = (leader_epoch, now)

    def _check_topics(self, image: MetadataImage) -> None:
        for name, count in self._plan.internal.items():
            topic = image.topics_by_name.get(name)
            if topic is not None and len(topic) != count:
                raise Violation(f"{name} has {len(topic)} partitions, and not {count}")


def active_tasks(group: StreamsGroup) -> Tasks:
    """The members that have each task as an active one, or have yet to give it up, by what is committed."""
    found: Tasks = {}
    for _, member in group.members.committed_items():
        for held in (member.assigned, member.revoking):
            for task in held.active:
                found.setdefault(task, []).append(member)
    return found


def unsettled_streams(
    cluster: SimCluster, plan: StreamsPlan, groups: Iterable[str], standbys: int
) -> str:
    """The first thing that one of `groups` lacks once everything has healed; the empty string where each has
    all of its topics, tasks and copies."""
    wanted = dict.fromkeys(groups, "it has no coordinator")
    for node in cluster.up():
        for _, group in served_streams(node):
            if group.group_id in wanted:
                wanted[group.group_id] = _missing(group, plan, node.image, standbys)
    return next((f"{group}: {why}" for group, why in sorted(wanted.items()) if why), "")


def _missing(group: StreamsGroup, plan: StreamsPlan, image: MetadataImage, standbys: int) -> str:
    for name in plan.internal:
        if name.startswith(f"{group.group_id}-") and name not in image.topics_by_name:
            return f"{name} is missing"
    state = group.committed_state()
    if state is not GroupState.STABLE:
        return f"it is {state.value}"
    counts = plan.tasks[group.group_id]
    tasks = {TaskId(part, index) for part, count in counts.items() for index in range(count)}
    active = active_tasks(group)
    if active.keys() != tasks:
        return f"the tasks {sorted(active.keys() ^ tasks)} are wrong"
    members = [member for _, member in group.members.committed_items()]
    processes = {member.process_id for member in members}
    stateful = {
        part.subtopology_id
        for part in plan.topologies[group.group_id].subtopologies
        if part.state_changelog_topics
    }
    copies = Counter(task for member in members for task in member.assigned.standby)
    for task in sorted(tasks):
        least = min(standbys, len(processes) - 1) if task.subtopology in stateful else 0
        places = [m.process_id for m in members if task in m.assigned.standby]
        places += [member.process_id for member in active[task]]
        if copies[task] != least or len(set(places)) != len(places):
            return f"{task} is at {places}, with {least} copies"
    return ""
