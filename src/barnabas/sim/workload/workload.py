"""All clients of one seed, as its plan says: who creates topics, writes, reads and operates.

Everything goes through :mod:`barnabas.client`, as a real program's would. Values are unique, so that the
history can tell each record. Each client draws from a generator of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.client import Client
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.connection import NO_BOUNDS
from barnabas.client.network.legacy_requests import Newest
from barnabas.metadata.image.image import GROUP
from barnabas.security.authorization.acls import Operation
from barnabas.sim.access_history import AccessHistory
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import STRICT, History, Promise
from barnabas.sim.ledger import LEDGER, Ledger
from barnabas.sim.share_ledger import SHARED, ShareLedger
from barnabas.sim.workload.consumers import ConsumerClient, ConsumerPlan
from barnabas.sim.workload.eager_transactions import (
    EagerPlan,
    EagerProcessor,
    MarkerPostman,
    Staller,
    StallPlan,
)
from barnabas.sim.workload.guests import GUARDED, Gatekeeper, Guest, GuestsPlan
from barnabas.sim.workload.operator import Operator
from barnabas.sim.workload.prepared import Preparer, PreparerPlan
from barnabas.sim.workload.producers import ProducerClient, ProducerPlan
from barnabas.sim.workload.readers import ReaderClient, ReaderPlan
from barnabas.sim.workload.recreated_topics import RemadeTopic
from barnabas.sim.workload.share_members import ShareMemberClient, SharesPlan, configure
from barnabas.sim.workload.streams.ledger import StreamsLedger
from barnabas.sim.workload.streams.member import StreamsMemberClient
from barnabas.sim.workload.streams.plan import StreamsPlan, keep_groups
from barnabas.sim.workload.token_guest import TokenGuest
from barnabas.sim.workload.transactions import CommittedReader, Processor, ProcessorPlan
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.elect_leaders_request import ElectLeadersRequest

GUESTS = "guests"
OFFSET_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class TopicPlan:
    """A topic of the seed and what is promised of it."""

    name: str
    partitions: int
    promise: Promise = STRICT
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkloadPlan:
    """Who does what in a seed."""

    topics: tuple[TopicPlan, ...]
    producers: tuple[ProducerPlan, ...]
    consumers: tuple[ConsumerPlan, ...] = ()
    readers: tuple[ReaderPlan, ...] = ()
    operators: tuple[tuple[str, Mapping[str, float], float], ...] = ()
    """(name, weights of habits, longest rest in milliseconds)."""
    processors: tuple[ProcessorPlan, ...] = ()
    """Those that write in transactions."""
    preparers: tuple[PreparerPlan, ...] = ()
    """Those that write in two-phase commit."""
    eager: tuple[EagerPlan, ...] = ()
    """Those that begin each transaction at once."""
    stalls: StallPlan | None = None
    """How connections between brokers stall; None where they do not."""
    guests: GuestsPlan | None = None
    """The guests of a secured cluster: clients with few rights."""
    shares: SharesPlan | None = None
    """The share groups; None where there are none."""
    streams: StreamsPlan | None = None
    """The streams groups; None where there are none."""
    newest: Mapping[str, Newest] = field(default_factory=dict)
    """The newest versions that a client speaks, where those are not the newest there are."""

    @property
    def names(self) -> list[str]:
        """The names of all clients that may be left out."""
        producers = [plan.name for plan in self.producers]
        readers = [*(c.name for c in self.consumers), *(r.name for r in self.readers)]
        processors = [plan.name for plan in (*self.processors, *self.eager)]
        processors += [plan.name for plan in self.preparers]
        guests = [] if self.guests is None else [GUESTS]
        members = () if self.shares is None else self.shares.members
        guests += [member.name for member in members]
        guests += [] if self.streams is None else [m.name for m in self.streams.members]
        return [*producers, *processors, *readers, *(o[0] for o in self.operators), *guests]


class Workload:
    """The clients at work."""

    def __init__(
        self,
        cluster: SimCluster,
        history: History,
        plan: WorkloadPlan,
        skipped: Collection[str] = (),
        *,
        loses_data: bool = True,
        share_ledger: ShareLedger | None = None,
        streams_ledger: StreamsLedger | None = None,
    ) -> None:
        """`loses_data`: faults of the seed take written bytes away. `share_ledger` and `streams_ledger`:
        where there are such groups."""
        self.loses_data = loses_data
        self.cluster = cluster
        self.history = history
        self.plan = plan
        self.replication = min(3, cluster.topology.nodes)
        self.topics: dict[str, int] = {}
        """Name → partitions, of topics whose creation was acknowledged."""
        self.stopped = False
        self.remade: list[RemadeTopic] = []
        """Topics that were recreated while a consumer read them."""
        self.admin = cluster.client("admin")
        for topic in plan.topics:
            history.promises[topic.name] = topic.promise
        self.producers = [ProducerClient(self, p) for p in plan.producers if p.name not in skipped]
        self.consumers = [ConsumerClient(self, c) for c in plan.consumers if c.name not in skipped]
        self.readers = [ReaderClient(self, r) for r in plan.readers if r.name not in skipped]
        self.ledger = Ledger()
        self.processors = [Processor(self, p) for p in plan.processors if p.name not in skipped]
        self.processors += [EagerProcessor(self, p) for p in plan.eager if p.name not in skipped]
        self.postman = MarkerPostman(self) if plan.eager else None
        self.staller = None if plan.stalls is None else Staller(self, plan.stalls)
        self.preparers = [Preparer(self, p) for p in plan.preparers if p.name not in skipped]
        self.committed_reader: CommittedReader | None = None
        self.operators = [Operator(self, *o) for o in plan.operators if o[0] not in skipped]
        self.share_ledger = share_ledger
        self.share_members: list[ShareMemberClient] = []
        if plan.shares is not None and share_ledger is not None:
            self.share_members = [
                ShareMemberClient(self, member, share_ledger)
                for member in plan.shares.members
                if member.name not in skipped
            ]
        self.shares_begun = plan.shares is None
        """Whether the topic of share groups is there, and what is set for them is sent."""
        self.streams_members: list[StreamsMemberClient] = []
        if plan.streams is not None and streams_ledger is not None:
            self.streams_members = [
                StreamsMemberClient(self, streamer, streams_ledger)
                for streamer in plan.streams.members
                if streamer.name not in skipped
            ]
        self.streams_begun = plan.streams is None
        """Whether the source topics of streams groups are there, and each group has its offset."""
        self.access = AccessHistory()
        self.gatekeeper: Gatekeeper | None = None
        self.guests: list[Guest] = []
        self.token_guest: TokenGuest | None = None
        if plan.guests is not None and GUESTS not in skipped:
            self.gatekeeper = Gatekeeper(self, plan.guests)
            self.guests = [
                Guest(self, plan.guests, operation)
                for operation in (Operation.WRITE, Operation.READ)
            ]
            if plan.guests.tokens:
                self.token_guest = TokenGuest(self)

    @property
    def is_ready(self) -> bool:
        """Whether every topic is there."""
        has_ledger = self.committed_reader is not None or not self.processors
        has_all = len(self.topics) == len(self.plan.topics) and self.shares_begun
        return has_all and has_ledger and self.streams_begun

    def client(self, name: str) -> Client:
        return self.cluster.client(name, self.plan.newest.get(name, NO_BOUNDS))

    def start(self) -> None:
        self.admin.tasks.start(self._begin())

    async def _begin(self) -> None:
        for topic in self.plan.topics:
            await self._create(topic)
        await self._begin_transactions()
        await self._begin_shares()
        await self._begin_streams()
        for producer in self.producers:
            producer.start()
        for consumer in self.consumers:
            consumer.start()
        for reader in self.readers:
            reader.start()
        for operator in self.operators:
            operator.start()
        await self._begin_guests()

    async def _begin_guests(self) -> None:
        """Operators do not know of their topic either."""
        if self.gatekeeper is None:
            return
        await self._create_until_there(TopicPlan(GUARDED, 1))
        await self.gatekeeper.begin()
        self.gatekeeper.client.tasks.start(self.gatekeeper.run())
        for guest in self.guests:
            guest.client.tasks.start(guest.run())
        if self.token_guest is not None:
            self.token_guest.keeper.tasks.start(self.token_guest.run())

    async def _begin_transactions(self) -> None:
        """Operators do not know of the ledger: nothing of it is deleted."""
        if not self.processors:
            return
        count = self.processors[0].plan.partitions
        await self._create_until_there(TopicPlan(LEDGER, count))
        self.committed_reader = CommittedReader(self.cluster, self.ledger, "committed", count)
        for processor in self.processors:
            processor.start()
        if self.postman is not None:
            self.postman.start()
        if self.staller is not None:
            self.staller.start()
        for preparer in self.preparers:
            preparer.start()

    async def _begin_shares(self) -> None:
        """The groups read all from the beginning: each broker knows the settings before."""
        plan = self.plan.shares
        if plan is None:
            return
        await self._create_until_there(TopicPlan(SHARED, plan.partitions))
        await configure(self.admin, plan)
        while not all(self._knows_shares(node) for node in self.cluster.up()):
            await self.admin.tasks.sleep(100)
        self.shares_begun = True
        for member in self.share_members:
            member.start()

    async def _begin_streams(self) -> None:
        """Operators do not know of the topics of streams groups: no client deletes or widens them."""
        plan = self.plan.streams
        if plan is None:
            return
        for name, partitions in sorted(plan.sources.items()):
            await self._create_until_there(TopicPlan(name, partitions))
        await keep_groups(self.admin, plan)
        self.streams_begun = True
        for member in self.streams_members:
            member.start()

    def _knows_shares(self, node: SimNode) -> bool:
        assert self.plan.shares is not None
        if node.broker is None:
            return True
        return all((GROUP, group) in node.image.configs for group in self.plan.shares.groups)

    async def _create(self, topic: TopicPlan) -> None:
        await self._create_until_there(topic)
        self.topics[topic.name] = self.history.topics[topic.name] = topic.partitions
        for partition in range(topic.partitions if topic.promise.expires else 0):
            self.history.on_cut(topic.name, partition, OFFSET_MAX)
        self.history.operations += 1
        self.cluster.world.note(f"topic {topic.name} created")

    async def _create_until_there(self, topic: TopicPlan) -> None:
        admin = Admin(self.admin)
        wanted = NewTopic(topic.name, topic.partitions, self.replication, topic.configs)
        while True:
            try:
                (outcome,) = await admin.create_topics([wanted])
                if outcome.error is None or outcome.error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                    break
            except (ChannelError, KafkaError):
                pass
            await self.admin.tasks.sleep(200)

    def stop_producing(self) -> None:
        """Stop producing. What is under way continues; each producer sends one last record to each of its
        partitions, which must be answered as well."""
        self.stopped = True
        for producer in self.producers:
            for partition in producer.plan.partitions:
                producer.send(partition)

    def operators_at_work(self) -> list[str]:
        """Those who still do what they began before they were to stop."""
        return [operator.name for operator in self.operators if operator.is_at_work]

    def processors_at_work(self) -> list[str]:
        """Those who still do what they began before they were to stop."""
        clients: list[Processor | Preparer] = [*self.processors, *self.preparers]
        return [client.name for client in clients if client.is_at_work]

    @property
    def is_open_to_guests(self) -> bool:
        """Whether guests may do everything at last, where there are any."""
        return self.gatekeeper is None or self.gatekeeper.open_ms >= 0

    def prefer_leaders(self) -> list[bool]:
        """Every preferred replica shall lead, which others may have done for a while: what it has is what
        is read then. Not empty any more when that is answered."""
        answered: list[bool] = []

        async def ask() -> None:
            while not answered:
                try:
                    await self.admin.ask_any(
                        lambda: ElectLeadersRequest(election_type=0, topic_partitions=None),
                        timeout_ms=5_000,
                    )
                    answered.append(True)
                except (ChannelError, KafkaError):
                    await self.admin.tasks.sleep(200)

        self.admin.tasks.start(ask())
        return answered

    @property
    def unsettled(self) -> int:
        """Sends without an answer yet."""
        return sum(producer.unsettled for producer in self.producers)
