"""Text scripts for the controller: one command per line after ``> ``, what it caused below it.

After each command stand the records it wrote, in the order of the log, in a short form, and what
it was answered. ``BARNABAS_REWRITE=1`` rewrites the files; the difference is for the reader to judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from barnabas.metadata.bootstrap_records import bootstrap_records
from barnabas.metadata.features import LATEST_METADATA_VERSION
from barnabas.metadata.image.codec import decode_record
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.metadata.records.clear_elr_record import ClearElrRecord
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.metadata.records.register_broker_record import RegisterBrokerRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.records.unregister_broker_record import UnregisterBrokerRecord
from barnabas.types import Endpoint, Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import alter_partition_reassignments_request as reassign
from barnabas.wire.messages import alter_partition_request as alter
from barnabas.wire.messages import elect_leaders_request as elect
from barnabas.wire.messages import incremental_alter_configs_request as configs
from barnabas.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
)
from barnabas.wire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.wire.request import Parked
from tests.unit.controller import script_elections, script_settings, script_topics
from tests.unit.controller.harness import World, uuid

COMMANDS = {
    **script_topics.COMMANDS,
    **script_settings.COMMANDS,
    **script_elections.COMMANDS,
}


class ScriptSender:
    """Answers ListOffsets with the positions that the script gave."""

    def __init__(self) -> None:
        self.positions: dict[int, tuple[int, int]] = {}
        self.epochs: dict[int, int] = {}
        """Broker → the newest leader epoch that it knows, where that is not the newest there is."""

    def send(self, target: Endpoint, request: Any, on_done: Any, **_: Any) -> None:
        assert isinstance(request, ListOffsetsRequest)
        at = self.positions.get(target.port - 9000)
        if at is None:
            return
        on_done(
            ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        name=topic.name,
                        partitions=[
                            self._answer(target.port - 9000, p, *at) for p in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )
        )

    def _answer(
        self, broker: int, asked: ListOffsetsPartition, epoch: int, offset: int
    ) -> ListOffsetsPartitionResponse:
        answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
        if asked.current_leader_epoch > self.epochs.get(broker, asked.current_leader_epoch):
            answer.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
            answer.offset = answer.leader_epoch = -1
        else:
            answer.leader_epoch, answer.offset = epoch, offset
        return answer


class Written:
    """The records written since it was last looked at, in a short form."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.shown = 0
        self.image = MetadataImage()
        self.lines()

    def lines(self) -> list[str]:
        self.world.settle()
        return list(self._records())

    def _records(self) -> Iterator[str]:
        batches, self.shown = (
            self.world.quorum.batches[self.shown :],
            len(self.world.quorum.batches),
        )
        for batch in batches:
            for value in batch.values:
                record = decode_record(value)
                before = self._before(record)
                self.image.replay(record)
                yield from self._line(record, before)

    def _before(self, record: Any) -> Any:
        if isinstance(record, PartitionChangeRecord):
            return self.image.partition(Uuid(record.topic_id), record.partition_id)
        return None

    def _line(self, record: Any, before: Any) -> Iterator[str]:
        if isinstance(record, PartitionChangeRecord) and before is not None:
            yield change_line(record, before)
        elif isinstance(record, (RegisterBrokerRecord, UnregisterBrokerRecord)):
            verb = "registers" if isinstance(record, RegisterBrokerRecord) else "is forgotten"
            yield f"  broker {record.broker_id} {verb} | {record.reason}"
        elif isinstance(record, BrokerRegistrationChangeRecord):
            if record.fenced:
                what = "fenced" if record.fenced > 0 else "unfenced"
            else:
                what = "leaves" if record.in_controlled_shutdown else "changes"
            yield f"  broker {record.broker_id} {what} | {record.reason}"
        elif isinstance(record, TopicRecord):
            yield f"  topic {record.name}"
        elif isinstance(record, PartitionRecord):
            topic = self.image.topics_by_id[Uuid(record.topic_id)]
            yield f"  {topic.name}-{record.partition_id} leader={record.leader} isr={listed(record.isr)}"
        elif isinstance(record, RemoveTopicRecord):
            yield "  topic is gone"
        elif isinstance(record, ConfigRecord):
            kind = {4: "broker ", 16: "metrics ", 32: "group "}.get(record.resource_type, "")
            who = f"{kind}{record.resource_name}" if record.resource_name else "cluster"
            yield f"  {who}: {record.name}={record.value}"
        elif isinstance(record, FeatureLevelRecord):
            yield f"  {record.name} is {record.feature_level}"
        elif isinstance(record, ClearElrRecord):
            yield "  no ELR any more"
        elif isinstance(record, ProducerIdsRecord):
            yield f"  the next producer id is {record.next_producer_id}"


