"""Checkpoint, staging location, ledger and tables on ``s3a://``: drivers are killed, each row lands once.

The store is moto behind Hadoop's S3A, pyarrow, deltalake and pyiceberg, all at one endpoint.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.jobs.tables.delta_table import DeltaTable
from barnabas.pipeline.jobs.tables.iceberg_table import IcebergTable
from tests.spark.conftest import MakeTopic
from tests.spark.object_stores import BUCKET, ObjectStore
from tests.spark.standalone import StandaloneCluster, kill_group, wait_until
from tests.spark.topics import read, write

REPOSITORY = Path(__file__).parents[2]
END_S = 400.0
ROWS = 3_000
pytestmark = [
    pytest.mark.interop,
    pytest.mark.long,
    pytest.mark.peers("s3"),
]
of_two_runs = pytest.mark.timeout(3 * END_S)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path_factory.mktemp("store")) as found:
        yield found


@pytest.fixture
def as_drivers(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process reaches the store as its programs do."""
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in store.environment.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)


@contextmanager
def running(store: ObjectStore, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env={
                **store.environment, "PYTHONPATH": str(REPOSITORY), "SPARK_LOCAL_IP": "127.0.0.1"
            },
            cwd=log.parent,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        kill_group(process)


def killed_and_run(
    store: ObjectStore, directory: Path, is_under_way: Callable[[], bool], *arguments: str
) -> str:
    """Run the program until then, kill it, and run it to its end. What the second run says."""
    log = directory / "log"

    def may_be_killed() -> bool:
        assert process.poll() is None, log.read_text()[-3000:]
        return is_under_way()

    with running(store, log, *arguments) as process:
        wait_until(may_be_killed, "a batch that is under way", END_S)
    with running(store, log, *arguments) as process:
        assert process.wait(END_S) == 0, log.read_text()[-3000:]
    return log.read_text()


def barnabas(store: ObjectStore, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "pipeline", *arguments],
        env=store.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=END_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@of_two_runs
@pytest.mark.parametrize("kind", ["manifest", "transactions", "parquet"])
def test_a_stream_is_exactly_once_with_its_checkpoint_on_s3a(
    store: ObjectStore, bootstrap: str, make_topic: MakeTopic, tmp_path: Path, kind: str
) -> None:
    topics = make_topic(2), make_topic(2)
    write(bootstrap, topics[0], (b"%d" % n for n in range(ROWS)))
    place = f"s3a://{BUCKET}/{kind}"
    settings = json.dumps(store.settings)
    job = ("tests.spark.object_store_job", kind, "local[2]", bootstrap, *topics, place, settings)
    said = killed_and_run(
        store, tmp_path, lambda: store.is_under_way(f"{kind}/checkpoint", 2), *job
    )
    if kind == "parquet":
        assert json.loads(said.splitlines()[-1]) == list(range(ROWS))
        return
    assert sorted(int(each.value or b"") for each in read(bootstrap, topics[1])) == list(
        range(ROWS)
    )
    if kind == "manifest":
        change_ledger(store, f"{place}/checkpoint/barnabas")


def change_ledger(store: ObjectStore, staging: str) -> None:
    (shown,) = json.loads(barnabas(store, "ledger", "show", "--staging", staging, "--json"))
    last, query = shown["batch"], shown["application"]
    assert last >= 0 and not shown["begun"]
    barnabas(store, "ledger", "skip", "--staging", staging, "--batch", str(last + 1), query, "-y")
    (shown,) = json.loads(barnabas(store, "ledger", "show", "--staging", staging, "--json"))
    assert shown["batch"] == last + 1
    barnabas(store, "ledger", "forget", "--staging", staging, "--from", str(last), query, "--yes")
    (shown,) = json.loads(barnabas(store, "ledger", "show", "--staging", staging, "--json"))
    assert shown["batch"] == last - 1


JOB = """
name = "{name}"
checkpoint = "s3a://{bucket}/{name}/checkpoint"
[cluster]
kafka.bootstrap.servers = "{bootstrap}"
[source]
topics = ["{source}"]
[source.options]
startingOffsets = "earliest"
maxOffsetsPerTrigger = 600
maxOffsetsInDriver = 0
"""
TOPIC = '[[sink]]\ntopic = "{target}"\n'
DELTA = '[[sink]]\ndelta = "s3a://{bucket}/{name}/delta"\n{land}'
ICEBERG = """[[sink]]
iceberg = "air.{name}"
{land}[sink.catalog]
type = "sql"
uri = "sqlite:///{directory}/catalog.db"
warehouse = "s3a://{bucket}/{name}/warehouse"
"""


def numbers(table: Any) -> list[int]:
    return sorted(int(each) for each in table["value"].to_pylist())


def delta_rows(name: str) -> list[int]:
    return numbers(DeltaTable(f"s3a://{BUCKET}/{name}/delta")._open().to_pyarrow_table())


def iceberg_rows(name: str, directory: Path) -> list[int]:
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"s3a://{BUCKET}/{name}/warehouse",
    }
    return numbers(IcebergTable(f"air.{name}", properties)._open().scan().to_arrow())


