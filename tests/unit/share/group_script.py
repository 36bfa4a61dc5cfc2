"""Text scripts for a share group at its coordinator: one command per line after ``> ``, its effects below it.

``*`` is a record that is committed, ``=`` an answer, ``-`` what else happens. A member's id is its name; the
topic `t` has two partitions.
"""

from __future__ import annotations

from typing import Any

from barnabas.group.share import offsets
from barnabas.group.share.describing import describe_share_group
from barnabas.group.share.heartbeat import CHOSEN_BY_LEADER, Initialization
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from tests.script_files import parts_of
from tests.unit.group.test_share_groups import TOPIC, World

OTHERS = 2
"""The number of the first topic besides `t`."""


class GroupScript:
    """One machine, the group `g`, and what the share coordinator is asked for."""

    def __init__(self) -> None:
        self.world = World()
        self.topics = {"t": TOPIC}
        self.asked: list[Initialization] = []
        self.shown = 0
        self.lines: list[str] = []

    def run(self, line: str) -> list[str]:
        """One command; what it caused."""
        name, words, given = parts_of(line)
        self.lines = []
        try:
            getattr(self, f"do_{name}")(*words, **given)
        except KafkaError as error:
            self.lines.append(f"= {ErrorCode(error.code).name}: {error.message}")
        return self._records() + self.lines

    # Commands

    def do_topic(self, name: str, partitions: str) -> None:
        topic_id = self.topics.setdefault(
            name, Uuid(bytes(15) + bytes([OTHERS + len(self.topics)]))
        )
        self.world.add_topic(name, topic_id, int(partitions))

    def do_join(self, member: str, *topics: str, lost: str = "") -> None:
        """``lost=yes``: the log refuses the records."""
        self._beat(member, 0, topics, lost)

    def do_beat(self, member: str, *topics: str, epoch: str = "", lost: str = "") -> None:
        """With the epoch that the member has, or another one."""
        self._beat(member, int(epoch or self.world.epoch_of(member)), topics, lost)

    def do_leave(self, member: str) -> None:
        self.world.beat(member, -1)

    def do_initialized(self) -> None:
        """The share coordinator has begun the states that it was asked for."""
        self.world.initialize(self.asked.pop(0))

    def do_failed(self) -> None:
        """The share coordinator could not begin them."""
        asked = {
            topic_id: frozenset(starts) for topic_id, starts in self.asked.pop(0).offsets.items()
        }
        table = self.world.machine.table
        self.world.run(offsets.on_not_initialized(table, "g", asked))

    def do_alter(self, name: str, *starts: str) -> None:
        """``alter t 0:7``: partition and start offset."""
        parts = [
            AlterShareGroupOffsetsRequestPartition(
                partition_index=int(start.split(":")[0]), start_offset=int(start.split(":")[1])
            )
            for start in starts
        ]
        request = AlterShareGroupOffsetsRequest(
            group_id="g",
            topics=[AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=parts)],
        )
        outcome, wanted = offsets.alter(self.world.machine.table, request, self.world.at)
        reply = self.world.run(outcome)
        for part in reply.responses[0].partitions:
            self.lines.append(f"= {part.partition_index} {ErrorCode(part.error_code).name}")
        self._ask(wanted)

    def do_forget(self, name: str) -> None:
        """Its offsets are deleted: at the share coordinator, and then here."""
        table = self.world.machine.table
        outcome, wanted, refused = offsets.begin_delete(table, "g", [name])
        self.world.run(outcome)
        for topic in refused:
            self.lines.append(f"= {ErrorCode(topic.error_code).name}")
        for topic_id, partitions in wanted.items():
            numbers = " ".join(map(str, sorted(partitions)))
            self.lines.append(f"- states of {self._name(topic_id)} {numbers} are deleted")
        self.world.run(offsets.on_deleted(table, "g", list(wanted)))

    def do_delete(self) -> None:
        """The group is deleted, with the states of its partitions."""
        outcome, wanted = offsets.begin_delete_group(self.world.machine.table, "g")
        self.world.run(outcome)
        for topic_id, partitions in wanted.items():
            numbers = " ".join(map(str, sorted(partitions)))
            self.lines.append(f"- states of {self._name(topic_id)} {numbers} are deleted")
        self.world.run(self.world.machine.delete_groups(["g"]))

    def do_wait(self, ms: str) -> None:
        """Time passes, and what is due is done."""
        self.world.now_ms += float(ms)
        while (due := self.world.machine.take_due(self.world.at)) is not None:
            self.world.run(due)

    def do_elect(self) -> None:
        """Another coordinator reads the log."""
        self.world.reload()
        self.asked.clear()

    def do_show(self) -> None:
        found = describe_share_group(self.world.machine.table, "g")
        if found.error_code:
            self.lines.append(f"= {ErrorCode(found.error_code).name}: {found.error_message}")
            return
        self.lines.append(
            f"= {found.group_state}, epoch {found.group_epoch}, assignment {found.assignment_epoch}"
        )
        for member in found.members:
            told = self._places(member.assignment)
            self.lines.append(f"=   {member.member_id} epoch {member.member_epoch}: {told}")

    # What happened

    def _beat(self, member: str, epoch: int, topics: tuple[str, ...], lost: str) -> None:
        reply, missing = self.world.beat(member, epoch, *topics, lost=bool(lost))
        text = f"{member} epoch {reply.member_epoch}, again in {reply.heartbeat_interval_ms} ms"
        if reply.assignment is not None:
            text += f": {self._places(reply.assignment)}"
        self.lines.append(f"= {text}")
        if not lost:
            self._ask(missing)

    def _ask(self, wanted: Initialization | None) -> None:
        if wanted is None:
            return
        self.asked.append(wanted)
        for topic_id, starts in wanted.offsets.items():
            places = " ".join(
                f"{partition}{'' if start == CHOSEN_BY_LEADER else f' at {start}'}"
                for partition, start in sorted(starts.items())
            )
            self.lines.append(f"- states of {self._name(topic_id)} begin: {places}")

    def _name(self, topic_id: Uuid) -> str:
        return next(name for name, known in self.topics.items() if known == topic_id)

    def _places(self, assignment: Any) -> str:
        return (
            " ".join(
                f"{self._name(own.topic_id)}-{partition}"
                for own in assignment.topic_partitions
                for partition in own.partitions
            )
            or "nothing"
        )

    def _records(self) -> list[str]:
        log = self.world.log
        new, self.shown = log[self.shown :], len(log)
        return [f"* {self._record(*raw)}" for raw in new]

    def _record(self, raw_key: bytes, raw_value: bytes | None) -> str:
        record: Any = self.world.machine.decode(raw_key, raw_value)
        key, value = record.key, record.value
        kind = type(key).__name__.removeprefix("ShareGroup").removesuffix("Key")
        head = f"{kind} {key.member_id}" if hasattr(key, "member_id") else kind
        if value is None:
            return f"{head} deleted"
        for name in ("assignment_epoch", "epoch", "member_epoch"):
            if hasattr(value, name):
                return f"{head} epoch {getattr(value, name)}"
        return head
