"""Plays seeds: builds a cluster, lets clients work while things break, heals, and judges.

A seed passes where no checker objected, everything acknowledged is there once and in order, and after
healing the cluster made progress within bounded virtual time. One seed gives one trace.

A seed is dense rather than long: it ends soon after it delivered `MESSAGES_MIN` messages, had
`OPERATIONS_MIN` operations of clients acknowledged and met `FAULTS_MIN` faults.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from barnabas.limits import NodeBounds
from barnabas.sim import liveness_checks, swarm
from barnabas.sim.checkers import all_checkers, checkers_after_loss
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.dispatch import Judges
from barnabas.sim.checkers.high_watermark import led_partitions
from barnabas.sim.checkers.share_groups import (
    ShareCoordinatorsKnowTheirLogs,
    ShareLeaders,
    ShareStateStays,
)
from barnabas.sim.checkers.streams_groups import StreamsGroups
from barnabas.sim.cluster import SimCluster
from barnabas.sim.faults import KINDS, LOSE_DATA, Kind, Struck
from barnabas.sim.faults.budget import Budget
from barnabas.sim.faults.schedule import FaultSchedule
from barnabas.sim.history import History, Violation
from barnabas.sim.ledger import LEDGER
from barnabas.sim.migration import judges as migration_judges
from barnabas.sim.migration import swarm as migration_swarm
from barnabas.sim.migration.budget import MigrationBudget
from barnabas.sim.migration.cluster import MigrationCluster, MigrationTopology
from barnabas.sim.migration.faults import MIGRATION_KINDS
from barnabas.sim.migration.operator import MigrationOperator
from barnabas.sim.restart_equality import ClusterState
from barnabas.sim.share_ledger import SHARED, ShareLedger
from barnabas.sim.share_swarm import SHARE_KINDS, with_share_groups
from barnabas.sim.story import Story
from barnabas.sim.streams_swarm import STREAMS_KINDS, with_streams_groups
from barnabas.sim.swarm import Swarm
from barnabas.sim.workload import FinalRead, Workload
from barnabas.sim.workload.guests import GUARDED
from barnabas.sim.workload.streams.ledger import StreamsLedger
from barnabas.sim.workload.transactions import CommittedReader, stable_offset
from barnabas.sim.world.disk_names import Names
from barnabas.sim.world.world import World
from barnabas.sim.zookeeper_mode import swarm as zookeeper_swarm
from barnabas.sim.zookeeper_mode.budget import ZookeeperBudget
from barnabas.sim.zookeeper_mode.cluster import ZookeeperCluster, ZookeeperTopology
from barnabas.sim.zookeeper_mode.faults import ZOOKEEPER_KINDS
from barnabas.sim.zookeeper_mode.judges import ZookeeperJudges, judges_of

TOMBSTONES = "log.cleaner.delete.retention.ms"
READY_MS = 60_000.0
FAULTS_MIN = 3
MESSAGES_MIN = 3_000
OPERATIONS_MIN = 200
MESSAGES_MAX = 40_000
DENSE_MS_MAX = 120_000.0
"""A seed that is not dense by then, or by so many messages, waits for a fault that cannot strike."""
THIN = "seeds that stayed thin"
HEAL_MS = 90_000.0
LATE_EVERY = 25
"""After so many events the run checks again whether a component is late: the check is expensive."""


@dataclass
class Result:
    """The result of one seed."""

    seed: int
    failure: str = ""
    """Empty where it passed."""
    totals: Counter[str] = field(default_factory=Counter)
    trace_hash: str = ""
    trace: list[str] = field(default_factory=list)
    struck: list[Struck] = field(default_factory=list)
    """The faults, in their order."""
    clients: list[str] = field(default_factory=list)
    """Names of all clients that `Plan.skip_clients` can leave out."""
    virtual_ms: float = 0.0
    cpu_s: float = 0.0
    judge: str = ""
    """The module that objected."""
    concerned: str = ""
    """The partition that a failure speaks of, or the quorum's log."""
    story: list[str] = field(default_factory=list)
    """The events of the seed, faults among them."""

    @property
    def passed(self) -> bool:
        return not self.failure