def confs(store: ObjectStore, **more: str) -> list[str]:
    """Only jars and the style of addresses: endpoint and keys are in the environment."""
    wanted = {"spark.jars": store.settings["spark.jars"], **more}
    return [part for key, value in wanted.items() for part in ("--conf", f"{key}={value}")]


@of_two_runs
@pytest.mark.usefixtures("as_drivers")
def test_a_job_writes_topic_and_tables_on_s3a_once(
    store: ObjectStore, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(2), make_topic(2)
    write(bootstrap, source, (b"%d" % n for n in range(ROWS)))
    file = tmp_path / "job.toml"
    values = {"name": "job", "bucket": BUCKET, "bootstrap": bootstrap, "source": source}
    text = (JOB + TOPIC + DELTA + ICEBERG).format(
        **values, target=target, directory=tmp_path, land=""
    )
    file.write_text(text)
    run = ("barnabas", "pipeline", "run", str(file), "--available-now", "--master", "local[2]")
    killed_and_run(
        store,
        tmp_path,
        lambda: store.is_under_way("job/checkpoint", 2),
        *run,
        *confs(store),
    )
    wanted = list(range(ROWS))
    assert sorted(int(each.value or b"") for each in read(bootstrap, target)) == wanted
    assert delta_rows("job") == wanted
    assert iceberg_rows("job", tmp_path) == wanted
    status = json.loads(barnabas(store, "status", str(file), "--json"))
    assert {each["batch"] for each in status["sinks"]} == {status["batch"]}
    compacted = json.loads(barnabas(store, "compact", str(file), "--json"))
    assert all(each["after"] < each["before"] for each in compacted), compacted
    assert (delta_rows("job"), iceberg_rows("job", tmp_path)) == (wanted, wanted)


@of_two_runs
@pytest.mark.usefixtures("as_drivers")
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_tasks_of_two_workers_land_a_table_on_s3a_once(
    store: ObjectStore, bootstrap: str, make_topic: MakeTopic, tmp_path: Path, kind: str
) -> None:
    source = make_topic(2)
    write(bootstrap, source, (b"%d" % n for n in range(ROWS)))
    file = tmp_path / "job.toml"
    name = f"land_{kind}"
    values = {"name": name, "bucket": BUCKET, "bootstrap": bootstrap, "source": source}
    text = JOB + (DELTA if kind == "delta" else ICEBERG)
    file.write_text(text.format(**values, directory=tmp_path, land="land = true\n"))
    more = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    more |= {each: value for each, value in store.settings.items() if "s3a" in each}
    with StandaloneCluster(tmp_path / "spark") as spark:
        run = ("barnabas", "pipeline", "run", str(file), "--available-now", "--master", spark.url)
        killed_and_run(
            store,
            tmp_path,
            lambda: store.is_under_way(f"{name}/checkpoint", 2),
            *run,
            *confs(store, **more),
        )
        if kind == "delta":
            said = barnabas(
                store, "doctor", "--master", spark.url, "--checkpoint",
                f"s3a://{BUCKET}/{name}/checkpoint", "--json", *confs(store, **more),
            )  # fmt: skip
            found = {each["check"]: each for each in json.loads(said)}
            shared = [each for each in found if each.endswith(": checkpoint")]
            assert len(shared) >= 1 and all(found[each]["found"] == "shared" for each in shared)
    found_rows = delta_rows(name) if kind == "delta" else iceberg_rows(name, tmp_path)
    assert found_rows == list(range(ROWS))
