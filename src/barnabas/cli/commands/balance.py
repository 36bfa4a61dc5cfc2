"""``barnabas cluster balance``: evens out what brokers hold, what is written to them, and what they lead.

Sizes come from DescribeLogDirs, rates from two looks at the ends of logs; the plan is carried out by
reassignments (KIP-455) and preferred elections, so that it works on Apache Kafka, too. Partitions move in
waves: where the command is interrupted the wave under way goes back, and what has moved stays.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import typer
from rich.table import Table

from barnabas.cli.commands.reassign import ask_for, takers
from barnabas.cli.confirming import DryRun
from barnabas.cli.connection.connect import AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.measures.partition_figures import PartitionFigures, leaders_in, measure
from barnabas.cli.measures.units import bytes_text
from barnabas.cli.plain_text import counted, say
from barnabas.cli.reassignment import reassignment_throttle as throttling
from barnabas.cli.reassignment.load_balance import (
    BrokerLoad,
    Weight,
    even_out,
    loads_of,
    spread_of,
)
from barnabas.cli.reassignment.reassignment_plans import Assignment, moved_replicas
from barnabas.cli.reassignment.reassignment_progress import placed, under_way, watch
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.client.operations import PREFERRED, elect
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError

PERCENT = 100
INTERRUPTED = 130
COLUMNS = {
    "bytes": "size",
    "bytes_per_s": "written/s",
    "replicas": "replicas",
    "leaders": "leaders",
    "leader_bytes_per_s": "written/s to leaders",
}


class BalancePlan(NamedTuple):
    """The present replicas, those that change, and the weight of each partition."""

    present: Assignment
    changes: Assignment
    weights: Mapping[TopicPartition, Weight]
    brokers: Sequence[int]
    closed: Sequence[int] = ()
    """Brokers that take no replica."""

    @property
    def note(self) -> str:
        """The sentence about brokers that take no replica; empty where every broker takes some."""
        if not self.closed:
            return ""
        brokers = ", ".join(map(str, self.closed))
        several = len(self.closed) > 1
        return (
            f"{'brokers' if several else 'broker'} {brokers} {'take' if several else 'takes'} no replica:"
            " fenced or cordoned (`barnabas cluster describe`); the figures count what is to return there"
        )

    @property
    def copied(self) -> list[TopicPartition]:
        """The partitions that get a replica on another broker."""
        return [tp for tp in sorted(self.changes) if set(self.changes[tp]) != set(self.present[tp])]

    @property
    def bytes_copied(self) -> float:
        return sum(
            self.weights[tp].bytes * len(set(replicas) - set(self.present[tp]))
            for tp, replicas in self.changes.items()
            if tp in self.weights
        )

    def loads(self, after: bool) -> dict[int, BrokerLoad]:
        assignment = self.present | self.changes if after else self.present
        return loads_of(assignment, self.weights, self.brokers)


def balance(
    topic: list[str] = typer.Option([], "--topic", "-t", help="Move only these; may be repeated."),
    tolerance: float = typer.Option(
        10.0, "--tolerance", min=0.0, metavar="PERCENT", help="So far from the mean is even."
    ),
    moves_max: int = typer.Option(
        500, "--moves", min=0, metavar="N", help="Copy no more replicas; 0 moves leaders only."
    ),
    at_once: int = typer.Option(20, "--at-once", min=1, metavar="N", help="Partitions of a wave."),
    throttle: str = typer.Option(
        "", "--throttle", metavar="BYTES/S", help="Copy no faster on any broker, as 50M."
    ),
    sample: float = typer.Option(
        5.0, "--sample", min=0.1, metavar="SECONDS", help="How long rates are measured."
    ),
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Even out bytes, rates, replicas and leaders of brokers with few moves; racks are kept. Ctrl-C takes
    back what is on its way and leaves what has moved."""
    rate = throttling.parse_rate(throttle) if throttle else None
    with cluster(bootstrap, data) as connected:
        if under_way(connected):
            raise Failure("partitions are being moved already: `barnabas reassign status`")
        plan = _planned(connected, topic, tolerance / PERCENT, moves_max, sample)
        if not as_json:
            _show_plan(plan)
        refused: dict[TopicPartition, KafkaError] = {}
        if plan.changes and not dry_run:
            with _signals_interrupt():
                refused = _carry_out(connected, plan, at_once, rate, as_json=as_json)
    if as_json:
        show(True, _as_dict(plan, refused, executed=not dry_run), table_of(None))
    for tp, error in refused.items():
        say(f"{tp}: {error}", err=True)
    if refused:
        raise typer.Exit(1)


