"""Groups with members of both protocols against a simple model of KIP-848.

* A partition is owned by at most one member: what a client reads, its member in the coordinator has.
* No epoch goes back.
* A committed offset does not go back, and only a member at its epoch, or with the partition since then,
  commits.
* When faults end, every partition is owned again, by one member, and the group is stable.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.group.classic_group import ClassicGroup, GroupState
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.machine import GroupMachine
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.effort import examples
from tests.model.group.consumer_clients import TOPIC, ClassicClient, ConsumerClient
from tests.unit.group.world import Pending, World

PARTITIONS = 5
PLACES = st.integers(0, 3)
Client = ConsumerClient | ClassicClient


class ConsumerGroups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(1, group_initial_rebalance_delay_ms="0")
        self.world.topic(TOPIC, PARTITIONS)
        self.world.tell()
        self.clients: dict[int, Client] = {}
        self.made = 0
        self.epochs: dict[str, int] = {}
        self.group_epoch = 0
        self.acknowledged: dict[int, int] = {}
        self.offsets = 0
        self.commits: list[tuple[Pending, int, int]] = []

    @initialize()
    def begin(self) -> None:
        self.start(0, "consumer")
        self.start(1, "consumer")

    # -- clients ---------------------------------------------------------------------------------

    @rule(place=PLACES, kind=st.sampled_from(["consumer", "static", "classic"]))
    def start(self, place: int, kind: str) -> None:
        """A process begins; one that ran in its place is dead."""
        self.made += 1
        if kind == "classic":
            self.clients[place] = ClassicClient(self.world, f"c{self.made}")
        else:
            instance = f"i{place}" if kind == "static" else None
            self.clients[place] = ConsumerClient(self.world, f"m{self.made}", instance)

    @rule(place=PLACES)
    def crash(self, place: int) -> None:
        self.clients.pop(place, None)

    @rule(place=PLACES, forgets=st.booleans())
    def act(self, place: int, forgets: bool) -> None:
        """The client sends its next request; `forgets`: it never hears the answer."""
        client = self.clients.get(place)
        if client is not None and client.pending is None:
            client.forgets = forgets
            client.pending = self.world.send(client.ask())
        self._poll()

    @rule(place=PLACES)
    def reconcile(self, place: int) -> None:
        client = self.clients.get(place)
        if client is not None and client.pending is None:
            client.reconcile()

    @rule()
    def act_all(self) -> None:
        for place in sorted(self.clients):
            self.reconcile(place)
            self.act(place, False)

    @rule(place=PLACES, epoch=st.sampled_from([-1, -2]))
    def leave(self, place: int, epoch: int) -> None:
        client = self.clients.pop(place, None)
        if client is None or not client.member_id:
            return
        if isinstance(client, ClassicClient):
            identity = MemberIdentity(member_id=client.member_id)
            self.world.send(LeaveGroupRequest(group_id="g", members=[identity]))
        else:
            request = ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id=client.member_id,
                member_epoch=epoch if client.instance else -1,
                instance_id=client.instance,
            )
            self.world.send(request)
        self._poll()

    @rule(place=PLACES, partition=st.integers(0, PARTITIONS - 1))
    def commit(self, place: int, partition: int) -> None:
        client = self.clients.get(place)
        if client is None or partition not in client.owned:
            return
        self.offsets += 1
        part = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=self.offsets
        )
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=client.epoch,
            member_id=client.member_id,
            group_instance_id=client.instance,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[part])],
        )
        self.commits.append((self.world.send(request, 9), partition, self.offsets))
        self._poll()

    def _poll(self) -> None:
        for place in sorted(self.clients):
            client = self.clients[place]
            if client.pending is not None and client.pending.answer is not None:
                answer, client.pending = client.pending.answer, None
                client.take(answer)
        waiting = []
        for pending, partition, offset in self.commits:
            if pending.answer is None:
                waiting.append((pending, partition, offset))
            elif pending.answer.topics[0].partitions[0].error_code == 0:
                known = self.acknowledged.get(partition, 0)
                self.acknowledged[partition] = max(known, offset)
        self.commits = waiting

    # -- the world -------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([10, 600, 1_100, 6_000, 16_000, 46_000]))
    def wait(self, ms: int) -> None:
        self.world.advance(ms)
        self._poll()

    @rule()
    def followers_stop(self) -> None:
        self.world.held = True

    @rule()
    def followers_resume(self) -> None:
        self.world.held = False
        self.world.settle()
        self._poll()

    @rule(refuse=st.booleans())
    def appends(self, refuse: bool) -> None:
        self.world.logs[0].refusal = ErrorCode.NOT_ENOUGH_REPLICAS if refuse else None

    @rule(lossy=st.booleans())
    def coordinator_changes(self, lossy: bool) -> None:
        """Another broker leads; ``lossy`` where it had only what was committed."""
        self.world.resign()
        self._poll()
        if lossy:
            self.world.logs[0].truncate()
        self.world.elect()
        self._poll()

    def _machine(self) -> GroupMachine:
        return self.world.groups.shards[0].machine

    def _group(self) -> Any:
        return self._machine().table.groups.committed("g")

    # -- what holds ------------------------------------------------------------------------------

    @invariant()
    def the_machine_is_valid(self) -> None:
        shard = self.world.groups.shards[0]
        if shard.active:
            shard.machine.validate()

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        group = self._group()
        if not isinstance(group, ConsumerGroup):
            return
        topic = self.world.image.topics_by_name[TOPIC]
        owners: dict[int, str] = {}
        for member_id, member in group.members.committed_items():
            has = {*member.assigned.get(topic.id, ()), *member.revoking.get(topic.id, ())}
            for partition in sorted(has):
                other = owners.setdefault(partition, member_id)
                assert other == member_id, f"{other} and {member_id} own {partition}: {group!r}"
            for client in self.clients.values():
                mine = client.member_id == member_id and not client.classic
                if mine and client.pending is None and client.epoch > 0 and not client.forgets:
                    assert client.owned <= has, (member_id, client.owned, has)

    @invariant()
    def no_epoch_goes_back(self) -> None:
        group = self._group()
        if not isinstance(group, ConsumerGroup) or not self.world.groups.shards[0].loaded:
            self.group_epoch, self.epochs = 0, {}
            return
        epoch, assignment_epoch = group.committed_epochs()
        assert epoch >= self.group_epoch and assignment_epoch <= epoch
        self.group_epoch = epoch
        for member_id, member in group.members.committed_items():
            if member.epoch > 0:
                assert member.epoch >= self.epochs.get(member_id, 0), member
                self.epochs[member_id] = member.epoch

    @invariant()
    def offsets_do_not_go_back(self) -> None:
        if not self.world.groups.shards[0].active:
            return
        asked = OffsetFetchRequestGroup(group_id="g", topics=None)
        answer = self.world.ask(OffsetFetchRequest(groups=[asked]), 9).groups[0]
        read = {p.partition_index: p.committed_offset for t in answer.topics for p in t.partitions}
        for partition, offset in self.acknowledged.items():
            assert read.get(partition, 0) >= offset, (partition, offset, read)

    def teardown(self) -> None:
        """Faults end: the group settles, and every partition has an owner."""
        self.appends(False)
        self.followers_resume()
        if self.world.groups.shards[0].failed:
            self.coordinator_changes(False)
        for _ in range(120):
            for place in sorted(self.clients):
                self.clients[place].forgets = False
            self.act_all()
            self.wait(1_100)
        if not self.clients:
            return
        owned: list[int] = []
        for client in self.clients.values():
            owned += client.owned
        assert sorted(owned) == list(range(PARTITIONS)), (owned, self._group(), self._told())
        group = self._group()
        state = group.state if isinstance(group, ClassicGroup) else group.committed_state()
        assert state is GroupState.STABLE, group

    def _told(self) -> list[object]:
        return [(c.member_id, c.epoch, sorted(c.owned)) for c in self.clients.values()]


TestConsumerGroups = ConsumerGroups.TestCase
TestConsumerGroups.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None
)
