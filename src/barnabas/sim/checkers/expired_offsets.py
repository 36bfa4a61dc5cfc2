"""A committed offset expires only when it must: no member of the group reads the topic, and the retention
is over, or the time that the client itself has given.

Observes what the machines of each coordinator decide by themselves. From then on an expired offset may be
gone, as where a client deletes it (:mod:`barnabas.sim.offset_commits`); once the expiry is committed, it is
gone.
"""

from __future__ import annotations

from barnabas.broker.broker import Broker
from barnabas.group.classic_group import ClassicGroup
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.group.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from barnabas.group.records.group_metadata_key import GroupMetadataKey
from barnabas.group.records.offset_commit_key import OffsetCommitKey
from barnabas.operation import Instant
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.group_owners import OneOwnerPerGeneration
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import History, Violation
from barnabas.sim.offset_commits import GONE, CommitAttempt, Commits
from barnabas.sim.world.world import World
from barnabas.wire.errors import ErrorCode


class OnlyIdleOffsetsExpire(Checker):
    LOOKS_AT_IMAGE = True

    def __init__(self, history: History, owners: OneOwnerPerGeneration) -> None:
        self._history = history
        self._owners = owners
        self._heard: dict[int, Broker] = {}

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        broker = node.broker
        if broker is not None and self._heard.get(node.id) is not broker:
            self._heard[node.id] = broker
            broker.groups.observe(_Judge(cluster.world, self._history, self._owners))

    def finish(self, cluster: SimCluster) -> None:
        """Finish: what expired was judged when it did."""


class _Judge:
    """Judges the offsets of one broker's groups."""

    def __init__(self, world: World, history: History, owners: OneOwnerPerGeneration) -> None:
        self._world = world
        self._history = history
        self._owners = owners

    def on_due(self, machine: GroupMachine, outcome: GroupOutcome, at: Instant) -> None:
        """A machine has decided `outcome`: judge the offsets that expire in it."""
        commits, totals = self._history.commits, self._world.totals
        made: list[CommitAttempt] = []
        groups: set[str] = set()
        for record in outcome.records:
            if isinstance(record.key, OffsetCommitKey) and record.value is None:
                place = (record.key.topic, record.key.partition)
                _check(machine, record.key.group, place, at.wall_ms)
                made += commits.begin(record.key.group, {place: GONE})
                totals["offsets expired"] += 1
                groups.add(record.key.group)
        for group_id in groups:
            self._history.offsets_expired[group_id] += 1
        for group_id in _gone(outcome):
            self._history.on_group_expired(group_id)
            self._owners.forget(group_id)
            totals["groups expired"] += 1
        if made:
            _tell_end(outcome, commits, made)


def _gone(outcome: GroupOutcome) -> list[str]:
    """Groups that are no more; not those that only are of another kind now."""
    records = outcome.records
    kept = {r.key.group for r in records if isinstance(r.key, GroupMetadataKey) and r.value}
    gone = [
        record.key.group if isinstance(record.key, GroupMetadataKey) else record.key.group_id
        for record in records
        if record.value is None
        and isinstance(record.key, (GroupMetadataKey, ConsumerGroupMetadataKey))
    ]
    return [group_id for group_id in gone if group_id not in kept]


def _check(machine: GroupMachine, group_id: str, place: tuple[str, int], now: int) -> None:
    """Nothing of the decision was applied yet."""
    group, known = machine.table.groups.get(group_id), machine.offsets.get(group_id, place)
    where = f"of group {group_id} the offset of {place} expires"
    if group is None or known is None:
        raise Violation(f"{where}, and there is none")
    if len(group.members) and (group.topics is None or place[0] in group.topics):
        raise Violation(f"{where}, which its {len(group.members)} members read")
    since = known.commit_ms
    if isinstance(group, ClassicGroup) and group.protocol_type is not None:
        since = min(since, group.state_wall_ms)
    retention_ms = machine.table.offsets_settings.retention_minutes * 60_000
    least = known.expire_ms if known.expire_ms >= 0 else since + retention_ms
    if now < least:
        raise Violation(f"{where} at {now}, not before {least} was it due: {known}")


def _tell_end(outcome: GroupOutcome, commits: Commits, made: list[CommitAttempt]) -> None:
    settled = outcome.on_settled

    def on_settled(error: ErrorCode, at: Instant) -> GroupOutcome:
        if not error:
            commits.acknowledge(made)
        return settled(error, at) if settled is not None else GroupOutcome()

    outcome.settle_by(on_settled)