def _planned(
    connected: Connected, topics: list[str], tolerance: float, moves_max: int, sample_s: float
) -> BalancePlan:
    views = connected.topics()
    known = {view.name for view in views}
    if missing := [name for name in topics if name not in known]:
        raise Failure(f"there is no topic {', '.join(missing)}")
    figures = measure(connected, views, sample_s)
    for broker, why in figures.look.silent.items():
        raise Failure(f"broker {broker} does not tell the sizes of its replicas: {why}")
    racks, closed = takers(connected)
    present = {tp: state.target for tp, state in placed(connected, []).items()}
    weights = weights_of(views, figures)
    movable = {tp: replicas for tp, replicas in present.items() if not topics or tp.topic in topics}
    still = {tp: replicas for tp, replicas in present.items() if tp not in movable}
    changes = even_out(
        movable, weights, racks, closed, tolerance=tolerance, moves_max=moves_max, still=still
    )
    return BalancePlan(present, changes, weights, sorted(racks), sorted(closed))


def weights_of(
    views: Sequence[TopicMetadata], figures: PartitionFigures
) -> dict[TopicPartition, Weight]:
    """The weight of each partition's replicas: the size of the leader's log, or of the largest one where
    there is no leader."""
    rates = figures.rates or {}
    largest: dict[TopicPartition, int] = {}
    for (_, tp), size in figures.look.sizes.items():
        largest[tp] = max(size, largest.get(tp, 0))
    weights = {}
    for tp, leader in leaders_in(views).items():
        size = figures.look.sizes.get((leader, tp), largest.get(tp, 0))
        weights[tp] = Weight(size, rates[tp].bytes if tp in rates else 0.0)
    return weights


def _carry_out(
    connected: Connected, plan: BalancePlan, at_once: int, rate: int | None, *, as_json: bool
) -> dict[TopicPartition, KafkaError]:
    """Move wave by wave, then give each partition that changed to its preferred leader."""
    refused: dict[TopicPartition, KafkaError] = {}
    order = [*plan.copied, *[tp for tp in sorted(plan.changes) if tp not in set(plan.copied)]]
    waves = [order[start : start + at_once] for start in range(0, len(order), at_once)]
    for number, wave in enumerate(waves, 1):
        if not as_json:
            say(f"wave {number} of {len(waves)}: {counted(len(wave), 'partition')}", err=True)
        wanted = {tp: plan.changes[tp] for tp in wave}
        try:
            if rate is not None:
                states = placed(connected, sorted({tp.topic for tp in wave}))
                targets = {tp: (states[tp], replicas) for tp, replicas in wanted.items()}
                throttling.throttle(connected, throttling.moves_of({}, targets), rate)
            refused |= ask_for(connected, dict(wanted))
            watch(connected, [tp for tp in wave if tp not in refused], as_json=as_json)
            if rate is not None:
                throttling.lift(connected)
        except KeyboardInterrupt:
            _take_back(connected, wave, rate, as_json=as_json)
            raise Failure(
                f"interrupted: what was still moving of wave {number} went back,"
                f" {number - 1} of {len(waves)} waves were done",
                INTERRUPTED,
            ) from None
        except (KafkaError, ChannelError) as error:
            _take_back(connected, wave, rate, as_json=as_json)
            raise Failure(
                f"what was still moving of wave {number} went back, {number - 1} of {len(waves)} waves were"
                f" done: {error}"
            ) from error
        _prefer(connected, [tp for tp in wave if tp not in refused])
    return refused


