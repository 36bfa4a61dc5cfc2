"""Text scripts for the assignors of share and streams groups: what each member has after each change.

``=`` is a member with what it gets: partitions of a share group's topics, or tasks
``subtopology_partition`` of a streams group. Members take what they get before the next change.
"""

from __future__ import annotations

from barnabas.group.share.share_group import Target
from barnabas.group.share.simple import assign_simply
from barnabas.group.streams.member import StreamsMember, TaskId
from barnabas.group.streams.sticky import TaskCount
from barnabas.group.streams.streams_group import TaskOffsets
from barnabas.types import Uuid
from tests.script_files import parts_of
from tests.unit.group.test_sticky_tasks import assign, check, holding


class ShareAssignorScript:
    """Members, topics, and what members have."""

    def __init__(self) -> None:
        self.partitions: dict[Uuid, int] = {}
        self.subscriptions: dict[str, frozenset[Uuid]] = {}
        self.targets: dict[str, Target] = {}

    def run(self, line: str) -> list[str]:
        """One command; what members have then."""
        name, words, _ = parts_of(line)
        getattr(self, f"do_{name}")(*words)
        if not self.subscriptions:
            return []
        counts = {topic_id: range(count) for topic_id, count in self.partitions.items()}
        self.targets = assign_simply(self.subscriptions, counts, self.targets)
        return [f"= {member}: {_places(own)}" for member, own in sorted(self.targets.items())]

    def do_topic(self, name: str, partitions: str) -> None:
        """It has that many partitions from now on."""
        self.partitions[_topic(name)] = int(partitions)

    def do_subscribe(self, member: str, *topics: str) -> None:
        self.subscriptions[member] = frozenset(map(_topic, topics))

    def do_leave(self, member: str) -> None:
        del self.subscriptions[member]


def _topic(name: str) -> Uuid:
    return Uuid(bytes(15) + name.encode())


def _places(target: Target) -> str:
    places = [
        f"{bytes(topic_id)[-1:].decode()}-{partition}"
        for topic_id in sorted(target)
        for partition in sorted(target[topic_id])
    ]
    return " ".join(places) or "nothing"


class StreamsAssignorScript:
    """An application: its subtopologies, its processes with their threads, and what those have."""

    def __init__(self) -> None:
        self.counts: dict[str, TaskCount] = {}
        self.members: dict[str, StreamsMember] = {}
        self.standbys = 0
        self.offsets: dict[str, TaskOffsets] = {}

    def run(self, line: str) -> list[str]:
        """One command; what members have then."""
        name, words, given = parts_of(line)
        getattr(self, f"do_{name}")(*words, **given)
        targets = assign(self.members, self.counts, self.standbys, self.offsets)
        if not targets:
            return []
        check(self.members, self.counts, self.standbys, targets)
        self.members = holding(self.members, targets)
        told = []
        for member_id, target in sorted(targets.items()):
            standby = f", standby {_tasks(target.standby)}" if target.standby else ""
            told.append(f"= {member_id}: {_tasks(target.active)}{standby}")
        return told

    def do_part(self, part: str, partitions: str, state: str = "no") -> None:
        """``part 0 4 state=yes``: a subtopology with four tasks, which have state."""
        self.counts[part] = TaskCount(int(partitions), state == "yes")

    def do_standbys(self, count: str) -> None:
        self.standbys = int(count)

    def do_process(self, name: str, threads: str) -> None:
        """It has that many threads from now on: ``p.0``, ``p.1`` ..."""
        kept = {f"{name}.{index}" for index in range(int(threads))}
        for member_id in [m for m, one in self.members.items() if one.process_id == name]:
            if member_id not in kept:
                del self.members[member_id]
        for member_id in kept - self.members.keys():
            self.members[member_id] = StreamsMember(member_id, process_id=name)
        self.members = dict(sorted(self.members.items()))

    def do_disk(self, member: str, **offsets: str) -> None:
        """``disk p.0 0_1=500``: how far the state on its disk reaches."""
        found = {}
        for text, offset in offsets.items():
            part, _, index = text.partition("_")
            found[TaskId(part, int(index))] = int(offset)
        self.offsets[member] = found


def _tasks(tasks: frozenset[TaskId]) -> str:
    return " ".join(f"{task.subtopology}_{task.partition}" for task in sorted(tasks)) or "nothing"
