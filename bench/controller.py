"""The controller at scale: create, snapshot, load, and every kind of mass change, on one core.

The controller is real: its decisions, its records, their encoding into batches, their replay, its runtime
with slices. Two things are not: brokers are only the requests that they send, and the quorum is a list in
memory that commits at once. A snapshot is written to a file and loaded by the quorum's applier, as in a node:
into a controller, and into a controller and a broker at once. The garbage collector works as in a node:
between the turns of the loop, and each of its collections counts as a turn.

Prints one line per figure: seconds, partitions touched, microseconds of CPU per partition touched, and the
longest turn of the loop with what ran in it, in milliseconds of CPU. The first and the last line say how long
a fixed loop takes: the speed of the machine at that time.

    python -m bench.controller [--partitions 1000000] [--topic-size 100] [--brokers 100] [--turns 5]
"""

from __future__ import annotations

import argparse
import gc
import heapq
import sys
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from barnabas.host.disk import HostDisk
from barnabas.host.garbage_collector import GarbageCollector
from barnabas.host.loop import name_of
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.node.metadata_loader import MetadataLoader
from barnabas.ports import Ports
from barnabas.raft.core.batches import data_batch
from barnabas.raft.core.log_metadata import LogMetadata
from barnabas.raft.runtime.applier import Applier
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.raft.storage.replica_log import RaftLog
from barnabas.raft.storage.snapshot_files import SnapshotFile, SnapshotWriter, file_name
from barnabas.types import Endpoint
from barnabas.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.wire.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.elect_leaders_request import ElectLeadersRequest
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message
from tests.unit.controller.harness import World

TOPICS_PER_REQUEST = 10
LARGEST = 10_000
"""Records that one request may cause."""


def resident_mb() -> float:
    """Resident memory of this process, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def fixed_loop_ms() -> float:
    """CPU time of a loop that is always the same: the median of 15 runs."""
    times = []
    for _ in range(15):
        begun = time.thread_time()
        total = 0
        for i in range(100_000):
            total += i & 7
        times.append((time.thread_time() - begun) * 1000)
    return sorted(times)[7]


class CpuClock:
    """The clock that limits the controller's slices. It counts CPU time, so other load has no effect."""

    def now_ms(self) -> float:
        return 1000.0 + time.thread_time() * 1000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class Reader:
    """A reader of the broker's image."""

    def on_metadata(self, image: MetadataImage, changes: ImageChanges) -> None:
        """The image is measured as it is filled."""

    def on_controller_change(self) -> None:
        """There is no quorum."""


class Turns:
    """Runs the loop's turns with the garbage collector's between them, and keeps the longest."""

    KEPT = 10
    """Number of turns that are kept."""

    def __init__(self, world: World, collector: GarbageCollector) -> None:
        self.world = world
        self.collector = collector
        self.count = 0
        self.reset()

    def reset(self) -> None:
        self._longest: list[tuple[float, int, str]] = []
        self.longest_look_ms = 0.0

    def longest(self) -> list[tuple[float, str]]:
        """(milliseconds of CPU, what ran) of the longest turns, the longest first."""
        return [(took_ms, name) for took_ms, _, name in sorted(self._longest, reverse=True)]

    def turn(self, call: Callable[..., Any], *arguments: Any) -> Any:
        begun = time.thread_time()
        result = call(*arguments)
        ended = time.thread_time()
        self._note(ended - begun, call)
        if self.collector.between_turns(idle=False):
            look_s = time.thread_time() - ended
            self.longest_look_ms = max(self.longest_look_ms, look_s * 1000)
            self._note(look_s, self.collector.between_turns)
        return result

    def _note(self, took_s: float, call: Callable[..., Any]) -> None:
        self.count += 1
        if len(self._longest) == self.KEPT and took_s * 1000 <= self._longest[0][0]:
            return
        heapq.heappush(self._longest, (took_s * 1000, self.count, name_of(call)))
        if len(self._longest) > self.KEPT:
            heapq.heappop(self._longest)

    def settle(self) -> None:
        """Run turns until nothing is due and everything is committed."""
        world = self.world
        wakeups = world.ports.wakeups
        while wakeups.soon or world.quorum.committed < len(world.quorum.batches):
            if world.quorum.committed < len(world.quorum.batches):
                # In a node the quorum's replica puts all values of a turn into one batch when the turn ends.
                batches = world.quorum.batches[world.quorum.committed :]
                values = [value for batch in batches for value in batch.values]
                if values:
                    self.turn(data_batch, values, 0, 1, 0)
                self.turn(world.quorum.commit)
                self.forget()
            if wakeups.soon:
                self.turn(wakeups.soon.pop(0))

    def forget(self) -> None:
        """Drop the log, so that the memory which is measured is the controller's alone."""
        quorum = self.world.quorum
        quorum.records += sum(len(batch.values) for batch in quorum.batches)
        quorum.batches = [quorum.batches[-1]._replace(values=[])]
        quorum.committed = 1

    def ask(self, request: Any, connection: int = 0) -> Any:
        answer = self.turn(lambda: self.world.start(request, connection=connection))
        if not isinstance(answer, Parked):
            return answer
        box: list[Any] = []
        answer.attach(box.append)
        self.settle()
        return box[0]