@dataclass(frozen=True)
class Plan:
    """The choices that the command line may fix; the rest a seed draws."""

    nodes: int | None = None
    faults_ms: float | None = None
    """Virtual time with faults; None is: until the seed is dense."""
    faults: frozenset[str] | None = None
    """Kinds of fault, each as likely as another; None is the seed's own mix, the empty set no faults."""
    skip_faults: frozenset[int] = frozenset()
    """Strikes that are left out, by number."""
    skip_clients: frozenset[str] = frozenset()
    secured: bool = False
    """Whether connections authenticate, and ACLs and quotas of guests change."""
    shares: bool = False
    """Whether share groups read a topic of their own."""
    eager: bool = False
    """Whether clients begin each transaction at once."""
    zookeeper: bool = False
    """Whether ZooKeeper coordinates the cluster, instead of a quorum."""
    migration: bool = False
    """Whether it does so at first, and the cluster migrates to a quorum."""
    streams: bool = False
    """Whether there are streams groups with topics of their own."""

    @property
    def has_znodes(self) -> bool:
        """Whether there is an ensemble."""
        return self.zookeeper or self.migration


class Run:
    """One seed."""

    def __init__(self, seed: int, plan: Plan = Plan()) -> None:
        self.world = World(seed)
        self.plan = plan
        self.swarm = drawn = _draw(self.world, plan)
        self.cluster = _cluster(self.world, drawn)
        self.history = History()
        self.history.commits.forgets_deletions = TOMBSTONES in drawn.topology.settings
        weights = drawn.faults if plan.faults is None else dict.fromkeys(plan.faults, 1.0)
        shares = drawn.workload.shares
        self.share_leaders = (
            None if shares is None else ShareLeaders(shares.groups, shares.partitions)
        )
        self.share_ledger = (
            None
            if self.share_leaders is None or shares is None
            else ShareLedger(shares.deliveries_max, shares.lock_ms, self.share_leaders)
        )
        streams = drawn.workload.streams
        self.streams_ledger = None if streams is None else StreamsLedger(streams.session_ms)
        self.workload = Workload(
            self.cluster,
            self.history,
            drawn.workload,
            plan.skip_clients,
            loses_data=not LOSE_DATA.isdisjoint(weights),
            share_ledger=self.share_ledger,
            streams_ledger=self.streams_ledger,
        )
        self.faults = _schedule(self.cluster, weights, drawn, plan)
        self.missing = ""
        """The thing that the run waits for, in words."""
        self._looks = 0
        self.story = Story(self.world)
        self.checkers = _checkers(self.cluster, self.history, self.story)
        if plan.secured:
            self.checkers.append(self.workload.access)
        if self.share_leaders is not None:
            self.checkers += [
                self.share_leaders,
                ShareStateStays(),
                ShareCoordinatorsKnowTheirLogs(),
            ]
        if streams is not None:
            self.checkers.append(StreamsGroups(streams))
        small = "" if drawn.bounds == NodeBounds() else drawn.bounds
        self.world.note(f"seed {seed}: {drawn.topology} {small}")
        self._look = _judges(self.cluster, self.checkers).on_event
        self.operator: MigrationOperator | None = None
        """Takes the steps of a migration; None where the plan has none."""
        if isinstance(self.cluster, MigrationCluster):
            self.operator = MigrationOperator(self.cluster)
        self.world.after_touch.append(self._look)
        self.cluster.loss_followers.append(self._on_history_lost)

    def _on_history_lost(self) -> None:
        """Who compares with what was before judges no more."""
        self.history.on_lost()
        self.workload.ledger.is_lost = True
        if self.share_ledger is not None:
            self.share_ledger.is_lost = True
        if self.streams_ledger is not None:
            self.streams_ledger.is_lost = True
        self.checkers = checkers_after_loss()
        self.world.after(0.0, self._stop_looking)

    def _stop_looking(self) -> None:
        if self._look in self.world.after_touch:
            self.world.after_touch.remove(self._look)

    def play(self) -> None:
        """Raises :class:`Violation`."""
        world = self.world
        self.cluster.start_all()
        self.workload.start()
        if not world.run(READY_MS, lambda: self.workload.is_ready):
            raise Violation(f"no topic was created within {READY_MS:.0f} ms without any fault")
        if self.operator is not None:
            self.operator.start()
        self.faults.start()
        if self.plan.faults_ms is not None:
            world.run(world.now_ms + self.plan.faults_ms)
        else:
            world.run(world.now_ms + DENSE_MS_MAX, self._has_enough)
            world.totals[THIN] += not self._is_dense()
        self.faults.heal_everything()
        self._end_migration()
        self.workload.stop_producing()
        self._until(lambda: self.workload.unsettled == 0, "every send to be answered")
        self._until(lambda: not self.workload.operators_at_work(), "operators to come to an end")
        self._until(lambda: not self.workload.processors_at_work(), "processors to come to an end")
        self._until(lambda: self.workload.is_open_to_guests, "guests to be allowed everything")
        self._until(self._whole, "every ISR to be whole")
        preferred = self.workload.prefer_leaders()
        self._until(lambda: bool(preferred), "preferred leaders to be elected")
        self._until(self._agreed, "every node to know the same metadata")
        self._until(
            partial(self._none, liveness_checks.silent_coordinator),
            "every coordinator to be active",
        )
        self._until(partial(self._none, liveness_checks.open_transaction), "transactions to end")
        if self.swarm.reads_on:
            self._until(
                partial(self._none, liveness_checks.unowned_partition),
                "every partition to be owned again",
            )
            self._until(partial(self._none, liveness_checks.late_group), "every group to read on")
        self._until(partial(self._none, liveness_checks.late_reader), "every reader to read on")
        self._until(
            partial(self._none, liveness_checks.late_on_remade), "readers of recreated topics"
        )
        self._until(partial(self._none, liveness_checks.late_guest), "guests to be served")
        self._settle_coordinated_groups()
        if self.swarm.restarts:
            self._restart_cleanly()
        if not self.plan.has_znodes and liveness_checks.late_registration(self):
            self._until(
                partial(self._none, liveness_checks.late_registration),
                "registrations to reach the controllers",
            )
        if liveness_checks.owned_twice(self):
            self._until(
                partial(self._none, liveness_checks.owned_twice), "members that left to lose all"
            )
        self._read_everything()
        self._read_ledger()
        self._read_guarded()
        self._read_shared()
        if self.swarm.cuts:
            self._wait_for_cuts()
        if self.plan.has_znodes:  # leaders may have moved since
            self._until(self._agreed, "znodes and every broker's image to say the same at last")
        for checker in self.checkers:
            checker.finish(self.cluster)

    def _settle_coordinated_groups(self) -> None:
        self._await_share_groups()
        if self.plan.streams:
            self._until(
                partial(self._none, liveness_checks.unsettled_streams_group),
                "streams groups to have their tasks",
            )

    def _await_share_groups(self) -> None:
        """A member that takes few records at a time needs long for many: each wait is for some of them."""
        read = -1
        while liveness_checks.late_share_group(self):
            read = max(read, liveness_checks.shares_read(self))
            self._until(
                partial(self._none, partial(_stuck_share_group, read)), "share groups to read on"
            )

    def _wait_for_cuts(self) -> None:
        cuts = liveness_checks.Cuts(self)
        self._until(partial(self._none, lambda run: cuts.hanging()), "records to be deleted")
        self._until(
            partial(self._none, liveness_checks.late_start), "followers to know where logs begin"
        )

    def _restart_cleanly(self) -> None:
        """Everything is shut down and started once more, with nothing broken: nothing may be forgotten."""
        standing = ClusterState(self.cluster)
        self.world.totals["restarts at the end"] += 1
        left = {node.id for node in self.cluster.up()}
        for node in self.cluster.up():
            node.shut_down(partial(left.discard, node.id))
        # Wait until no node is up: a start that a fault has scheduled may come only now.
        self._until(lambda: not left, "everything to shut down")
        self.cluster.start_all()
        self._until(self._whole, "every ISR to be whole again")
        standing.compare(self.cluster)
        self._until(self._agreed, "every node to know the same metadata again")

    def let_go(self) -> None:
        """The run is over, and what it gathered goes at once: the collector, which takes apart what holds
        itself, would go through all of that several times."""
        for gathered in (self.history, self.story, *self.checkers):
            vars(gathered).clear()
        self.world.let_go()
        for machine in self.cluster.machines.values():
            machine.disk.names = Names()

    def _end_migration(self) -> None:
        """Each step that is left makes progress, while clients work."""
        operator = self.operator
        while operator is not None and not operator.is_done:
            self._until(lambda step=operator.step: operator.step != step, operator.step)  # type: ignore[misc]

    def _has_enough(self) -> bool:
        return self.cluster.network.delivered >= MESSAGES_MAX or self._is_dense()

    def _is_dense(self) -> bool:
        """Whether enough happened for the seed to count."""
        return (
            self.cluster.network.delivered >= MESSAGES_MIN
            and self.history.operations >= OPERATIONS_MIN
            and (self.faults.count >= FAULTS_MIN or not self.faults.weights)
            and (self.operator is None or self.operator.is_done)
        )

    def _until(self, done: Callable[[], bool], what: str) -> None:
        if not self.world.run(self.world.now_ms + HEAL_MS, done):
            missing = f" ({self.missing})" if self.missing else ""
            raise Violation(
                f"no progress: waited {HEAL_MS:.0f} virtual ms after healing for {what}{missing}"
            )
        self.missing = ""

    def _none(self, late: Callable[[Run], str]) -> bool:
        """Whether no component is `late`; checks now and then."""
        self._looks += 1
        if self._looks % LATE_EVERY:
            return False
        self.missing = late(self)
        return not self.missing

    def _whole(self) -> bool:
        """Whether everybody is there, and every partition has its leader and its whole ISR."""
        here = {node.id for node in self.cluster.up() if not node.is_leaving}
        down = sorted(self.cluster.nodes.keys() - here)
        image = self.faults.budget.image()
        if down or image is None:
            self.missing = f"nodes {down} are down" if down else "no node has the newest metadata"
            return False
        for topic in image.topics_by_id.values():
            rows = zip(topic.leader, topic.isr, topic.replicas, strict=True)
            for index, (leader, isr, replicas) in enumerate(rows):
                if leader < 0 or len(isr) < len(replicas):
                    self.missing = (
                        f"{topic.name}-{index}: leader {leader}, ISR {isr}, replicas {replicas}"
                    )
                    return False
        return True

    def _agreed(self) -> bool:
        """Whether all know the newest metadata, and lead by it to their logs' ends."""
        budget, nodes = self.faults.budget, self.cluster.up()
        self.missing = budget.what_differs()
        if self.missing:
            return False
        led: dict[str, bool] = {}
        for node in nodes:
            # Not by offsets of images: a snapshot's is behind control records as well (seed 100652).
            if node.broker is not None and budget.knows_newest(node):
                for partition, _, high_watermark, end in led_partitions(node.broker):
                    led[str(partition)] = high_watermark == end
        wanted = [f"{t}-{p}" for t, count in self.workload.topics.items() for p in range(count)]
        late = [name for name in wanted if not led.get(name)]
        self.missing = f"{late[0]}: no leader has all of it committed" if late else ""
        return not late

    def _read_everything(self) -> None:
        for topic, partitions in sorted(self.workload.topics.items()):
            ends = self.ends(topic, partitions)
            if len(ends) < partitions:  # leaderships are under way
                self._until(
                    lambda t=topic, n=partitions: len(self.ends(t, n)) == n,  # type: ignore[misc]
                    f"leaders of {topic}",
                )
                ends = self.ends(topic, partitions)
            final = FinalRead(self.cluster, topic, partitions)
            self._until(lambda f=final, e=ends: f.has_read_to(e), f"{topic} to be read")  # type: ignore[misc]
            for partition in range(partitions):
                self.history.check_final(topic, partition, final.found[partition])

    def _read_ledger(self) -> None:
        """Read what readers of committed records see in the end; and that they come to the end."""
        workload = self.workload
        watching = workload.committed_reader
        if watching is None or self.history.is_lost:
            return
        count = len(watching.found)
        self._until(lambda: len(self.ends(LEDGER, count)) == count, "leaders of the ledger")
        final = CommittedReader(self.cluster, workload.ledger, "committed at last", count)
        for reader in (watching, final):
            self._until(
                partial(self._none, partial(_late_in_ledger, reader)),
                "committed records to be read",
            )
        offsets: dict[str, int] = {}
        client = self.cluster.client("offsets at last")
        names = sorted(
            {p.plan.transactional_id for p in workload.processors if p.plan.with_offsets}
        )

        async def ask() -> None:
            for name in names:
                offsets[name] = await stable_offset(client, name)

        client.tasks.start(ask())
        self._until(lambda: len(offsets) == len(names), "offsets of transactions to be stable")
        workload.ledger.offsets_last = not self.history.groups_are_gone
        workload.ledger.expired = self.history.offsets_expired
        workload.ledger.forgets_deletions = self.history.commits.forgets_deletions
        workload.ledger.check_final(final.found, offsets)

    def _read_guarded(self) -> None:
        """No record is there whose request was denied."""
        denied = {value for guest in self.workload.guests for value in guest.denied}
        if not self.workload.guests:
            return
        self._until(lambda: len(self.ends(GUARDED, 1)) == 1, f"the leader of {GUARDED}")
        ends, final = self.ends(GUARDED, 1), FinalRead(self.cluster, GUARDED, 1)
        self._until(lambda: final.has_read_to(ends), f"{GUARDED} to be read")
        for offset, value in final.found[0].items():
            if value in denied:
                raise Violation(f"{GUARDED}-0: offset {offset} is {value!r}, which was denied")

    def _read_shared(self) -> None:
        """Each record of share groups has its fate."""
        plan, ledger = self.swarm.workload.shares, self.share_ledger
        if plan is None or ledger is None or not self.workload.share_members:
            return
        written = {
            index: self.history.acknowledged[SHARED, index] for index in range(plan.partitions)
        }
        ledger.check_final({m.plan.group for m in self.workload.share_members}, written)

    def ends(self, topic: str, partitions: int) -> dict[int, int]:
        """The high watermark of each partition on its leader."""
        ends: dict[int, int] = {}
        for node in self.cluster.up():
            if node.broker is None:
                continue
            for partition, _, high_watermark, _ in led_partitions(node.broker):
                if partition.topic == topic:
                    found = ends.get(partition.partition, 0)
                    ends[partition.partition] = max(found, high_watermark)
        return ends


