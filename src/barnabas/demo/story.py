"""The demo from beginning to end: one method per step, in the order of the steps."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cli.local.console_process import ConsoleProcess
from barnabas.demo.access import Access, access_to
from barnabas.demo.failover import ActiveController, NewLeader, leader_of, wait_for_whole_isr
from barnabas.demo.flights import Figures, Row, data_file, figures_of, read_rows, to_json
from barnabas.demo.outcome import Check, compare, read_changelog, read_landed
from barnabas.demo.producer import TOPIC, FlightProducer, WatchedTopic
from barnabas.demo.progress import JobProgress
from barnabas.demo.spark_process import SparkProcess
from barnabas.pipeline.cluster_client import ClusterClient as KafkaCluster
from barnabas.pipeline.options import endpoints
from barnabas.testing.cluster import Cluster
from barnabas.types import Endpoint

PARTITIONS = 6
REPLICAS = 3
KILL_AT = 0.5
RESTART_AT = 0.75
"""Shares of the stream at which the leader is killed and its node is started again."""
READY_S = 60.0
CONTROLLER_S = 10.0
SPARK_S = 90.0
ALL_IN_S = 150.0
WHOLE_S = 60.0
PAGES_S = 20.0
SHOW_ROWS = 1000
CONTROLLER_LISTENER = "CONTROLLER"


def access_of(cluster: Cluster) -> Access:
    return access_to(cluster.bootstrap, cluster.directory / "cluster", cluster.client_properties)


def controllers_of(cluster: Cluster) -> dict[int, Endpoint]:
    """Controller listeners by node id; empty before the cluster's file exists."""
    try:
        nodes = cluster.state["nodes"]
    except FileNotFoundError:
        return {}
    return {
        node["id"]: endpoint
        for node in nodes
        for endpoint in endpoints(node["listeners"][CONTROLLER_LISTENER])
    }


