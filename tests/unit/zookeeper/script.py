"""The language of tests/scripts/zookeeper: brokers on the twin of an ensemble, and what happens to them.

Each line that begins with ``>`` is a command; the lines below it are what controllers of ZooKeeper mode did
meanwhile (as `barnabas cluster events` tells it, without states and steps) and what is answered.
``BARNABAS_REWRITE=1`` rewrites the files; the difference is for the reader to judge.

Commands::

    brokers 3 servers 1                     a cluster, once
    create t 1,2,3 2,3,1                    a topic by its assignment, asked of any broker that answers
    delete t
    write t                                 ten records to each partition, acks=all, each sent once
    kill B [B ...] | start B | start all    kill -9; start again, or all that are down
    empty B                                 wipe the disk of one that is down
    lose B                                  its machine loses power: nothing refuses a connection
    sleep B 8000                            the process does nothing for so many milliseconds
    expire B                                its session ends, and it learns that later
    cut B from zookeeper | cut B from B B   nothing goes between them, either way
    move B                                  it loses the server of its session
    heal
    server down | server up                 the server that leads the ensemble; servers that are down
    ensemble down | ensemble up             all of its servers
    pass 1000                               milliseconds
    wait whole t | gone t | controller | registered B
    epochs                                  who is controller, in which epoch
    steps t                                 steps of the topic's creation and deletion since it was asked last
    read t                                  the records, compared with what was acknowledged

B is a broker's id, ``controller``, ``leader`` (of partition 0 of the first topic), or ``former`` (the broker
that the last command named).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from barnabas.client.network.channels import ChannelError
from barnabas.record.builder import build_batch
from barnabas.record.decode import records_in
from barnabas.wire.errors import code_of
from barnabas.wire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.zookeeper.states.step_log import ControllerStep
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

MIN_ISR = "2"
HIDDEN = ("state", "step")
ROUNDS = 10
"""Records that a command writes to each partition."""


class Events:
    """What controllers did, gathered from their brokers before a kill ends what they remember."""

    def __init__(self) -> None:
        self._events: list[tuple[int, int, ControllerStep]] = []
        self._seen: dict[tuple[int, int], int] = {}
        """Number of the last event by broker and process."""

    def gather(self, cluster: ZookeeperCluster) -> None:
        for broker, node in cluster.nodes.items():
            if node.controller is None:
                continue
            key = (broker, id(node))
            for step in node.controller.steps.book.steps.after(self._seen.get(key, -1)):
                self._seen[key] = step.number
                self._events.append((step.at_ms, broker, step))
        self._events.sort(key=lambda one: (one[0], one[1], one[2].number))

    def take(self, cluster: ZookeeperCluster) -> list[str]:
        """What is new, without states and steps."""
        self.gather(cluster)
        shown = [one for one in self._events if one[2].kind not in HIDDEN]
        self._events = [one for one in self._events if one[2].kind in HIDDEN]
        return [
            f"{broker}: {step.kind} {step.subject}: {step.change}"
            + (f" ({step.reason})" if step.reason else "")
            for _, broker, step in shown
            if not step.subject.startswith("__")
        ]

    def take_steps(self, topic: str) -> list[str]:
        """Of this topic; those of all others are forgotten."""
        found = [
            f"{broker}: {step.change}"
            for _, broker, step in self._events
            if step.kind == "step" and step.subject.partition("-")[0] == topic
        ]
        self._events = [one for one in self._events if one[2].kind not in HIDDEN]
        return found


class Records:
    """What a client wrote, and whether it is there."""

    def __init__(self, cluster: ZookeeperCluster) -> None:
        self.cluster = cluster
        self.acknowledged: list[bytes] = []
        self.sent = 0

    def write(self, topic: str, partitions: int) -> str:
        answers = Counter(
            self._write(topic, index) for index in range(partitions) for _ in range(ROUNDS)
        )
        return ", ".join(f"{count} {name}" for name, count in sorted(answers.items()))

    def _write(self, topic: str, index: int) -> str:
        leader = int(self.cluster.state(topic, index)["leader"])
        if leader not in self.cluster.nodes:
            return "no leader"
        known = self.cluster.broker_of(leader).image.topics_by_name.get(topic)
        if known is None:
            return "not known yet"
        value = b"%s-%d record %d." % (topic.encode(), index, self.sent)
        self.sent += 1
        batch = build_batch(
            [(None, value)], timestamp_ms=self.cluster.processes[leader].clock.wall_ms()
        )
        data = TopicProduceData(
            name=topic,
            topic_id=known.id,
            partition_data=[PartitionProduceData(index=index, records=batch)],
        )
        request = ProduceRequest(acks=-1, timeout_ms=500, topic_data=[data])
        answer = self.cluster.ask(leader, request)
        if isinstance(answer, ChannelError):
            return "no answer"
        code = code_of(answer.responses[0].partition_responses[0].error_code)
        if not code:
            self.acknowledged.append(value)
        return "acknowledged" if not code else code.name

    def read(self, topic: str, partitions: int) -> str:
        """From every replica: what was acknowledged is in each, once, and they are alike."""
        lost = twice = 0
        for index in range(partitions):
            assigned = self.cluster.read(f"/brokers/topics/{topic}")
            assert assigned is not None
            contents = []
            for broker in assigned["partitions"][str(index)]:
                values = self._values(broker, topic, index)
                contents.append(values)
                count = Counter(values)
                mine = [v for v in self.acknowledged if v.startswith(f"{topic}-{index} ".encode())]
                lost += sum(value not in count for value in mine)
                twice += sum(number > 1 for number in count.values())
            assert all(one == contents[0] for one in contents), "replicas differ"
        return f"{lost} lost, {twice} twice"

    def _values(self, broker: int, topic: str, index: int) -> list[bytes]:
        log = self.cluster.broker_of(broker).replicas.by_name[topic, index].log
        assert log is not None
        found: list[bytes] = []
        at = log.log_start_offset
        while at < log.log_end_offset:
            result = log.read(at, 1_000_000)
            assert result is not None
            for record in records_in(result.records):
                found.append(bytes(record.value or b""))
                at = record.offset + 1
        return found


class Script:
    """One file."""

    def __init__(self) -> None:
        self.cluster: ZookeeperCluster
        self.out: list[str] = []
        self.former = -1
        self.topics: dict[str, int] = {}
        """Partitions by topic."""
        self.events = Events()
        self.records: Records

    def run(self, text: str) -> str:
        """`text` as it should be."""
        lines: list[str] = []
        try:
            for line in text.splitlines():
                if line.startswith("#"):
                    lines.append(line)
                elif line.startswith(">"):
                    self.out = []
                    name, *words = line[1:].partition("#")[0].split()
                    getattr(self, f"do_{name}")(*words)
                    events = self.events.take(self.cluster)
                    lines += [line, *(f"  {one}" for one in [*events, *self.out])]
        finally:
            self.cluster.world.let_go()
        return "".join(f"{line}\n" for line in lines)

    # -- brokers -----------------------------------------------------------------------------------

    def _broker(self, word: str) -> int:
        if word == "controller":
            self.former = self.cluster.wait_for_controller()
        elif word == "leader":
            self.former = int(self.cluster.state(next(iter(self.topics)))["leader"])
        elif word != "former":
            self.former = int(word)
        return self.former

    def do_brokers(self, count: str, _: str = "", servers: str = "1") -> None:
        self.cluster = ZookeeperCluster(
            int(count), servers=int(servers), min_insync_replicas=MIN_ISR
        )
        self.records = Records(self.cluster)

    def do_steps(self, topic: str) -> None:
        self.events.gather(self.cluster)
        self.out += self.events.take_steps(topic)

    def do_kill(self, *words: str) -> None:
        self.events.gather(self.cluster)
        for broker in [self._broker(word) for word in words]:
            self.cluster.kill(broker)

    def do_lose(self, word: str) -> None:
        self.events.gather(self.cluster)
        broker = self._broker(word)
        self.cluster.processes[broker].kill(power_loss=True)
        del self.cluster.nodes[broker]

    def do_start(self, word: str) -> None:
        down = [broker for broker in self.cluster.processes if broker not in self.cluster.nodes]
        for broker in down if word == "all" else [self._broker(word)]:
            self.cluster.start(broker)

    def do_empty(self, word: str) -> None:
        self.cluster.machines[f"n{self._broker(word)}"].disk.wipe("/data")

    def do_sleep(self, word: str, ms: str) -> None:
        self.cluster.processes[self._broker(word)].pause(float(ms))

    def do_expire(self, word: str) -> None:
        node = self.cluster.nodes[self._broker(word)]
        self.cluster.ensemble.expire(node.sessions.id)

    def do_cut(self, word: str, _: str, *others: str) -> None:
        here = f"n{self._broker(word)}"
        servers = [server.host for server in self.cluster.ensemble.servers]
        there = servers if others == ("zookeeper",) else [f"n{other}" for other in others]
        self._cut(here, there)

    def do_move(self, word: str) -> None:
        broker = self._broker(word)
        entry = self.cluster.ensemble.sessions[self.cluster.nodes[broker].sessions.id]
        self._cut(f"n{broker}", [entry.connection.server.host])

    def _cut(self, here: str, there: list[str]) -> None:
        for other in there:
            self.cluster.network.cut(here, other)
            self.cluster.network.cut(other, here)

    def do_heal(self) -> None:
        self.cluster.network.heal()

    # -- the ensemble ------------------------------------------------------------------------------

    def do_server(self, what: str) -> None:
        ensemble = self.cluster.ensemble
        if what == "down":
            assert ensemble.leader is not None
            ensemble.leader.kill()
            return
        for server in ensemble.servers:
            if server.process is None:
                server.start()

    def do_ensemble(self, what: str) -> None:
        for server in self.cluster.ensemble.servers:
            (server.kill if what == "down" else server.start)()

    # -- topics and records ------------------------------------------------------------------------

    def do_create(self, topic: str, *assignments: str) -> None:
        wanted = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(
                    partition_index=index, broker_ids=[int(one) for one in ids.split(",")]
                )
                for index, ids in enumerate(assignments)
            ],
        )
        controller = self.cluster.wait_for_controller()
        answer = self.cluster.ask(
            controller, CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
        )
        self.topics.setdefault(topic, len(assignments))
        self.out.append(code_of(answer.topics[0].error_code).name)

    def do_delete(self, topic: str) -> None:
        code = self.cluster.delete(topic, self.cluster.wait_for_controller())
        self.out.append(code_of(code).name)

    def do_write(self, topic: str) -> None:
        self.out.append(self.records.write(topic, self.topics[topic]))

    def do_read(self, topic: str) -> None:
        self.out.append(self.records.read(topic, self.topics[topic]))

    # -- time --------------------------------------------------------------------------------------

    def do_pass(self, ms: str) -> None:
        self.cluster.pass_time(float(ms))

    def do_wait(self, what: str, *words: str) -> None:
        cluster = self.cluster
        done: dict[str, Callable[[], bool]] = {
            "whole": lambda: self._is_whole(words[0]),
            "gone": lambda: cluster.read(f"/brokers/topics/{words[0]}") is None,
            "controller": lambda: cluster.controller != -1,
            "registered": lambda: self._is_registered(words[0]),
        }
        cluster.wait(done[what], f"{what} {' '.join(words)}")
        cluster.pass_time(100)  # what follows from it

    def _is_registered(self, word: str) -> bool:
        brokers = list(self.cluster.nodes) if word == "all" else [self._broker(word)]
        return all(self.cluster.nodes[broker].is_ready for broker in brokers)

    def _is_whole(self, topic: str) -> bool:
        replicas = self.cluster.read(f"/brokers/topics/{topic}")
        assert replicas is not None
        return all(
            sorted(self.cluster.state(topic, int(index))["isr"]) == sorted(ids)
            for index, ids in replicas["partitions"].items()
        )

    def do_epochs(self) -> None:
        for broker in sorted(self.cluster.nodes):
            if self.cluster.nodes[broker].is_controller:
                self.out.append(f"broker {broker}: epoch {self.cluster.epoch_of(broker)}")
        written = self.cluster.read("/controller")
        held = "none" if written is None else written["brokerid"]
        self.out.append(f"/controller: {held}")


def run_file(path: Path) -> tuple[str, str]:
    """The file as it is, and as it should be."""
    text = path.read_text()
    return text, Script().run(text)
