"""Bugs of the group coordinators."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from barnabas.broker.coordinator.coordinator_shard import CoordinatorShard
from barnabas.broker.coordinator.coordinators import Coordinators
from barnabas.broker.coordinator.hashed_partitions import HashedPartitions
from barnabas.controller.topics import create_partitions
from barnabas.group import offsets
from barnabas.group.classic_group import ClassicGroup
from barnabas.operation import Instant
from barnabas.sim.workload import operator
from barnabas.sim.workload.administration import REQUEST_TIMEOUT_MS
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.sim.mutants.planting import Mutant, Patch


def generation_not_bumped() -> list[Patch]:
    honest = ClassicGroup.begin_generation

    def same_again(self: ClassicGroup, wall_ms: int) -> None:
        before = self.generation
        honest(self, wall_ms)
        self.generation = max(before, 1)

    return [(ClassicGroup, "begin_generation", same_again)]


def answers_before_the_log() -> list[Patch]:
    honest = CoordinatorShard.apply_outcome

    def at_once(self: CoordinatorShard[Any], outcome: Any, done: Any, at: Any) -> None:
        if done is not None and outcome.records and outcome.reply is not None:
            reply, answered = outcome.reply, done
            honest(self, outcome, None, at)
            answered(reply)
        else:
            honest(self, outcome, done, at)

    return [(CoordinatorShard, "apply_outcome", at_once)]


def coordinator_starts_empty() -> list[Patch]:
    """It begins to serve what it has loaded of the log before the last record."""
    honest = CoordinatorShard.on_loaded

    def forgets(self: CoordinatorShard[Any], at: Any) -> None:
        if not hasattr(self.machine, "offsets"):  # a coordinator of transactions
            return honest(self, at)
        for group_id in self.machine.offsets.group_ids():
            for place, value in self.machine.offsets.items(group_id)[:1]:
                self.machine.offsets.put(group_id, place, value._replace(offset=0))
        return honest(self, at)

    return [(CoordinatorShard, "on_loaded", forgets)]


def reads_before_it_caught_up() -> list[Patch]:
    """Queries are answered from what the high watermark has passed, however little that is."""

    def at_once(self: Coordinators[Any], key: str, query: Any) -> Any:
        shard = self.shards.get(self.partition_for(key))
        if shard is None or shard.failed or not shard.loaded:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "not here, or not yet")
        return query(shard.machine)

    return [(Coordinators, "read", at_once)]


def offsets_expire_early() -> list[Patch]:
    honest = offsets.expire_offsets

    def a_week_ahead(table: Any, known: Any, at: Any) -> Any:
        return honest(table, known, Instant(at.now_ms, at.wall_ms + 8 * 86_400_000))

    return [(offsets, "expire_offsets", a_week_ahead)]


def former_member_commits() -> list[Patch]:
    """Members of former generations, and those whose instance id is another's, are not fenced."""
    return [(offsets, "check_commit", lambda *given, **named: None)]


def offsets_topic_grows() -> list[Patch]:
    """Names are hashed by as many partitions as there are, and there may be more."""

    def present(self: HashedPartitions, name: str) -> int:
        topic = self._image.topics_by_name.get(name)
        return self._configured[name] if topic is None else len(topic)

    async def grows(o: Any, topic: str) -> None:
        with suppress(KafkaError):
            await o.admin.create_partitions(topic, 5, timeout_ms=REQUEST_TIMEOUT_MS)

    return [
        (create_partitions, "COORDINATOR_TOPICS", ()),
        (HashedPartitions, "of", present),
        (operator, "try_to_grow", grows),
    ]


MUTANTS = (
    Mutant("generation-not-bumped", "a rebalance continues in the same generation", generation_not_bumped),
    Mutant("commit-answered-early", "a group's commit is acknowledged before it is in the log",
           answers_before_the_log),
    Mutant("offset-forgotten", "a new coordinator forgets a committed offset when it loads",
           coordinator_starts_empty),
    Mutant("offsets-read-early", "a new coordinator answers reads before its high watermark has caught up",
           reads_before_it_caught_up),
    Mutant("offsets-expire-early", "committed offsets expire long before their time",
           offsets_expire_early),
    Mutant("offsets-topic-grows", "partitions are added to the coordinators' topics, and names follow them",
           offsets_topic_grows),
    Mutant("former-member-commits", "a commit is accepted from a former member", former_member_commits),
)  # fmt: skip
