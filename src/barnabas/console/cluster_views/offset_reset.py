"""Moving a group to other offsets: the plan, which is shown first, and doing what the plan says."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.cli.commands.group_changes import Target, Wish, members_of, targets_of, wish_of
from barnabas.client.offsets import CommittedOffset, GroupIdentity, commit
from barnabas.host.client import Connected
from barnabas.types import TopicPartition

WAYS = ("to-earliest", "to-latest", "to-datetime", "by-duration", "shift-by", "to-offset")
WITH_VALUE = ("to-datetime", "by-duration", "shift-by", "to-offset")
NUMBERS = ("shift-by", "to-offset")


@dataclass(frozen=True)
class ResetPlan:
    """The offsets to which partitions would go; `refusal` says why the cluster would refuse it now."""

    group: str
    rows: list[tuple[TopicPartition, int | None, Target]]
    """A partition, its committed offset, and where it would go."""
    refusal: str
    command: list[str]

    @property
    def changes(self) -> int:
        return sum(now != target.offset for _, now, target in self.rows)


def plan_reset(connected: Connected, group: str, topic: str, way: str, value: str) -> ResetPlan:
    """Ask where the group is and would be; nothing changes. Raises ``ValueError``, ``Failure``,
    ``KafkaError``."""
    described = connected.call(connected.admin.describe_group(group))
    committed = connected.committed(group)
    partitions = sorted(tp for tp in committed if not topic or tp.topic == topic)
    if not partitions:
        raise ValueError(f"group {group} has committed nothing{' in ' + topic if topic else ''}")
    targets = targets_of(connected, _wish(way, value), partitions, committed)
    refusal = ""
    if described.members:
        refusal = f"the group has {members_of(described)}: stop what reads in it first"
    where = ["--topic", topic] if topic else ["--all-topics"]
    asked = [f"--{way}", *([value] if way in WITH_VALUE else [])]
    return ResetPlan(
        group,
        [(tp, committed[tp].offset, target) for tp, target in targets.items()],
        refusal,
        ["groups", "reset-offsets", group, *where, *asked, "--execute"],
    )


def execute_reset(connected: Connected, plan: ResetPlan) -> None:
    """Commit the plan's offsets. Raises ``ValueError`` where it would be refused, ``KafkaError``."""
    if plan.refusal:
        raise ValueError(plan.refusal)
    offsets = {tp: CommittedOffset(target.offset) for tp, _, target in plan.rows}
    connected.call(commit(connected.client, GroupIdentity(plan.group), offsets))


def _wish(way: str, value: str) -> Wish:
    if way not in WAYS:
        raise ValueError(f"a group moves {', '.join(WAYS)}, not {way!r}")
    if way not in WITH_VALUE:
        return wish_of(**{way.replace("-", "_"): True})
    if way not in NUMBERS:
        return wish_of(**{way.replace("-", "_"): value})
    if not value.removeprefix("-" if way == "shift-by" else "").isdecimal() or len(value) > 18:
        raise ValueError(f"{way} takes a number, not {value!r}")
    return wish_of(**{way.replace("-", "_"): int(value)})
