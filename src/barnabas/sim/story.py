"""The story of each partition and of the metadata log: the last things that happened to it in a run.

`Story` and `QuorumStory` are rules of :mod:`barnabas.sim.checkers.replica_logs` and
:mod:`~barnabas.sim.checkers.quorum_logs`, which call them. Entries are tuples that are formatted only when
the story is printed.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from barnabas.metadata.image.topic import PartitionState
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.raft.storage.replica_log import DIRECTORY
from barnabas.sim.checkers.chains import Link
from barnabas.sim.checkers.quorum_logs import QuorumLogs, QuorumMember, QuorumRule
from barnabas.sim.checkers.replica_logs import Rule, Watched
from barnabas.sim.world.world import World

ENTRIES_MAX = 600
"""Entries kept per partition; older ones are dropped."""
Entry = tuple[float, str, tuple[Any, ...]]
"""(virtual instant, format, its arguments)."""


class Story(Rule):
    """The stories of all partitions of one run; `quorum` adds that of the metadata log."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._entries: dict[str, deque[Entry]] = {}
        self.quorum = QuorumStory(self)

    def note(self, name: str, text: str, *arguments: Any) -> None:
        kept = self._entries.get(name)
        if kept is None:
            kept = self._entries[name] = deque(maxlen=ENTRIES_MAX)
        kept.append((self._world.now_ms, text, arguments))

    def lines(self, name: str) -> list[str]:
        """The events of `name`, one line each; the times are virtual milliseconds."""
        return [
            f"{at_ms:11.3f} " + text.format(*arguments)
            for at_ms, text, arguments in self._entries.get(name, ())
        ]

    def concerned(self, text: str) -> str:
        """The name of the partition that `text` mentions; the metadata log's where it mentions none."""
        named = [name for name in self._entries if _speaks_of(text, name)]
        return max(named, key=len, default=DIRECTORY)

    # -- what the checkers report ----------------------------------------------------------------

    def on_appended(self, replica: Watched, link: Link, *, new: bool) -> None:
        self.note(replica.name, "n{} appends {}", replica.node.id, link)

    def on_dropped(self, replica: Watched, dropped: list[Link], *, restarted: bool) -> None:
        why = "comes back without" if restarted else "cuts off"
        first, last = dropped[-1], dropped[0]
        self.note(
            replica.name, "n{} {} {} batches, [{}, {}); it ends at {}",
            replica.node.id, why, len(dropped), first.start, last.end, replica.held.end,
        )  # fmt: skip

    def on_high_watermark(self, replica: Watched, before: int) -> None:
        self.note(
            replica.name, "n{} ({}) high watermark {} -> {}", replica.node.id,
            "leads" if replica.leads else "follows", before, replica.high_watermark,
        )  # fmt: skip

    def on_leading(self, replica: Watched) -> None:
        self.note(
            replica.name, "n{} LEADS in epoch {} from offset {}, ISR {}",
            replica.node.id, replica.epoch, replica.held.end, list(replica.isr),
        )  # fmt: skip

    def on_isr(self, replica: Watched, joined: tuple[int, ...]) -> None:
        self.note(
            replica.name, "n{} goes by ISR {} in epoch {}", replica.node.id, list(replica.isr),
            replica.epoch,
        )  # fmt: skip

    def on_change(
        self,
        offset: int,
        before: PartitionState,
        after: PartitionState,
        record: PartitionChangeRecord,
    ) -> None:
        """The metadata log has committed a change of a partition."""
        self.note(
            str(after), "metadata {}: leader {} epoch {}, ISR {}, ELR {}, replicas {} ({})",
            offset, after.leader, after.leader_epoch, list(after.isr), list(after.elr),
            list(after.replicas), record.reason or "no reason given",
        )  # fmt: skip


class QuorumStory(QuorumRule):
    """Notes in a `Story` what happens to the metadata log."""

    def __init__(self, story: Story) -> None:
        self._story = story

    def on_leading(self, logs: QuorumLogs, member: QuorumMember) -> None:
        self._story.note(
            DIRECTORY, "n{} LEADS epoch {} from offset {}", member.node.id, member.led_epoch,
            member.held.end,
        )  # fmt: skip

    def on_commit(self, logs: QuorumLogs, member: QuorumMember, link: Link) -> None:
        self._story.note(
            DIRECTORY, "n{} knows {} to be committed, has {} on disk", member.node.id, link,
            member.durable,
        )  # fmt: skip


def _speaks_of(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) is not None