def _take_back(
    connected: Connected, wave: Sequence[TopicPartition], rate: int | None, *, as_json: bool
) -> None:
    """Cancel what is still under way of a wave, and lift its throttle. Raises :class:`Failure`, which says
    what is left to do, where that is not possible or is interrupted."""
    try:
        going = [tp for tp in under_way(connected) if tp in set(wave)]
        ask_for(connected, dict.fromkeys(going))
        watch(connected, going, as_json=as_json)
        if rate is not None:
            throttling.lift(connected)
    except (KafkaError, ChannelError, KeyboardInterrupt) as error:
        why = "interrupted once more" if isinstance(error, KeyboardInterrupt) else str(error)
        left = "moves" if rate is None else "moves and a throttle"
        raise Failure(
            f"{left} may be left ({why}): `barnabas reassign status` shows them, `reassign cancel` ends them"
        ) from error


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """SIGTERM, and the end of the terminal, interrupt as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is signal.SIG_DFL:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _prefer(connected: Connected, partitions: Sequence[TopicPartition]) -> None:
    """Have the first replicas lead. Partitions that they lead already, and those whose first replica has
    left the ISR, stay as they are: the controller gives them back later."""
    if not partitions:
        return
    outcome = connected.call(elect(connected.client, PREFERRED, partitions))
    left = [
        tp
        for tp, error in outcome.items()
        if error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED
    ]
    if left:
        names = ", ".join(map(str, sorted(left)))
        say(f"not led by their preferred replica yet: {names}", err=True)


# -- what is shown ---------------------------------------------------------------------------------


def _show_plan(plan: BalancePlan) -> None:
    moved = moved_replicas(plan.present, plan.changes)
    leaders = sum(plan.changes[tp][0] != plan.present[tp][0] for tp in plan.changes)
    show(False, None, _loads_table(plan))
    if plan.note:
        say(plan.note)
    if not plan.changes:
        say("nothing is to be moved: the brokers are even, or no move makes them more even")
        return
    say(
        f"{len(plan.changes)} partitions change: {moved} replicas with {bytes_text(plan.bytes_copied)}"
        f" are copied, {leaders} get another preferred leader"
    )
    table = table_of(None, "partition", "now", "then", "size", right=("size",))
    for tp, then in sorted(plan.changes.items()):
        now = plan.present[tp]
        size = plan.weights[tp].bytes if set(then) != set(now) else 0
        table.add_row(
            str(tp), ",".join(map(str, now)), ",".join(map(str, then)),
            bytes_text(size) if size else "-",
        )  # fmt: skip
    show(False, None, table)


def _loads_table(plan: BalancePlan) -> Table:
    table = table_of("now → then", "broker", *COLUMNS.values(), right=("broker", *COLUMNS.values()))
    before, after = plan.loads(False), plan.loads(True)
    for broker in before:
        cells = [
            f"{_text(name, getattr(before[broker], name))} → {_text(name, getattr(after[broker], name))}"
            for name in COLUMNS
        ]
        table.add_row(str(broker), *cells)
    spreads = [f"{_spread(before, name):.0%} → {_spread(after, name):.0%}" for name in COLUMNS]
    table.add_row("above the mean", *spreads)
    return table


def _text(name: str, value: float) -> str:
    return bytes_text(value) if "bytes" in name else str(value)


def _spread(loads: Mapping[int, BrokerLoad], name: str) -> float:
    return spread_of([getattr(load, name) for load in loads.values()])


def _as_dict(
    plan: BalancePlan, refused: Mapping[TopicPartition, KafkaError], *, executed: bool
) -> dict[str, Any]:
    return {
        "executed": executed,
        "before": _loads_as_rows(plan.loads(False)),
        "after": _loads_as_rows(plan.loads(True)),
        "bytes_copied": round(plan.bytes_copied),
        "replicas_copied": moved_replicas(plan.present, plan.changes),
        "partitions": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "before": list(plan.present[tp]),
                "after": list(replicas),
                "bytes": round(plan.weights[tp].bytes) if tp in plan.weights else 0,
                "refused": str(refused[tp]) if tp in refused else None,
            }
            for tp, replicas in sorted(plan.changes.items())
        ],
    }


def _loads_as_rows(loads: Mapping[int, BrokerLoad]) -> list[dict[str, Any]]:
    return [
        {"broker": broker} | {name: round(value) for name, value in zip(COLUMNS, load, strict=True)}
        for broker, load in loads.items()
    ]