def _late_in_ledger(reader: CommittedReader, run: Run) -> str:
    ends = run.ends(LEDGER, len(reader.found))
    led = all(partition in ends for partition in reader.found)
    return reader.late(ends) if led else f"{LEDGER}: a leadership is under way"


def _draw(world: World, plan: Plan) -> Swarm:
    if plan.migration:
        return migration_swarm.draw(world.rng, plan.nodes)
    if plan.zookeeper:
        return zookeeper_swarm.draw(world.rng, plan.nodes)
    drawn = swarm.draw(world.rng, plan.nodes, secured=plan.secured, eager=plan.eager)
    if plan.streams:
        return with_streams_groups(world.rng, drawn)
    return with_share_groups(world.rng, drawn) if plan.shares else drawn


def _cluster(world: World, drawn: Swarm) -> SimCluster:
    if isinstance(drawn.topology, MigrationTopology):
        return MigrationCluster(world, drawn.topology, drawn.bounds)
    if isinstance(drawn.topology, ZookeeperTopology):
        return ZookeeperCluster(world, drawn.topology, drawn.bounds)
    return SimCluster(world, drawn.topology, drawn.bounds)


def _schedule(
    cluster: SimCluster, weights: Mapping[str, float], drawn: Swarm, plan: Plan
) -> FaultSchedule:
    rng_of, skipped = cluster.world.rng, plan.skip_faults
    kinds: Mapping[str, Kind] = KINDS
    budget: Budget | None = None
    if isinstance(cluster, MigrationCluster):
        kinds, budget = MIGRATION_KINDS, MigrationBudget(cluster)
    elif isinstance(cluster, ZookeeperCluster):
        kinds, budget = ZOOKEEPER_KINDS, ZookeeperBudget(cluster)
    elif plan.shares:
        kinds = SHARE_KINDS
    elif plan.streams:
        kinds = STREAMS_KINDS
    return FaultSchedule(
        cluster, weights, rng_of, drawn.interval_ms, skipped, kinds=kinds, budget=budget
    )


