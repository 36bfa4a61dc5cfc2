"""The metrics of a broker about groups, share partitions, dead letters, transactions and quotas, under the
names of Kafka where it has one: `barnabas cluster metrics --broker`, JMX there.

Groups, share partitions, transactional ids and markers are counted on request, a coordinator's partition or a
share partition per step, between which other requests are served. Rebalances, acknowledgements, ends of
transactions and load times are kept as they happen.

Source: Kafka's GroupCoordinatorMetrics, CoordinatorRuntimeMetricsImpl, ShareGroupMetrics,
SharePartitionMetrics, TransactionStateManager and TransactionMarkerChannelManager; KIP-848, KIP-932,
KIP-1191.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from barnabas.broker.coordinator.coordinators import Coordinators
from barnabas.group.queries import GroupTally
from barnabas.transaction.metrics import by_state, oldest_start_ms
from barnabas.transaction.states import TransactionState

if TYPE_CHECKING:
    from barnabas.broker.roles import DescribeClusterRole
    from barnabas.broker.share.share_groups import ShareGroups

GROUPS = "kafka.server:type=group-coordinator-metrics,name="
CLASSIC = "kafka.coordinator.group:type=GroupMetadataManager,name="
TRANSACTIONS = "kafka.server:type=transaction-coordinator-metrics,name="
MARKERS = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="
OWN = "barnabas.transaction:type=Transactions,name="
SHARE_GROUPS = "kafka.server:type=ShareGroupMetrics,name="
SHARE_PARTITIONS = "kafka.server:type=SharePartitionMetrics,name="
OWN_SHARES = "barnabas.share:type=SharePartitions,name="
QUOTAS = "barnabas.quotas:type=Clients,name="

ACKNOWLEDGEMENTS = ("Accept", "Release", "Reject", "Renew")
"""In the order of their numbers in requests, from 1 on."""
OF_TAGS = frozenset('%,=:*?"\\\n')
Metrics = dict[str, int]


def count_steps(
    broker: DescribeClusterRole, on_counted: Callable[[Metrics], None]
) -> Iterator[None]:
    """Count in steps; `on_counted` gets every metric by its name in the last one."""
    groups = GroupTally()
    states: Counter[TransactionState] = Counter()
    oldest_ms = broker.ports.clock.wall_ms()
    for shard in list(broker.groups.shards.values()):
        if shard.loaded:
            groups.add(shard.machine.table, len(shard.machine.offsets))
        yield
    coordinators = broker.transactions.coordinators
    for owned in list(coordinators.shards.values()):
        if owned.loaded:
            known = [transaction for _, transaction in owned.machine.ids.items()]
            states.update(by_state(known))
            oldest_ms = oldest_start_ms(known, oldest_ms)
        yield
    of_shares: Metrics = {}
    for counted in of_share_partitions(broker.shares.opened):
        of_shares |= counted
        yield
    on_counted(
        _of_groups(broker, groups)
        | _of_transactions(broker, states, oldest_ms)
        | _of_quotas(broker)
        | of_shares
        | of_acknowledgements(broker.shares.opened)
        | of_dead_letters(broker.shares.opened)
        | dict(broker.listeners.metrics())
    )


def _of_groups(broker: DescribeClusterRole, tally: GroupTally) -> Metrics:
    counters = broker.groups.counters
    by_kind = {
        "classic": tally.classic,
        "consumer": tally.consumer,
        "share": tally.share,
        "streams": tally.streams,
    }
    found: dict[str, float] = {}
    for kind, states in by_kind.items():
        found[f"{GROUPS}group-count,protocol={kind}"] = sum(states.values())
        for state, count in states.items():
            found[f"{GROUPS}{kind}-group-count,state={state.value}"] = count
    return {
        **found,
        f"{CLASSIC}NumGroups": sum(tally.classic.values()),
        **{f"{CLASSIC}NumGroups{state.value}": count for state, count in tally.classic.items()},
        f"{CLASSIC}NumOffsets": tally.offsets,
        f"{GROUPS}offset-count": tally.offsets,
        f"{GROUPS}group-completed-rebalance-count": counters.classic_rebalances,
        f"{GROUPS}consumer-group-rebalance-count": counters.consumer_rebalances,
        f"{GROUPS}share-group-rebalance-count": counters.share_rebalances,
        f"{GROUPS}streams-group-rebalance-count": counters.streams_rebalances,
        **_partitions(GROUPS, broker.groups),
        **_load_times(GROUPS, broker.groups, broker.ports.clock.now_ms()),
    }


def _of_transactions(
    broker: DescribeClusterRole, states: Counter[TransactionState], oldest_ms: int
) -> Metrics:
    coordinators = broker.transactions.coordinators
    counters, waiting = coordinators.counters, broker.transactions.markers.counts()
    return {
        **{f"{OWN}{state.label}": states[state] for state in by_state(())},
        f"{OWN}Committed:Count": counters.committed,
        f"{OWN}Aborted:Count": counters.aborted,
        f"{OWN}TimedOut:Count": counters.timed_out,
        f"{OWN}OldestOpenMs": broker.ports.clock.wall_ms() - oldest_ms,
        f"{OWN}WaitingForMarkers": waiting.transactions,
        f"{OWN}WaitingMarkers": waiting.markers,
        f"{MARKERS}UnknownDestinationQueueSize": waiting.tried_again,
        f"{MARKERS}LogAppendRetryQueueSize": waiting.completions_tried_again,
        **_partitions(OWN, coordinators),
        **_load_times(TRANSACTIONS, coordinators, broker.ports.clock.now_ms()),
    }


def _of_quotas(broker: DescribeClusterRole) -> Metrics:
    return {
        f"{QUOTAS}Known": len(broker.quotas),
        f"{QUOTAS}ThrottledAnswers:Count": broker.quotas.waits,
    }


def of_share_partitions(shares: ShareGroups | None) -> Iterator[Metrics]:
    """The records that each share partition has under way here, and how often those were delivered."""
    for led, machine in [] if shares is None else shares.led.in_service():
        key, tally = led.key, machine.in_flight.tally()
        tags = f"group={_tag(key.group_id)},topic={led.partition.topic},partition={key.partition}"
        yield {
            f"{SHARE_PARTITIONS}InFlightMessageCount,{tags}": tally.offsets,
            f"{SHARE_PARTITIONS}InFlightBatchCount,{tags}": tally.pieces,
            f"{SHARE_PARTITIONS}AcquisitionLockTimeoutPerSec,{tags}": machine.lock_timeouts,
            f"{OWN_SHARES}Acquired,{tags}": tally.acquired,
            **{
                f"{OWN_SHARES}Delivered,{tags},deliveries={times}": count
                for times, count in tally.delivered.items()
            },
        }


def of_acknowledgements(shares: ShareGroups | None) -> Metrics:
    """Records by how this broker's members have acknowledged them."""
    if shares is None:
        return {}
    counted = shares.fetches.acknowledged
    return {
        f"{SHARE_GROUPS}RecordAcknowledgementsPerSec,ackType={name}": counted[kind]
        for kind, name in enumerate(ACKNOWLEDGEMENTS, 1)
    }