class Bench:
    def __init__(
        self,
        partitions: int,
        topic_size: int,
        brokers: int,
        turns_told: int,
        collector: GarbageCollector,
    ) -> None:
        self.partitions, self.topic_size, self.brokers = partitions, topic_size, brokers
        self.world = World()
        self.world.ports.clock = cast("Any", CpuClock())
        self.world.quorum.records = 0
        self.turns = Turns(self.world, collector)
        self.turns_told = turns_told
        self.directory = ""

    @property
    def image(self) -> MetadataImage:
        return self.world.image

    def measure(self, name: str, work: Callable[[], int]) -> float:
        """Run and print one figure; `work` returns how many partitions it touched."""
        self.turns.reset()
        records = self.world.quorum.records
        begun, begun_cpu = time.perf_counter(), time.thread_time()
        touched = work()
        seconds, cpu = time.perf_counter() - begun, time.thread_time() - begun_cpu
        records = self.world.quorum.records - records
        print(
            f"{name:<34} {seconds:8.3f} s ({cpu:7.3f} s of the core) {touched:>8} partitions"
            f" {cpu / max(touched, 1) * 1e6:6.1f} us each {records:>8} records"
            f"  longest turn {self._longest_turn()}, collection"
            f" {self.turns.longest_look_ms:5.1f} ms",
            flush=True,
        )
        for took_ms, name in self.turns.longest()[: self.turns_told]:
            print(f"{'':<34} {took_ms:8.2f} ms {name}")
        return seconds

    def clean_up(self) -> None:
        """Collect all garbage of the measurement before, which a node would not have made. A node makes such
        a collection in an idle moment after its memory has doubled."""
        begun = time.thread_time()
        self.turns.collector.end()
        gc.collect()
        self.turns.collector.begin()
        took_ms = (time.thread_time() - begun) * 1000
        print(f"{'a full garbage collection':<34} {took_ms:8.0f} ms")

    def _longest_turn(self) -> str:
        took_ms, name = next(iter(self.turns.longest()), (0.0, ""))
        return f"{took_ms:5.1f} ms {name}"

    # -- work ------------------------------------------------------------------------------------

    def join(self) -> int:
        self.world.join(*range(1, self.brokers + 1))
        return 0

    def create(self) -> int:
        topics = self.partitions // self.topic_size
        for first in range(0, topics, TOPICS_PER_REQUEST):
            last = min(first + TOPICS_PER_REQUEST, topics)
            request = CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=f"topic-{i}", num_partitions=self.topic_size, replication_factor=3
                    )
                    for i in range(first, last)
                ]
            )
            answer = self.turns.ask(request)
            assert not any(topic.error_code for topic in answer.topics), answer.topics[0]
        return self.partitions

    def write_snapshot(self) -> int:
        chunks = self.world.controller.snapshot()
        assert chunks is not None
        end = OffsetAndEpoch(self.world.controller.committed_offset + 1, 1)
        writer = SnapshotWriter(HostDisk(), self.directory, end, 0, [], 0)
        while self.turns.turn(lambda: self._pull(chunks, writer)):
            pass
        self.snapshot_bytes = writer.size
        writer.freeze_job(0)()
        self.snapshot = SnapshotFile(HostDisk(), f"{self.directory}/{file_name(end)}", end)
        return self.partitions

    def _pull(self, chunks: Any, writer: SnapshotWriter) -> bool:
        values = next(chunks, None)
        if values is not None:
            writer.add(values, 0)
        return values is not None

    def load(self, *, broker: bool) -> int:
        """Load the snapshot by the applier: into a controller's image and, with `broker`, into a broker's."""
        soon: list[Callable[[], None]] = []
        log = MetadataLoader(cast("Ports", SimpleNamespace(halt=sys.exit)))
        controller = self.world.new_controller()
        log.add_controller(controller)
        self.world.quorum.listeners.remove(controller)
        if broker:
            log.add_follower(Reader())
        applier = Applier(cast("RaftLog", None), LogMetadata(), log, 9, soon.append)
        self.snapshot.check()  # a node checks it at its start, before the loop runs: it is no turn
        applier.load(self.snapshot)
        applier._is_first = False
        self.turns.turn(applier.run)
        while soon:
            self.turns.turn(soon.pop(0))
        loaded = [controller.image, log.image][: 1 + broker]
        assert all(len(image.topics_by_id) == len(self.image.topics_by_id) for image in loaded)
        return self.partitions

    # -- one large request ---------------------------------------------------------------------

    def create_largest(self) -> int:
        topic = CreatableTopic(name="large", num_partitions=LARGEST - 1, replication_factor=3)
        answer = self.turns.ask(CreateTopicsRequest(topics=[topic]))
        assert not answer.topics[0].error_code, answer
        return LARGEST

    def grow_largest(self) -> int:
        topic = CreatePartitionsTopic(name="large", count=2 * LARGEST - 1, assignments=None)
        answer = self.turns.ask(CreatePartitionsRequest(topics=[topic]))
        assert not answer.results[0].error_code, answer
        return LARGEST

    def delete_largest(self) -> int:
        wanted = [DeleteTopicState(name="large")]
        answer = self.turns.ask(DeleteTopicsRequest(topics=wanted))
        assert not answer.responses[0].error_code, answer
        return 2 * LARGEST - 1

    def kill(self, *brokers: int) -> int:
        touched = len({key for broker in brokers for key in self.image.partition_keys_of(broker)})
        network = self.world.ports.network
        for broker in brokers:
            network.refusing.add(Endpoint("h", 9000 + broker))
        for broker in brokers:
            self.turns.turn(self.world.controller.on_connection_closed, 500 + broker)
        self.turns.settle()
        assert all(self.image.brokers[broker].fenced for broker in brokers)
        return touched

    def revive(self, *brokers: int) -> int:
        """`brokers` register again and catch up with the metadata. Returns 0: no partition changes."""
        for broker in brokers:
            self.world.ports.network.refusing.discard(Endpoint("h", 9000 + broker))
            previous = self.world.epochs[broker]
            answer = self.turns.ask(self.world.registration(broker, 7000 + broker, previous))
            self.world.epochs[broker] = answer.broker_epoch
            assert not self.turns.ask(self.heartbeat(broker), 500 + broker).is_fenced
            self.turns.settle()
        return 0

    def heartbeat(self, broker: int, **wishes: Any) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=self.world.epochs[broker],
            current_metadata_offset=self.world.controller.committed_offset,
            **wishes,
        )

    def rejoin(self, *brokers: int) -> int:
        """Every ISR becomes whole again. The records are committed directly; in a cluster leaders ask for
        them by AlterPartition when followers have caught up."""
        from barnabas.controller.decision import Decision
        from barnabas.controller.partitions.partition_change import PartitionChangeBuilder

        touched = 0
        for topic in self.image.topics_by_id.values():
            records: list[Message] = []
            for index in range(len(topic)):
                if len(topic.isr[index]) < len(topic.replicas[index]):
                    change = PartitionChangeBuilder(self.world.controller.cluster, topic, index)
                    change.isr = topic.replicas[index]
                    record = change.build()
                    if record is not None:
                        records.append(record)
            if records:
                self.turns.turn(self.world.controller.commit, Decision(None, records))
                self.turns.settle()
                touched += len(records)
        return touched

    def elect_all(self) -> int:
        answer = self.turns.ask(ElectLeadersRequest(election_type=0, topic_partitions=None))
        return sum(len(topic.partition_result) for topic in answer.replica_election_results)

    def shut_down(self, broker: int) -> int:
        touched = len(self.image.partition_keys_of(broker))
        self.turns.ask(self.heartbeat(broker, want_shut_down=True), 500 + broker)
        self.turns.settle()
        return touched

    def stop(self, broker: int) -> int:
        """The broker's last heartbeat, after all brokers have replayed that it leads nothing."""
        for session in self.world.controller.sessions:
            session.metadata_offset = self.world.controller.committed_offset
        answer = self.turns.ask(self.heartbeat(broker, want_shut_down=True), 500 + broker)
        assert answer.should_shut_down, answer
        return len(self.image.partition_keys_of(broker))

    def take_over(self) -> int:
        """The controller loses and regains the lead, and looks for work that was left half done."""
        self.turns.turn(self.world.controller.on_leader_change, -1, 2)
        self.turns.turn(self.world.controller.on_leader_change, 100, 3)
        self.turns.settle()
        return self.partitions