def _stuck_share_group(read: int, run: Run) -> str:
    """A share group that is late, unless some have read on since all together had read `read`."""
    return "" if liveness_checks.shares_read(run) > read else liveness_checks.late_share_group(run)


def _checkers(cluster: SimCluster, history: History, story: Story) -> list[Checker]:
    if isinstance(cluster, MigrationCluster):
        return migration_judges.judges_of(cluster, history, story)
    if isinstance(cluster, ZookeeperCluster):
        return judges_of(cluster, history, story)
    return all_checkers(history, story)


def _judges(cluster: SimCluster, checkers: list[Checker]) -> Judges:
    if isinstance(cluster, MigrationCluster):
        return migration_judges.MigrationJudges(cluster, checkers)
    if isinstance(cluster, ZookeeperCluster):
        return ZookeeperJudges(cluster, checkers)
    return Judges(cluster, checkers)


def play_seed(seed: int, plan: Plan = Plan(), *, leave_garbage: bool = False) -> Result:
    """Play one seed to its end. A process that ends soon may `leave_garbage`, and saves a tenth."""
    # A seed is short: looking for garbage again and again costs more than it holds. Afterwards only
    # what the seed made is looked at.
    if leave_garbage:
        gc.disable()
        return _play(seed, plan)
    gc.freeze()
    gc.disable()
    try:
        return _play(seed, plan)
    finally:
        gc.enable()
        # Twice: a generator that the first ends may note a thing more in its world, which keeps all of
        # that until the next; and what is there when the next seed freezes it is never looked at again.
        gc.collect()
        gc.collect()
        gc.unfreeze()