def answered(world: World, answer: Any) -> Any:
    """The answer, which may have to wait for replicas that say how far they are."""
    box: list[Any] = [answer]
    if isinstance(answer, Parked):
        answer.attach(box.append)
        world.settle()
        if len(box) == 1:
            world.advance(2000)
    return box[-1]


class Script:
    def __init__(self) -> None:
        self.sender = ScriptSender()
        self.world = World(sender=self.sender)
        self.written = Written(self.world)

    def run(self, text: str) -> str:
        out = []
        for line in text.splitlines():
            if line.startswith(("#", "> ")) or not line.strip():
                out.append(line)
            if line.startswith("> "):
                out += self._command(line[2:].split("#")[0].split())
        return "\n".join(out) + "\n"

    def _command(self, words: list[str]) -> list[str]:
        more = COMMANDS.get(words[0])
        if more is not None:
            answer = more(self.world, *words[1:])
        else:
            answer = getattr(self, f"do_{words[0]}")(*words[1:])
        lines = self.written.lines()
        if answer is not None:
            lines.append(f"= {answer}")
        self._check()
        return lines

    # -- commands --------------------------------------------------------------------------------

    def do_begin(self, *pairs: str) -> None:
        """A new cluster whose controller has these properties; metadata.version is its first level."""
        properties = dict(pair.split("=") for pair in pairs)
        level = int(properties.pop("metadata.version", LATEST_METADATA_VERSION))
        first = bootstrap_records(level)
        self.world = World(properties, sender=self.sender, bootstrap=first)
        self.written = Written(self.world)

    def do_brokers(self, *names: str) -> None:
        """``1 2:rack``: register and unfence."""
        for name in names:
            broker, _, rack = name.partition(":")
            self.world.join(int(broker), racks={int(broker): rack} if rack else None)
        self.written.lines()

    def do_create(self, name: str, *words: str) -> str | None:
        """``t 1,2,3 2,3,1 key=value``: a topic with these assignments."""
        given = [numbers(word) for word in words if "=" not in word]
        keys = dict(w.split("=") for w in words if "=" in w)
        return said(self.world.create(name, given, configs=keys))

    def do_delete(self, *names: str) -> str | None:
        asked = [DeleteTopicState(name=name) for name in names]
        answers = self.world.ask(DeleteTopicsRequest(topics=asked)).responses
        if len(names) == 1:
            return said(answers[0])
        return ", ".join([f"{answer.name} {said(answer) or 'NONE'}" for answer in answers])

    def do_kill(self, *brokers: str) -> None:
        """The processes die at one moment; the controller learns of it in this order."""
        for broker in brokers:
            self.world.ports.network.refusing.add(Endpoint("h", 9000 + int(broker)))
        for broker in brokers:
            self.world.controller.on_connection_closed(500 + int(broker))

    def do_silence(self, *brokers: str) -> None:
        """The brokers are cut off: others continue sending heartbeats for 10 seconds."""
        known = self.world.image.brokers
        for _ in range(10):
            self.world.advance(1000)
            for broker in sorted(self.world.epochs):
                if str(broker) not in brokers and broker in known and not known[broker].fenced:
                    self.world.heartbeat(broker)

    def do_revive(self, broker: str, how: str = "unclean") -> None:
        """A new process registers after a clean or an unclean shutdown, and catches up."""
        self.world.revive(int(broker), clean=how == "clean", incarnation=7000 + self.written.shown)

    def do_register(self, broker: str) -> str | None:
        """A second process registers under the same id."""
        return said(self.world.register(int(broker), incarnation=9999))

    def do_heartbeat(self, broker: str, *wishes: str) -> str:
        answer = self.world.heartbeat(int(broker), **dict.fromkeys(wishes, True))
        return (
            f"{'fenced' if answer.is_fenced else 'unfenced'}"
            f"{', may stop' if answer.should_shut_down else ''}"
        )

    def do_lose_directory(self, broker: str) -> None:
        self.world.ask(
            BrokerHeartbeatRequest(
                broker_id=int(broker),
                broker_epoch=self.world.epochs[int(broker)],
                current_metadata_offset=self.world.controller.committed_offset,
                offline_log_dirs=[uuid(2000 + int(broker))],
            )
        )

    def do_unregister(self, broker: str) -> str | None:
        return said(self.world.ask(UnregisterBrokerRequest(broker_id=int(broker))))

    def do_isr(self, partition: str, members: str, *words: str) -> str:
        """``t-0 1,2 [by LEADER]``: the leader asks for this ISR; with ``old_leader_epoch`` and the like
        for one that it knows no better than before, ``new_...`` than any replica."""
        topic, index = self._at(partition)
        asking = int(words[words.index("by") + 1]) if "by" in words else topic.leader[index]

        def off(what: str) -> int:
            return (f"new_{what}" in words) - (f"old_{what}" in words)

        refusals = self.world.controller.refusals
        known = len(refusals)
        answer = self.world.ask(
            alter.AlterPartitionRequest(
                broker_id=asking,
                broker_epoch=self.world.epochs[asking] + off("broker_epoch"),
                topics=[
                    alter.TopicData(
                        topic_id=topic.id,
                        partitions=[
                            alter.PartitionData(
                                partition_index=index,
                                leader_epoch=topic.leader_epoch[index] + off("leader_epoch"),
                                partition_epoch=topic.partition_epoch[index]
                                + off("partition_epoch"),
                                new_isr_with_epochs=[
                                    alter.BrokerState(
                                        broker_id=b,
                                        broker_epoch=self.world.epochs.get(b, -1) + off("members"),
                                    )
                                    for b in numbers(members)
                                ],
                            )
                        ],
                    )
                ],
            )
        )
        code = answer.error_code or answer.topics[0].partitions[0].error_code
        notes = refusals.since()[known:]
        return ErrorCode(code).name + (f": {notes[-1].reason}" if code and notes else "")

    def do_elect(self, kind: str, partition: str) -> str:
        topic, index = self._at(partition)
        answer = self.world.start(
            elect.ElectLeadersRequest(
                election_type=1 if kind == "unclean" else 0,
                topic_partitions=[elect.TopicPartitions(topic=topic.name, partitions=[index])],
            )
        )
        started = self.world.ports.clock.now_ms()
        told = answered(self.world, answer)
        if isinstance(answer, Parked) and self.world.ports.clock.now_ms() == started:
            self.world.advance(2000)
        return said(told.replica_election_results[0].partition_result[0]) or "NONE"

    def do_reassign(self, partition: str, target: str, factor: str = "") -> str:
        return self._reassign(partition, numbers(target), keep_factor=factor == "keep-factor")

    def do_cancel(self, partition: str) -> str:
        return self._reassign(partition, None)

    def _reassign(
        self, partition: str, replicas: list[int] | None, *, keep_factor: bool = False
    ) -> str:
        name, _, index = partition.rpartition("-")
        answer = self.world.start(
            reassign.AlterPartitionReassignmentsRequest(
                allow_replication_factor_change=not keep_factor,
                topics=[
                    reassign.ReassignableTopic(
                        name=name,
                        partitions=[
                            reassign.ReassignablePartition(
                                partition_index=int(index), replicas=replicas
                            )
                        ],
                    )
                ],
            )
        )
        return said(answered(self.world, answer).responses[0].partitions[0]) or "NONE"

    def do_set(self, topic: str, pair: str) -> str | None:
        key, _, value = pair.partition("=")
        answer = self.world.ask(
            configs.IncrementalAlterConfigsRequest(
                resources=[
                    configs.AlterConfigsResource(
                        resource_type=2 if topic != "cluster" else 4,
                        resource_name=topic if topic != "cluster" else "",
                        configs=[configs.AlterableConfig(name=key, value=value)],
                    )
                ]
            )
        )
        return said(answer.responses[0])

    def do_position(self, broker: str, epoch: str, offset: str) -> None:
        """What the broker answers when it is asked how far it is."""
        self.sender.positions[int(broker)] = (int(epoch), int(offset))

    def do_wait(self, seconds: str) -> None:
        """Time passes; every unfenced broker sends its heartbeats."""
        for _ in range(int(seconds)):
            self.world.advance(1000)
            for broker in sorted(self.world.epochs):
                known = self.world.image.brokers.get(broker)
                if known is not None and not known.fenced:
                    self.world.heartbeat(broker)

    def do_failover(self, *dead: str) -> None:
        """The controller dies, with the brokers named, and another one takes over."""
        for broker in dead:
            self.world.ports.network.refusing.add(Endpoint("h", 9000 + int(broker)))
        self.world.failover()

    def do_state(self, partition: str) -> str:
        topic, index = self._at(partition)
        state = topic.partition(index)
        parts = [
            f"leader={state.leader}", f"epoch={state.leader_epoch}",
            f"replicas={listed(state.replicas)}", f"isr={listed(state.isr)}",
        ]  # fmt: skip
        for name in ("elr", "last_known_elr", "adding", "removing"):
            if getattr(state, name):
                parts.append(f"{name}={listed(getattr(state, name))}")
        return " ".join(parts + (["recovering"] if state.recovery else []))

    def _at(self, partition: str) -> tuple[Any, int]:
        name, _, index = partition.rpartition("-")
        return self.world.image.topics_by_name[name], int(index)

    def _check(self) -> None:
        """The invariants that hold after every decision (8 and 12 of docs/invariants.md)."""
        image = self.world.image
        for topic in image.topics_by_id.values():
            for state in topic.partitions():
                assert set(state.isr) <= set(state.replicas), state
                assert state.leader == -1 or state.leader in state.isr, state
                assert not set(state.isr) & set(state.elr), state
                for broker in state.isr:
                    fenced = image.brokers[broker].fenced if broker in image.brokers else True
                    assert not fenced or (len(state.isr) == 1 and not image.elr_enabled), state