class StoryError(Exception):
    """The reason, in one sentence, why the demo cannot continue."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """`bootstrap` is a cluster that runs already: the demo starts no broker and kills none. `keep`: the user
    chose the directory, so the demo does not delete it."""

    directory: Path
    rate: float
    rows: int | None = None
    bootstrap: str | None = None
    secure: bool = False
    keep: bool = False
    console: bool = False
    """Pages about the nodes are served in a browser, as long as the nodes run."""


class DemoStory:
    """One run of the demo, as a context manager: the nodes run until its end."""

    def __init__(self, settings: DemoSettings, progress: JobProgress) -> None:
        self.settings = settings
        self.progress = progress
        self._cluster: Cluster | None = None
        self._access = Access(settings.bootstrap or "")
        self._killed: tuple[int, float] | None = None
        self._new_leader: NewLeader | None = None
        self._told_failover = False
        self._console: ConsoleProcess | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    @property
    def pages(self) -> str | None:
        """The address of the pages about the nodes; None where there are none."""
        return None if self._console is None else self._console.address

    def run(self) -> list[Check]:
        """Run all steps. Returns the checks of the results."""
        spark = SparkProcess(self.settings.directory / "spark")
        self._stack.callback(spark.end)
        self._start_nodes()
        self._stack.callback(self._view().close)
        self._start_console()
        self._create_topics()
        self._tell_pages()
        self._start_spark(spark)
        self._stream(spark)
        self._wait_for_isr()
        changed = self._take_all_in(spark)
        return self._compare(changed)

    def _view(self) -> KafkaCluster:
        return KafkaCluster.shared(
            endpoints(self._access.bootstrap), "barnabas-demo", security=self._access.security
        )

    # -- steps -----------------------------------------------------------------------------------

    def _start_nodes(self) -> None:
        if self.settings.bootstrap is not None:
            self.progress.done("nodes", f"using {self._access.bootstrap}")
            return
        self.progress.update("nodes", "three processes are starting")
        began = time.monotonic()
        cluster = Cluster(
            REPLICAS,
            self.settings.directory,
            start_timeout_s=READY_S,
            secure=self.settings.secure,
        )
        self._stack.callback(cluster.stop)
        controller = ActiveController(
            lambda: controllers_of(cluster), lambda: access_of(cluster).to_controllers
        )
        cluster.start()
        self._cluster = cluster
        self._access = access_of(cluster)
        took_s = time.monotonic() - began
        controller.wait(CONTROLLER_S)
        elected_s = (controller.seen_at or time.monotonic()) - began
        pids = ", ".join(f"{node_id} (pid {cluster.pid(node_id)})" for node_id in cluster.node_ids)
        self.progress.done(
            "nodes",
            f"{pids}; node {controller.node} is the active controller after {elected_s:.2f} s,"
            f" the cluster takes writes after {took_s:.2f} s",
        )

    def _start_console(self) -> None:
        """Serve the pages, where that was asked for and can be done here: the demo itself needs none."""
        cluster = self._cluster
        if not self.settings.console or cluster is None:
            return
        self._console = ConsoleProcess(cluster.directory / "cluster", self._console_log)
        self._console.start(lambda problem: self.progress.failed("pages", problem))
        self._stack.callback(self._console.stop)
        self.progress.update("pages", "the console is starting")

    @property
    def _console_log(self) -> Path:
        return self.settings.directory / "console.log"

    def _tell_pages(self) -> None:
        """Report the address of the pages, or that there are none."""
        console = self._console
        if console is None:
            return
        deadline = time.monotonic() + PAGES_S
        while console.address is None and not console.has_ended and time.monotonic() < deadline:
            time.sleep(0.02)
        if console.address is None:
            self.progress.failed("pages", f"none: see {self._console_log}")
            return
        who = "; sign in as the user of cluster/client.properties" if self.settings.secure else ""
        self.progress.done("pages", f"{console.address} shows what happens, and why{who}")

    def _create_topics(self) -> None:
        self.progress.update("topics", "creating flights and delays")
        replicas = REPLICAS if self._cluster is not None else 1
        config = {"min.insync.replicas": str(min(2, replicas))}
        admin = AdminClient({**self._access.librdkafka, "log_level": 0})
        topics = [NewTopic(name, PARTITIONS, replicas, config=config) for name in (TOPIC, "delays")]
        for name, created in admin.create_topics(topics).items():
            try:
                created.result(READY_S)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    raise StoryError(
                        f"topic {name} exists already in {self._access.bootstrap}"
                    ) from error
                raise StoryError(f"topic {name} was not created: {error}") from error
        self.progress.done(
            "topics",
            f"flights and delays: {PARTITIONS} partitions, {replicas} replicas, "
            f"min.insync.replicas={config['min.insync.replicas']}",
        )

    def _start_spark(self, spark: SparkProcess) -> None:
        self.progress.update("spark", "a session on two cores is starting")
        if spark.heard("session", SPARK_S) is None:
            raise StoryError(f"no Spark session after {SPARK_S:.0f} s: see {spark.log_file}")
        spark.tell(bootstrap=self._access.bootstrap, access=self._access.spark)
        if spark.heard("started", SPARK_S) is None:
            raise StoryError(f"the queries did not start: see {spark.log_file}")
        version = spark.latest["session"]["version"]
        self.progress.done("spark", f"Spark {version} reads flights by format('barnabas')")

    def _rows(self) -> Iterator[Row]:
        return islice(read_rows(data_file()), self.settings.rows)

    def _stream(self, spark: SparkProcess) -> None:
        total = self.settings.rows or 336_776
        producer = FlightProducer(self._access.librdkafka, self.settings.rate)
        began = time.monotonic()
        kill_row, restart_row = int(total * KILL_AT), int(total * RESTART_AT)
        for row in self._rows():
            number = producer.sent
            if number == kill_row:
                self._kill_leader(producer)
            elif number == restart_row:
                self._restart_node()
            producer.send(number, to_json(row))
            if number % SHOW_ROWS == 0:
                self._tell_failover(producer)
                self._show_stream(producer, spark, total)
                spark.check()
                if producer.errors:
                    raise StoryError(f"not acknowledged: {producer.errors[0]}")
        left = producer.flush()
        self._tell_failover(producer)
        if left or producer.errors:
            why = producer.errors[0] if producer.errors else "no answer"
            raise StoryError(f"{left + len(producer.errors)} flights were not acknowledged: {why}")
        took_s = time.monotonic() - began
        self.progress.done(
            "stream",
            f"{producer.acknowledged:,} flights acknowledged by all in-sync replicas in"
            f" {took_s:.1f} s; longest pause between acknowledgements"
            f" {producer.longest_pause_s * 1000:.0f} ms",
        )
        if self._killed is not None and not self._told_failover:
            raise StoryError("partition 0 acknowledged nothing after its leader was killed")

    def _show_stream(self, producer: FlightProducer, spark: SparkProcess, total: int) -> None:
        self.progress.update(
            "stream", f"{producer.acknowledged:,} of {total:,} flights acknowledged"
        )
        self.progress.update("pipeline", self._pipeline_text(spark))

    def _pipeline_text(self, spark: SparkProcess) -> str:
        return f"{spark.rows('landing'):,} flights in Parquet, {spark.rows('delays'):,} in delays"

    # -- the killed leader -----------------------------------------------------------------------

    def _kill_leader(self, producer: FlightProducer) -> None:
        if self._cluster is None:
            return
        leader = leader_of(self._view(), TOPIC, 0)
        survivors = [
            endpoint
            for node in self._cluster.node_ids
            if node != leader
            for endpoint in endpoints(self._client_endpoint(node))
        ]
        self.progress.update("kill -9", f"node {leader}, leader of flights-0")
        producer.watched = WatchedTopic(0, producer.sent)
        self._cluster.kill(leader)
        self._killed = (leader, time.monotonic())
        self._new_leader = NewLeader(survivors, TOPIC, 0, leader, self._access.security)

    def _client_endpoint(self, node: int) -> str:
        assert self._cluster is not None
        listeners = self._cluster.node(node)["listeners"]
        return str(
            next(listener for name, listener in listeners.items() if name != CONTROLLER_LISTENER)
        )

    def _tell_failover(self, producer: FlightProducer) -> None:
        """Report the failover once both the new leader and the next acknowledgement are known."""
        if self._killed is None or self._told_failover:
            return
        watched, new_leader = producer.watched, self._new_leader
        assert watched is not None and new_leader is not None
        if watched.acknowledged_at is None or new_leader.seen_at is None:
            return
        node, at = self._killed
        # Metadata are polled every few milliseconds, so an acknowledgement may come before the new leader is
        # seen.
        led_at = min(new_leader.seen_at, watched.acknowledged_at)
        self._told_failover = True
        self.progress.done(
            "kill -9",
            f"node {node} led flights-0; node {new_leader.leader} leads after"
            f" {(led_at - at) * 1000:.0f} ms, next acknowledgement after"
            f" {(watched.acknowledged_at - at) * 1000:.0f} ms",
        )

    def _restart_node(self) -> None:
        if self._cluster is None or self._killed is None:
            return
        node, _ = self._killed
        self._cluster.restart(node)
        self.progress.update("isr", f"node {node} was started again by `barnabas node start`")

    def _wait_for_isr(self) -> None:
        if self._cluster is None or self._killed is None:
            return
        node, _ = self._killed
        for topic in (TOPIC, "delays"):
            wait_for_whole_isr(self._view(), topic, REPLICAS, WHOLE_S)
        self.progress.done("isr", f"node {node} is back; every ISR is whole again")

    # -- the end ---------------------------------------------------------------------------------

    def _take_all_in(self, spark: SparkProcess) -> int:
        """Wait until the jobs have read all flights. Returns the number of changes in delays that Spark
        reports."""
        spark.tell(finish=True)
        deadline = time.monotonic() + ALL_IN_S
        while spark.heard("finished", 0.25) is None:
            self.progress.update("pipeline", self._pipeline_text(spark))
            if time.monotonic() > deadline:
                raise StoryError(
                    f"the pipeline has not finished after {ALL_IN_S:.0f} s: see {spark.log_file}"
                )
        finished = spark.latest["finished"]
        batches = finished["landing"]["batches"] + finished["delays"]["batches"]
        self.progress.done("pipeline", f"{self._pipeline_text(spark)}, {batches} micro-batches")
        return int(finished["delays"]["changed"])

    def _compare(self, changed: int) -> list[Check]:
        self.progress.update("check", "computing the figures from the package's file")
        truth: Figures = figures_of(self._rows())
        landed = read_landed(self.settings.directory / "spark" / "flights")
        changelog = read_changelog(self._access.librdkafka)
        checks = compare(truth, landed, changelog, changed)
        wrong = sum(1 for check in checks if not check.holds)
        if wrong:
            self.progress.failed("check", f"{wrong} of {len(checks)} figures differ")
        else:
            self.progress.done("check", f"all {len(checks)} figures agree")
        return checks