def of_dead_letters(shares: ShareGroups | None) -> Metrics:
    """Counters of each group whose dead letters this broker has written (KIP-1191)."""
    found: Metrics = {}
    for group_id, counts in {} if shares is None else shares.dead_letters.counts.items():
        for name, value in (
            ("DeadLetterQueueRecordCount", counts.records),
            ("DeadLetterQueueTotalProduceRequestsPerSec", counts.writes),
            ("DeadLetterQueueFailedProduceRequestsPerSec", counts.refused),
        ):
            found[f"{SHARE_GROUPS}{name},group={_tag(group_id)}"] = value
    return found


def _tag(text: str) -> str:
    """A text as the value of a tag, in which some characters have a meaning."""
    return "".join(f"%{ord(c):02X}" if c in OF_TAGS else c for c in text)


def _partitions(prefix: str, coordinators: Coordinators[Any]) -> Metrics:
    """Partitions that this broker coordinates. One whose records are not all committed is loading: it
    refuses requests."""
    states = Counter(shard.state for shard in coordinators.shards.values())
    return {
        f"{prefix}num-partitions,state=loading": states["loading"] + states["catching up"],
        f"{prefix}num-partitions,state=active": states["active"],
        f"{prefix}num-partitions,state=failed": states["failed"],
    }


def _load_times(prefix: str, coordinators: Coordinators[Any], now_ms: float) -> Metrics:
    """Milliseconds, of the last half minute."""
    return {
        f"{prefix}partition-load-time-max": round(coordinators.load_times.maximum(now_ms)),
        f"{prefix}partition-load-time-avg": round(coordinators.load_times.average(now_ms)),
    }
