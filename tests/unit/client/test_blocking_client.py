"""The blocking client and the commands over real sockets, against the fake brokers on a thread."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from barnabas.cli.main import main
from barnabas.cli.measures.group_lag import progress
from barnabas.client.consumers.assignors import write_assignment
from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.groups import DescribedMember, GroupDescription
from barnabas.client.network.channels import ChannelError
from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect, parse_bootstrap
from barnabas.host.loop import new_loop
from barnabas.host.ports import HostPorts
from barnabas.host.structured_log import StructuredLog
from barnabas.types import Endpoint, TopicPartition
from barnabas.wire.errors import KafkaError
from tests.unit.client.fake_cluster import FakeCluster
from tests.unit.host.running import PATIENCE_S


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """Where the fake brokers listen."""
    loop = new_loop()
    started = Event()
    where: list[str] = []

    def serve() -> None:
        cluster = FakeCluster(ports=HostPorts(loop, StructuredLog(level="error")))
        where.append(",".join(map(str, cluster.endpoints.values())))
        loop.call_soon(started.set)
        loop.run_forever()
        for server in cluster.servers.values():
            server.close()
        loop.close()

    thread = Thread(target=serve, daemon=True)
    thread.start()
    assert started.wait(PATIENCE_S)
    yield where[0]
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE_S)


@pytest.mark.slow
def test_write_read_fetch_commit_over_sockets(bootstrap: str) -> None:
    with connect(bootstrap) as client:
        with client.producer() as producer:
            sent = [producer.send(ProducerRecord("t", b"%d" % i, b"k%d" % i)) for i in range(5000)]
        assert all(outcome.done for outcome in sent)
        read = list(client.read(["t"]))
        assert sorted(int(r.value or b"") for r in read) == list(range(5000))
        runs = client.fetch({TopicPartition("t", 0): 0, TopicPartition("t", 1): 10})
        assert {run.error for run in runs.values()} == {None}
        assert sum(len(list(run.records(run.offset))) for run in runs.values()) == 4990
        settings = ConsumerSettings(auto_offset_reset="earliest")
        with client.consumer("g", settings) as consumer:
            consumer.inner.assign(client.partitions_of(["t"]))
            got = 0
            while got < 5000:
                got += len(consumer.poll())
            consumer.commit()
        committed = client.committed("g")
        assert sum(at.offset for at in committed.values()) == 5000
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC"):
            client.topic("nowhere")


def test_a_reader_that_stops_before_the_end_fetches_no_more(bootstrap: str) -> None:
    with connect(bootstrap) as client:
        with client.producer() as producer:
            for number in range(100):
                producer.send(ProducerRecord("t", b"%d" % number))
        for _ in client.read(["t"]):
            assert client.client.fetching
            break
        assert not client.client.fetching
        late = client.read(["t"])
        next(late)
    late.close()  # type: ignore[attr-defined]


def test_a_group_is_described_though_a_partition_of_it_has_no_leader(bootstrap: str) -> None:
    held = write_assignment([TopicPartition("gone", 0), TopicPartition("t", 0)])
    member = DescribedMember("m", None, "c", "/host", b"", held)
    described = GroupDescription("g", "Stable", "consumer", "range", [member])
    with connect(bootstrap) as client:
        rows = progress(client, described)
    assert [(row["topic"], row["member"], row["end"], row["lag"]) for row in rows] == [
        ("gone", "m", None, None),
        ("t", "m", 0, None),
    ]


@pytest.mark.slow
def test_commands(
    bootstrap: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"a:1\nb:2\nc:3\n")
    at = ["--bootstrap", bootstrap]
    assert main(["produce", "t", str(lines), "-k", ":", "--json", *at]) == 0
    assert json.loads(capfdbinary.readouterr().out) == {"topic": "t", "acknowledged": 3}
    assert main(["consume", "t", "--exit", "--keys", *at]) == 0
    assert sorted(capfdbinary.readouterr().out.split()) == [b"1", b"2", b"3", b"a", b"b", b"c"]
    assert main(["consume", "t", "-f", "-n", "2", "--json", *at]) == 0
    told = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert len(told) == 2 and told[0]["topic"] == "t"
    assert main(["topics", "list", "--json", *at]) == 0
    assert json.loads(capfdbinary.readouterr().out)[0]["partitions"] == 2
    (tmp_path / "cluster.json").write_text(json.dumps({"bootstrap": bootstrap}))
    assert main(["topics", "list", "--data", str(tmp_path)]) == 0
    assert b"healthy" in capfdbinary.readouterr().out


def test_failures_are_one_sentence_and_a_status(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["consume", "nowhere", "--exit", "--bootstrap", bootstrap]) == 1
    assert capsys.readouterr().err.startswith("there is no such topic")
    assert main(["produce", "t", str(tmp_path / "none"), "--bootstrap", bootstrap]) == 2
    assert main(["topics", "list", "--bootstrap", "nonsense"]) == 2
    assert main(["topics", "list", "--data", str(tmp_path)]) == 2
    assert "say where the cluster is" in capsys.readouterr().err


def test_a_forked_process_is_refused_its_parents_client(bootstrap: str) -> None:
    with connect(bootstrap) as client:
        assert client.topic("t").name == "t"
        child = os.fork()
        if child == 0:
            try:
                client.topic("t")
            except ChannelError as error:
                refused = "forked" in error.message
            client.close()
            os._exit(0 if refused else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.topic("t").name == "t"


def test_bootstrap_servers_are_parsed() -> None:
    assert parse_bootstrap("a:1, [::1]:2") == [Endpoint("a", 1), Endpoint("::1", 2)]
    for nonsense in ("", "a", "a:b", ":1", "a:70000", "a:²", "a:" + "9" * 5000):
        with pytest.raises(ValueError, match="bootstrap server"):
            parse_bootstrap(nonsense)
