"""Text scripts for groups: one command per line after ``> ``, what it caused below it.

Clients are single words; the ids they are given are shown as ``A.1``, ``A.2``, ... Below each command stand
the records that were written (``+``; ``*`` once committed where held) and the answers that arrived, in order.
``BARNABAS_REWRITE=1`` rewrites the files; the difference is for the reader to judge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from barnabas.group.record_codec import decode_record
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.wire.codec import encode_bytes
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import consumer_protocol_subscription as embedded
from barnabas.wire.messages import delete_groups_request as delete
from barnabas.wire.messages import describe_groups_request as describe
from barnabas.wire.messages import heartbeat_request as beat
from barnabas.wire.messages import join_group_request as join
from barnabas.wire.messages import leave_group_request as leave
from barnabas.wire.messages import list_groups_request as listing
from barnabas.wire.messages import offset_commit_request as commit
from barnabas.wire.messages import offset_delete_request as forget
from barnabas.wire.messages import offset_fetch_request as fetch
from barnabas.wire.messages import sync_group_request as sync
from tests.unit.group.answers import TELL, Client, assignment_text, tell_code
from tests.unit.group.consumer_script import ConsumerRequests, tell_record
from tests.unit.group.world import Pending, World


class Requests:
    """The commands that send a request."""

    def __init__(self) -> None:
        self.world = World()
        self.clients: dict[str, Client] = {}
        self.aliases: dict[str, str] = {}
        self.waiting: list[tuple[str, Client, Pending]] = []

    def do_join(self, *names: str, **given: str) -> None:
        """Each client joins with what it said last, or with what is given now."""
        for name in names:
            client = self._client(name)
            client.options.update(given)
            options = client.options
            client.group = options.get("group", client.group)
            client.instance = options.get("instance")
            member_id = self._id(options.pop("as")) if "as" in options else client.member_id
            request = join.JoinGroupRequest(
                group_id=client.group,
                session_timeout_ms=int(options.get("session", "10000")),
                rebalance_timeout_ms=int(options.get("rebalance", "60000")),
                member_id=member_id,
                group_instance_id=client.instance,
                protocol_type=options.get("type", "consumer"),
                protocols=[
                    join.JoinGroupRequestProtocol(
                        name=protocol,
                        metadata=self._subscription(client, options.get("topics", "t").split(",")),
                    )
                    for protocol in options.get("protocols", "range").split(",")
                ],
            )
            self._send("join", client, request, options.get("version"))

    def do_sync(self, *names: str, assign: str = "", generation: str = "", **_: str) -> None:
        """``assign=A:0,B:1``: the leader's assignment."""
        for name in names:
            client = self._client(name)
            request = sync.SyncGroupRequest(
                group_id=client.group,
                generation_id=int(generation) if generation else client.generation,
                member_id=client.member_id,
                group_instance_id=client.instance,
                protocol_type=client.options.get("type", "consumer"),
                protocol_name=client.options.get("chosen", "range"),
                assignments=[
                    sync.SyncGroupRequestAssignment(
                        member_id=self._client(to).member_id, assignment=what.encode()
                    )
                    for to, _, what in (part.partition(":") for part in assign.split(",") if part)
                ],
            )
            self._send("sync", client, request)

    def do_heartbeat(self, *names: str, generation: str = "") -> None:
        for name in names:
            client = self._client(name)
            request = beat.HeartbeatRequest(
                group_id=client.group,
                generation_id=int(generation) if generation else client.generation,
                member_id=client.member_id,
                group_instance_id=client.instance,
            )
            self._send("heartbeat", client, request)

    def do_leave(self, name: str, version: str = "5", instance: str = "") -> None:
        client = self._client(name)
        member_id = "" if instance else client.member_id
        request = leave.LeaveGroupRequest(group_id=client.group)
        if int(version) < 3:
            request.member_id = member_id
        else:
            request.members = [
                leave.MemberIdentity(
                    member_id=member_id, group_instance_id=instance or client.instance
                )
            ]
        self._send("leave", client, request, version)

    def do_forget_id(self, name: str) -> None:
        """The client restarts and knows no id any more."""
        self._client(name).member_id = ""

    def do_commit(self, name: str, *places: str, **given: str) -> None:
        """``commit A t/0:17``; as a member, or ``simple=yes`` without membership."""
        client = self._client(name)
        simple = "simple" in given
        topics: dict[str, list[commit.OffsetCommitRequestPartition]] = {}
        for place in places:
            topic, _, rest = place.partition("/")
            index, _, offset = rest.partition(":")
            topics.setdefault(topic, []).append(
                commit.OffsetCommitRequestPartition(
                    partition_index=int(index),
                    committed_offset=int(offset),
                    committed_metadata="x" * int(given.get("metadata", "0")),
                )
            )
        generation = -1 if simple else int(given.get("generation", client.generation))
        request = commit.OffsetCommitRequest(
            group_id=given.get("group", client.group),
            generation_id_or_member_epoch=generation,
            member_id="" if simple else client.member_id,
            group_instance_id=None if simple else client.instance,
            retention_time_ms=int(given.get("retention", "-1")),
            topics=[
                commit.OffsetCommitRequestTopic(name=topic, partitions=parts)
                for topic, parts in topics.items()
            ],
        )
        self._send("commit", client, request, given.get("version", "9"))

    def do_fetch(self, group: str, *places: str, stable: str = "", version: str = "9") -> None:
        """``fetch g t/0 t/1``, or all of the group's."""
        topics: dict[str, list[int]] = {}
        for place in places:
            topic, _, index = place.partition("/")
            topics.setdefault(topic, []).append(int(index))
        asked = fetch.OffsetFetchRequestGroup(
            group_id=group,
            topics=[
                fetch.OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
                for topic, indexes in topics.items()
            ]
            if places
            else None,
        )
        request = fetch.OffsetFetchRequest(groups=[asked], require_stable=bool(stable))
        self._send("fetch", self._client("-"), request, version)

    def do_delete_offsets(self, group: str, *places: str) -> None:
        request = forget.OffsetDeleteRequest(
            group_id=group,
            topics=[
                forget.OffsetDeleteRequestTopic(
                    name=place.partition("/")[0],
                    partitions=[
                        forget.OffsetDeleteRequestPartition(
                            partition_index=int(place.partition("/")[2])
                        )
                    ],
                )
                for place in places
            ],
        )
        self._send("delete-offsets", self._client("-"), request)

    def do_delete(self, *groups: str) -> None:
        request = delete.DeleteGroupsRequest(groups_names=list(groups))
        self._send("delete", self._client("-"), request)

    def do_list(self, states: str = "", types: str = "") -> None:
        request = listing.ListGroupsRequest(
            states_filter=states.split(",") if states else [],
            types_filter=types.split(",") if types else [],
        )
        self._send("list", self._client("-"), request)

    def do_describe(self, *groups: str, version: str = "6") -> None:
        request = describe.DescribeGroupsRequest(groups=list(groups))
        self._send("describe", self._client("-"), request, version)

    def _subscription(self, client: Client, topics: list[str]) -> bytes:
        return subscription(topics, client.owned) if client.owned else subscription(topics)

    def _client(self, name: str) -> Client:
        return self.clients.setdefault(name, Client(name))

    def _send(self, what: str, client: Client, request: Any, version: str | None = None) -> None:
        number = None if version is None else int(version)
        pending = self.world.send(request, number, client=client.name)
        self.waiting.append((what, client, pending))

    def _alias(self, member_id: str) -> str:
        if not member_id:
            return "none"
        if member_id in self.clients:
            return member_id
        if member_id not in self.aliases:
            prefix = member_id[:-37] or "id"
            count = sum(alias.startswith(f"{prefix}.") for alias in self.aliases.values())
            self.aliases[member_id] = f"{prefix}.{count + 1}"
        return self.aliases[member_id]

    def _id(self, alias: str) -> str:
        known = {alias: member_id for member_id, alias in self.aliases.items()}
        return known.get(alias, alias)