def change_line(record: PartitionChangeRecord, before: Any) -> str:
    parts = []
    if record.leader != -2:
        parts.append(f"leader {before.leader}→{record.leader}")
    for name, field in (
        ("isr", "isr"), ("elr", "eligible_leader_replicas"), ("last known", "last_known_elr"),
        ("replicas", "replicas"), ("adding", "adding_replicas"), ("removing", "removing_replicas"),
    ):  # fmt: skip
        value = getattr(record, field)
        if value is not None:
            old = {"last known": "last_known_elr"}.get(name, name)
            parts.append(f"{name} {listed(getattr(before, old))}→{listed(value)}")
    if record.leader_recovery_state >= 0:
        parts.append("recovering" if record.leader_recovery_state else "recovered")
    if record.directories is not None and not parts:
        parts.append("directories")
    return f"  {before.topic}-{before.partition}: {', '.join(parts)} | {record.reason}"


def listed(values: Any) -> str:
    return ",".join(map(str, values)) or "none"


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def said(answer: Any) -> str | None:
    if not answer.error_code:
        return None
    message = getattr(answer, "error_message", "") or ""
    return f"{ErrorCode(answer.error_code).name}: {message}"


def run_file(path: Path) -> tuple[str, str]:
    """The file as it is, and as it should be."""
    text = path.read_text()
    return text, Script().run(text)