def _play(seed: int, plan: Plan) -> Result:
    began = time.process_time()
    run = Run(seed, plan)
    failure = judge = ""
    try:
        run.play()
    except Violation as error:
        failure, judge = f"Violation: {error}", _judge(error)
    except Exception:  # noqa: BLE001 - any fault of a node is a finding
        failure, judge = traceback.format_exc(), "an exception"
    world = run.world
    for node in run.cluster.up():
        if node.process is not None:
            node.process.background.unwind()
    for machine in run.cluster.machines.values():
        world.totals.update({f"disk {k}": v for k, v in machine.disk.totals.items()})
        world.totals["torn writes"] += machine.disk.totals["pages_torn"]
    world.totals["messages delivered"] = run.cluster.network.delivered
    world.totals["acknowledged operations"] = run.history.operations
    concerned = run.story.concerned(failure) if failure else ""
    result = Result(
        seed,
        failure,
        world.totals,
        world.trace_hash(),
        list(world.trace),
        run.faults.struck,
        run.swarm.workload.names,
        world.now_ms,
        time.process_time() - began,
        judge,
        concerned,
        _story(run, concerned) if failure else [],
    )
    run.let_go()
    return result


def _judge(error: Violation) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].filename.rpartition("/")[2].removesuffix(".py") if frames else ""


def _story(run: Run, concerned: str) -> list[str]:
    faults = [f"{s.at_ms:11.3f} * fault {s.number}: {s.kind}" for s in run.faults.struck]
    lines = [*run.story.lines(concerned), *faults]
    return sorted(lines, key=lambda line: float(line.split(None, 1)[0]))