class Script(ConsumerRequests, Requests):
    """The commands that move the world, and what is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = 0

    def run(self, text: str) -> str:
        out: list[str] = []
        for line in text.splitlines():
            if line.startswith(("#", "> ")) or not line.strip():
                out.append(line)
            if line.startswith("> "):
                out += self._command(line[2:].split("#")[0].split())
        return "\n".join(out) + "\n"

    def _command(self, words: list[str]) -> list[str]:
        plain = [word for word in words[1:] if "=" not in word]
        given = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        said = getattr(self, f"do_{words[0]}")(*plain, **given)
        for shard in self.world.groups.shards.values():
            if shard.active:
                shard.machine.validate()
        answers = self._answers()
        lines = [*self._records(), *([] if said is None else [f"  {line}" for line in said])]
        return lines + answers

    # -- commands --------------------------------------------------------------------------------

    def do_config(self, **given: str) -> None:
        """``key=value`` of the broker; begins again."""
        self.world = World(1, **given)

    def do_topic(self, name: str, partitions: str = "4") -> None:
        self.world.topic(name, int(partitions))
        self.world.tell()

    def do_delete_topic(self, name: str, **given: str) -> None:
        """``recreated=yes``: a new topic has its name before the coordinator learns of it;
        ``unpublished=yes``: it never does."""
        topic = self.world.image.topics_by_name[name]
        self.world.image.replay(RemoveTopicRecord(topic_id=topic.id))
        if "recreated" in given:
            self.world.topic(name)
        if "unpublished" not in given:
            self.world.groups.on_topics_deleted({topic.id: name})
            self.world.settle()

    def do_wait(self, seconds: str) -> None:
        self.world.advance(float(seconds) * 1000)

    def do_hold(self) -> None:
        """Followers stop to follow."""
        self.world.held = True

    def do_release(self) -> None:
        self.world.held = False
        self.world.settle()

    def do_refuse(self, code: str) -> None:
        """The log refuses appends."""
        self.world.logs[0].refusal = ErrorCode[code]

    def do_accept(self) -> None:
        self.world.logs[0].refusal = None

    def do_resign(self) -> None:
        """Another broker becomes leader, and coordinator."""
        self.world.resign()

    def do_elect(self, how: str = "") -> None:
        """This broker becomes leader again; ``lossy`` where the other one had less."""
        if how:
            self.world.logs[0].truncate()
            self.shown = min(self.shown, len(self.world.logs[0].records()))
        self.world.elect()

    # -- what is shown ---------------------------------------------------------------------------

    def _answers(self) -> list[str]:
        lines, waiting = [], []
        for what, client, pending in self.waiting:
            if pending.answer is None:
                waiting.append((what, client, pending))
            else:
                tell = TELL.get(what, tell_code)
                lines += [f"= {line}" for line in tell(client, pending.answer, self._alias)]
        self.waiting = waiting
        return lines

    def _records(self) -> list[str]:
        log = self.world.logs[0]
        records = log.records()
        new, self.shown = records[self.shown :], len(records)
        return [f"  {'*' if r.offset < log.high_watermark else '+'} {self._record(r)}" for r in new]

    def _record(self, raw: Any) -> str:
        record = decode_record(raw.key, raw.value)
        assert record is not None
        key: Any = record.key
        value: Any = record.value
        if hasattr(key, "topic"):
            place = f"{key.group} {key.topic}/{key.partition}"
            if value is None:
                return f"{place} deleted"
            kept = f", expires {value.expire_timestamp}" if record.version == 1 else ""
            return f"{place} = {value.offset}{kept}"
        if hasattr(key, "group_id"):
            return tell_record(key, value, self.world.image)
        if value is None:
            return f"group {key.group} deleted"
        members = ", ".join(
            f"{self._alias(m.member_id)}={assignment_text(m.assignment) or '-'}"
            for m in value.members
        )
        return f"group {key.group} generation {value.generation}: {members or 'no members'}"


def subscription(topics: list[str], owned: dict[str, list[int]] | None = None) -> bytes:
    """A subscription of the consumer protocol, version 0, or 1 where it says what is owned."""
    if owned is not None:
        message = embedded.ConsumerProtocolSubscription(
            topics=topics,
            user_data=None,
            owned_partitions=[
                embedded.TopicPartition(topic=topic, partitions=parts)
                for topic, parts in owned.items()
            ],
        )
        return b"\0\1" + encode_bytes(message, 1)
    parts = [b"\0\0", len(topics).to_bytes(4, "big")]
    for topic in topics:
        parts += [len(topic).to_bytes(2, "big"), topic.encode()]
    return b"".join([*parts, b"\xff\xff\xff\xff"])


def run_file(path: Path) -> tuple[str, str]:
    """What the script file contains, and what it should."""
    present = path.read_text()
    return present, Script().run(present)