def run(bench: Bench, *, whole: bool) -> None:
    partitions, topic_size, brokers = bench.partitions, bench.topic_size, bench.brokers
    print(
        f"-- {partitions} partitions of 3 replicas, {partitions // topic_size} topics, {brokers} brokers"
    )
    bench.measure("brokers register", bench.join)
    bench.clean_up()
    before = resident_mb()
    bench.measure("create all", bench.create)
    after = resident_mb()
    print(f"{'resident memory':<34} {after:8.0f} MB, {after - before:.0f} of it the partitions")
    if whole:
        with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as bench.directory:
            bench.measure("write a snapshot", bench.write_snapshot)
            print(f"{'size of the snapshot':<34} {bench.snapshot_bytes / 1e6:8.0f} MB")
            bench.measure("load it, controller", lambda: bench.load(broker=False))
            bench.clean_up()
            bench.measure("load it, controller and broker", lambda: bench.load(broker=True))
        bench.clean_up()
        bench.measure("create a topic, one request", bench.create_largest)
        bench.measure("add to it, one request", bench.grow_largest)
        bench.measure("delete it", bench.delete_largest)
    bench.measure("one broker dies", lambda: bench.kill(1))
    bench.revive(1)
    bench.rejoin(1)
    if not whole:
        return
    bench.measure("another shuts down", lambda: bench.shut_down(2))
    bench.measure("and is fenced", lambda: bench.stop(2))
    third = range(3, 3 + brokers // 3)
    bench.measure("a third of the cluster dies", lambda: bench.kill(*third))
    bench.measure("it comes back", lambda: bench.revive(*third))
    bench.measure("every ISR is whole again", lambda: bench.rejoin(*third))
    bench.measure("preferred election of everything", bench.elect_all)
    bench.measure("a controller takes over", bench.take_over)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--topic-size", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--turns", type=int, default=0, help="long turns to be named per figure")
    given = parser.parse_args(arguments)
    collector = GarbageCollector()
    collector.begin()
    print(f"a fixed loop takes {fixed_loop_ms():.1f} ms")
    for partitions in (*(n for n in (10_000, 100_000) if n < given.partitions), given.partitions):
        bench = Bench(partitions, given.topic_size, given.brokers, given.turns, collector)
        run(bench, whole=partitions == given.partitions)
    print(f"a fixed loop takes {fixed_loop_ms():.1f} ms; {collector.describe()}")


if __name__ == "__main__":
    main(sys.argv[1:])
