"""Turns a wanted change of one partition into the record that makes it, or none.

`PartitionChangeBuilder` starts with the partition's state. A decider sets the fields that it wants
to change and calls `build`. That completes a reassignment if possible, keeps the ELR, holds the
election, and returns a PartitionChangeRecord with exactly the fields that differ.

Invariants: the leader is none or in the ISR; the ISR is a subset of the replicas; the ISR is
empty only with ELR on; ISR and ELR do not overlap; a reassignment never completes into fewer than
min ISR members.

Source: Kafka's PartitionChangeBuilder and PartitionReassignmentReplicas; KIP-455, KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeAlias

from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions import elections
from barnabas.controller.partitions.elections import Elected, Electorate
from barnabas.metadata.features import DIRECTORIES_SINCE, NO_EPOCH_BUMP_ON_SHRINK_SINCE
from barnabas.metadata.image.topic import (
    LEADER_UNCHANGED,
    NO_LEADER,
    ORDINARY,
    RECOVERING,
    Replicas,
    Topic,
)
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.types import Uuid

Strategy: TypeAlias = Callable[[Electorate], Elected]


class PartitionChangeBuilder:
    """Builds the change of one partition. Attributes without a docstring are the wanted state."""

    __slots__ = (
        "_strategy",
        "adding",
        "asked_by_leader",
        "cluster",
        "directories",
        "elected",
        "elr",
        "index",
        "isr",
        "reason",
        "recovery",
        "removing",
        "replicas",
        "rules",
        "topic",
        "unclean_allowed",
        "unclean_shutdown",
    )

    def __init__(
        self,
        cluster: ControllerContext,
        topic: Topic,
        index: int,
        reason: str = "",
        strategy: Strategy = elections.keep_or_offline,
    ) -> None:
        """`strategy` elects the leader."""
        self.cluster = cluster
        self.topic = topic
        self.index = index
        self.reason = reason
        rare = topic.rare.get(index, ORDINARY)
        self.isr = topic.isr[index]
        self.replicas = topic.replicas[index]
        self.adding = rare.adding
        self.removing = rare.removing
        self.elr = rare.elr
        self.recovery = rare.recovery
        self.directories: dict[int, Uuid] = {}
        """The replicas whose log directory this change sets."""
        self.unclean_shutdown: tuple[int, ...] = ()
        """The brokers that came back without their records: they leave the ELR, too."""
        self.rules = cluster.rules(topic)
        self.unclean_allowed = self.rules.unclean
        self._strategy = strategy
        self.asked_by_leader = False
        """Whether the answer to the leader reports this change, so that no new leader epoch is needed for
        that."""
        self.elected: Elected | None = None
        """The election's result; None before `build`."""

    def without(self, brokers: Iterable[int]) -> PartitionChangeBuilder:
        """Remove `brokers` from the ISR."""
        self.isr = tuple([r for r in self.isr if r not in brokers])
        return self

    def build(self) -> PartitionChangeRecord | None:
        """The record, or None if nothing differs."""
        topic, index, cluster = self.topic, self.index, self.cluster
        rare = topic.rare.get(index, ORDINARY)
        self._complete_reassignment()
        elr_enabled = cluster.elr_enabled
        if elr_enabled:
            self._aim_elr(topic.isr[index])
        else:
            self.elr = ()
            self._keep_last_member(topic.isr[index])
        record = PartitionChangeRecord(partition_id=index, topic_id=topic.id)
        self._elect(record, rare.last_known_elr, elr_enabled)
        self._bump_leader_epoch(record)
        if self.elr != rare.elr:
            record.eligible_leader_replicas = self.elr
        if record.isr is None and self.isr != topic.isr[index] and (self.isr or elr_enabled):
            record.isr = self.isr
        self._bump_for_shrink(record)
        self._record_last_known(record, rare.last_known_elr, elr_enabled)
        self._record_assignment(record)
        if self.recovery != rare.recovery and record.leader_recovery_state < 0:
            record.leader_recovery_state = self.recovery
        if not _changes(record):
            return None
        self._bump_for_order(record)
        self._check_invariants(record)
        self._record_reason(record)
        return record

    def forecast(self) -> Elected:
        """The election that `build` would hold now. It changes nothing."""
        rare = self.topic.rare.get(self.index, ORDINARY)
        return self._strategy(self._electorate(rare.last_known_elr, self.cluster.elr_enabled))

    # -- steps -----------------------------------------------------------------------------------

    def _complete_reassignment(self) -> None:
        """Complete the reassignment if every added replica is in sync and enough replicas remain (KIP-455).
        If the new assignment is smaller, all of its replicas must be in sync."""
        if not self.adding and not self.removing:
            return
        removing = self.removing
        isr = tuple([r for r in self.isr if r not in removing])
        replicas = tuple([r for r in self.replicas if r not in removing])
        if not isr or any(r not in isr for r in self.adding):
            return
        if len(isr) < self.rules.effective_min_isr(len(replicas)):
            return
        if len(self.adding) < len(removing) and any(r not in isr for r in replicas):
            return
        self.isr, self.replicas, self.adding, self.removing = isr, replicas, (), ()
        if self._strategy is elections.keep_or_offline:
            self._strategy = elections.reassigned
        self.reason = joined(self.reason, f"reassignment to {list(replicas)} is complete")

    def _keep_last_member(self, old_isr: Replicas) -> None:
        """Without ELR an ISR does not become empty. If all members leave at once, one stays as the last
        member, as it would if they left one by one. If the leader is among them it stays, since it has at
        least the records of the others."""
        if not self.isr and old_isr:
            leader = self.topic.leader[self.index]
            self.isr = (leader if leader in old_isr else old_isr[0],)

    def _aim_elr(self, old_isr: Replicas) -> None:
        """Set the ELR: if fewer than min ISR replicas are in sync, those that leave the ISR stay
        eligible (KIP-966)."""
        isr = self.isr
        if len(isr) >= self.rules.effective_min_isr(len(self.replicas)):
            self.elr = ()
            return
        gone = self.unclean_shutdown
        candidates = dict.fromkeys((*self.elr, *old_isr))
        self.elr = tuple(
            [r for r in candidates if r not in isr and r not in gone and r in self.replicas]
        )

    def _electorate(self, last_known: Replicas, elr_enabled: bool) -> Electorate:
        topic, index, cluster = self.topic, self.index, self.cluster
        replicas, directories = topic.replicas[index], topic.directories[index]
        moved = self.directories
        unclean_shutdown = self.unclean_shutdown
        offline = cluster.offline_replicas.get((topic.id, index), ())

        def acceptable(replica: int) -> bool:
            if replica in offline:
                return False
            if replica in unclean_shutdown and replica not in self.isr:
                return False
            if replica in moved:
                directory = moved[replica]
            elif replica in replicas:
                directory = directories[replicas.index(replica)]
            else:
                directory = cluster.default_directory(replica)
            return cluster.may_lead(replica, directory)

        return Electorate(
            topic.leader[index],
            self.replicas,
            self.isr,
            self.elr,
            last_known,
            acceptable,
            elr_enabled and self.rules.recovery == "balanced",
            self.unclean_allowed,
        )

    def _elect(
        self, record: PartitionChangeRecord, last_known: Replicas, elr_enabled: bool
    ) -> None:
        elected = self.elected = self._strategy(self._electorate(last_known, elr_enabled))
        if elected.recover:
            self.cluster.to_recover[self.topic.slot << 32 | self.index] = None
        if elected.leader == self.topic.leader[self.index]:
            return
        record.leader = elected.leader
        if elected.unclean:
            self.cluster.unclean_elections += not elected.lossless
            record.isr = self.isr = (elected.leader,)
            self.elr = ()
            self.recovery = record.leader_recovery_state = RECOVERING
        elif elected.leader in self.elr:
            self.cluster.elr_elections += 1
            self.isr = (elected.leader,)
            # If one replica in sync is enough, it commits alone from now on, and the others lack
            # its records (seed 10165).
            enough = self.rules.effective_min_isr(len(self.replicas)) <= 1
            self.elr = () if enough else tuple([r for r in self.elr if r != elected.leader])
        self.reason = joined(self.reason, elected.reason)

    def _bump_leader_epoch(self, record: PartitionChangeRecord) -> None:
        """Raise the leader epoch if a replica is removed: its broker must learn that."""
        if record.leader == LEADER_UNCHANGED:
            before = self.topic.replicas[self.index]
            if self.replicas != before and any(r not in self.replicas for r in before):
                record.leader = self.topic.leader[self.index]

    def _bump_for_shrink(self, record: PartitionChangeRecord) -> None:
        """Raise the leader epoch when the ISR shrinks, which brokers before 3.6 needed
        (KAFKA-15021)."""
        if record.leader != LEADER_UNCHANGED or record.isr is None:
            return
        if self.cluster.image.metadata_version < NO_EPOCH_BUMP_ON_SHRINK_SINCE:
            new = record.isr
            if any(r not in new for r in self.topic.isr[self.index]):
                record.leader = self.topic.leader[self.index]

    def _bump_for_order(self, record: PartitionChangeRecord) -> None:
        """Whether to raise the leader epoch for a leader of Apache Kafka. It ignores a LeaderAndIsr request
        with the leader epoch that it has, and would then propose ISRs with an old partition epoch for
        ever."""
        if not self.cluster.orders_by_epoch or record.leader != LEADER_UNCHANGED:
            return
        moves = (record.replicas, record.adding_replicas, record.removing_replicas)
        if not self.asked_by_leader or any(ids is not None for ids in moves):
            record.leader = self.topic.leader[self.index]

    def _record_last_known(
        self, record: PartitionChangeRecord, last_known: Replicas, elr_enabled: bool
    ) -> None:
        """Record the last leader when the ISR becomes empty, and remove it when the partition has a
        leader."""
        leader = self.topic.leader[self.index]
        if not elr_enabled:
            if last_known:
                record.last_known_elr = ()
        elif record.isr is not None and not record.isr:
            if leader != NO_LEADER and last_known != (leader,):
                record.last_known_elr = (leader,)
            elif leader == NO_LEADER and not last_known:
                # The partition had no leader although its ISR had members: their directories were
                # offline. One member is recorded, or no recovery would ever ask a replica (seed
                # 92).
                record.last_known_elr = self.topic.isr[self.index][:1]
        elif last_known and (
            record.leader >= 0 or (leader != NO_LEADER and record.leader != NO_LEADER)
        ):
            record.last_known_elr = ()

    def _record_assignment(self, record: PartitionChangeRecord) -> None:
        topic, index = self.topic, self.index
        rare = topic.rare.get(index, ORDINARY)
        before = topic.replicas[index]
        if (self.replicas != before or self.directories) and (
            self.cluster.image.metadata_version >= DIRECTORIES_SINCE
        ):
            held = dict(zip(before, topic.directories[index], strict=True))
            held.update(self.directories)
            directories = tuple(
                [held[r] if r in held else self.cluster.default_directory(r) for r in self.replicas]
            )
            if directories != topic.directories[index]:
                record.directories = directories
        if self.replicas != before:
            record.replicas = self.replicas
        if self.removing != rare.removing:
            record.removing_replicas = self.removing
        if self.adding != rare.adding:
            record.adding_replicas = self.adding

    def _check_invariants(self, record: PartitionChangeRecord) -> None:
        """Check invariants 5, 8 and 12 in the record. Raises AssertionError."""
        replicas, isr = self.replicas, self.isr if record.isr is None else record.isr
        assert record.leader < 0 or record.leader in isr, f"leader {record.leader}, ISR {isr}"
        assert all(r in replicas for r in isr), f"ISR {isr} of {replicas}"
        assert not any(r in isr for r in self.elr), f"ELR {self.elr}, ISR {isr}"
        assert replicas and all(r in replicas for r in (*self.adding, *self.removing)), replicas

    def _record_reason(self, record: PartitionChangeRecord) -> None:
        if self.reason:
            record.reason = self.reason


def _changes(record: PartitionChangeRecord) -> bool:
    return not (
        record.isr is None
        and record.leader == LEADER_UNCHANGED
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.leader_recovery_state < 0
        and record.directories is None
    )


@lru_cache(maxsize=4096)
def joined(first: str, second: str) -> str:
    """Join two reasons into one text, which many records share."""
    return f"{first}: {second}" if first and second else first or second
