"""Text scripts for streams groups: one command per line after ``> ``, what it caused below it.

``*`` is a record that is committed, ``=`` an answer, ``-`` what else happens. A member's id is its name, a
task is ``subtopology_partition``.
"""

from __future__ import annotations

from typing import Any

from barnabas.group.streams.configured_topology import Status
from barnabas.group.streams.describing import describe_streams_group
from barnabas.group.streams.member import StreamsMemberState
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import streams_group_heartbeat_request as asked
from tests.script_files import parts_of
from tests.unit.group.streams_world import StreamsWorld, part, task_ids, tasks_in, topology

ROLES = ("active", "standby", "warmup")


class StreamsScript:
    """One machine, its members, and the topics that it knows."""

    def __init__(self) -> None:
        self.world = StreamsWorld()
        self.parts: list[asked.Subtopology] = []
        self.shown = 0
        self.lines: list[str] = []

    def run(self, line: str) -> list[str]:
        """One command; what it caused."""
        name, plain, given = parts_of(line)
        self.lines = []
        try:
            getattr(self, f"do_{name}")(*plain, **given)
        except KafkaError as error:
            self.lines.append(f"= {ErrorCode(error.code).name}: {error.message}")
        records = self._records()
        self.world.machine.validate()
        return records + self.lines

    # Commands

    def do_config(self, **given: str) -> None:
        """``config group_streams_num_standby_replicas=1`` of the broker; begins again."""
        self.world, self.shown = StreamsWorld(**given), 0

    def do_topic(self, name: str, partitions: str) -> None:
        """It has that many partitions from now on."""
        self.world.add_topic(name, int(partitions))

    def do_part(self, part_id: str, **given: str) -> None:
        """``part 1 sources=u repartition=r:0 changelogs=c sinks=s joined=yes`` of the topology."""
        repartition = dict(
            text.split(":") for text in given.get("repartition", "").split(",") if text
        )
        self.parts.append(
            part(
                part_id,
                [name for name in given.get("sources", "").split(",") if name],
                [name for name in given.get("changelogs", "").split(",") if name],
                [name for name in given.get("sinks", "").split(",") if name],
                {name: int(count) for name, count in repartition.items()},
                ([0], [0]) if "joined" in given else None,
            )
        )
        self.world.topology = topology(*self.parts)

    def do_join(self, member_id: str, **given: str) -> None:
        """``process=p instance=i lost=yes epoch=1``: `epoch` is the topology's."""
        fields: dict[str, Any] = {"process_id": given.get("process", f"p-{member_id}")}
        if "instance" in given:
            fields["instance_id"] = given["instance"]
        if "epoch" in given:
            fields["topology"] = topology(*self.parts, epoch=int(given["epoch"]))
        self._tell(member_id, self.world.join(member_id, lost="lost" in given, **fields))

    def do_beat(self, member_id: str, *tasks: str, **given: str) -> None:
        """The member says that it has all that it received; ``says=nothing`` that nothing changed,
        ``has=1_0,1_1`` its active tasks, ``epoch=3`` another epoch."""
        fields: dict[str, Any] = {}
        if "epoch" in given:
            fields["member_epoch"] = int(given["epoch"])
        if "instance" in given:
            fields["instance_id"] = given["instance"]
        if "has" in given:
            fields["active_tasks"] = task_ids(text for text in given["has"].split(",") if text)
            fields["standby_tasks"] = fields["warmup_tasks"] = []
        reply = self.world.beat(member_id, says="says" not in given, lost="lost" in given, **fields)
        self._tell(member_id, reply)

    def do_leave(self, member_id: str, **given: str) -> None:
        """``instance=i epoch=-2``: a static member that will return."""
        self.world.leave(
            member_id, int(given.get("epoch", "-1")), instance_id=given.get("instance")
        )

    def do_create(self) -> None:
        """The controller creates the internal topics that the last answer named."""
        self.lines += [
            f"- {t.name} with {t.partitions} partitions" for t in self.world.missing.values()
        ]
        self.world.create_missing()

    def do_wait(self, ms: str) -> None:
        self.world.wait(float(ms))

    def do_elect(self) -> None:
        """Another coordinator reads the log."""
        self.world.reload()

    def do_show(self) -> None:
        found = describe_streams_group(self.world.machine.table, "g")
        self.lines.append(
            f"= {found.group_state}, epoch {found.group_epoch}, assignment {found.assignment_epoch}"
        )
        for member in found.members:
            told = _roles(member.assignment)
            self.lines.append(f"=   {member.member_id} epoch {member.member_epoch}: {told}")

    # What happened

    def _tell(self, member_id: str, reply: Any) -> None:
        text = f"{member_id} epoch {reply.member_epoch}, again in {reply.heartbeat_interval_ms} ms"
        if reply.active_tasks is not None:
            text += f": {_roles(reply)}"
        self.lines.append(f"= {text}")
        self.lines += [
            f"=   {Status(status.status_code).name}: {status.status_detail}"
            for status in reply.status or ()
        ]

    def _records(self) -> list[str]:
        log = self.world.log
        new, self.shown = log[self.shown :], len(log)
        return [f"* {self._record(*raw)}" for raw in new]

    def _record(self, raw_key: bytes, raw_value: bytes | None) -> str:
        record: Any = self.world.machine.decode(raw_key, raw_value)
        key, value = record.key, record.value
        kind = type(key).__name__.removeprefix("StreamsGroup").removesuffix("Key")
        head = f"{kind} {key.member_id}" if hasattr(key, "member_id") else kind
        if value is None:
            return f"{head} deleted"
        if kind == "CurrentMemberAssignment":
            state = StreamsMemberState(value.state).name.lower()
            return f"{head} epoch {value.member_epoch} {state}: {_roles(value)}"
        if kind == "TargetAssignmentMember":
            return f"{head}: {_roles(value)}"
        epoch = getattr(value, "assignment_epoch", getattr(value, "epoch", None))
        return head if epoch is None else f"{head} epoch {epoch}"


def _roles(holder: Any) -> str:
    """The tasks of a member by role, and those that it has yet to give up."""
    found: list[str] = []
    for role in ROLES:
        tasks = tasks_in(getattr(holder, f"{role}_tasks"))
        if tasks:
            found.append(f"{role} {' '.join(tasks)}")
    for role in ROLES:
        tasks = tasks_in(getattr(holder, f"{role}_tasks_pending_revocation", None))
        if tasks:
            found.append(f"gives up {role} {' '.join(tasks)}")
    return ", ".join(found) or "nothing"
