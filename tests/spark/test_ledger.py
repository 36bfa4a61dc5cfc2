"""A checkpoint that is copied, put back or rolled back: Spark's queries lose no rows in silence."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.cli.main import main
from barnabas.pipeline.each_batch import publish_each_batch
from tests.spark.conftest import MakeTopic
from tests.spark.topics import read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PER_TRIGGER = 90


class Copying:
    """A query from one topic to another that has all there is and ends, with its checkpoint in `here`."""

    def __init__(
        self, spark: SparkSession, bootstrap: str, make_topic: MakeTopic, here: Path
    ) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self.source, self.target = make_topic(2), make_topic(3)
        self.here = here
        self.run_id = ""

    def feed(self, begin: int, end: int) -> None:
        for partition in (0, 1):
            numbers = (n for n in range(begin, end) if n % 2 == partition)
            write(self._bootstrap, self.source, (b"%d" % n for n in numbers), partition=partition)

    def run(self, word: str, staging: Path | None = None, *, each_batch: bool = False) -> None:
        """Each row's number behind `word`, its partition by a column."""
        frame = (
            self._spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", PER_TRIGGER)
            .load()
            .selectExpr(
                f"concat('{word}', cast(value as string)) value",
                "cast(cast(cast(value as string) as int) % 3 as int) partition",
            )
        )
        options = {
            "kafka.bootstrap.servers": self._bootstrap,
            "topic": self.target,
            "delivery": "manifest",
        }
        if each_batch:
            place = str(staging or self.here / "barnabas")
            publish = publish_each_batch(options, application="copy", staging=place)
            writer = frame.writeStream.foreachBatch(publish)
        else:
            writer = frame.writeStream.format("barnabas").options(**options)
            if staging is not None:
                writer = writer.option("stagingLocation", str(staging))
        writer = writer.option("checkpointLocation", str(self.here)).trigger(availableNow=True)
        query = writer.start()
        self.run_id = str(query.runId)
        query.awaitTermination()  # raises what ended it

    def values(self) -> Counter[bytes]:
        return Counter(each.value or b"" for each in read(self._bootstrap, self.target))

    def ledger(self) -> dict[str, Any]:
        (file,) = self.here.glob("barnabas/*/committed.json")
        found: dict[str, Any] = json.loads(file.read_text())
        return found


def words(word: str, begin: int, end: int) -> Counter[bytes]:
    return Counter(b"%s%d" % (word.encode(), n) for n in range(begin, end))


@pytest.fixture
def copying(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> Iterator[Copying]:
    yield Copying(spark, bootstrap, make_topic, tmp_path / "checkpoint")


@pytest.mark.parametrize("each_batch", [False, True])
def test_a_restored_checkpoint_writes_all_rows_of_a_changed_query(
    copying: Copying, tmp_path: Path, each_batch: bool
) -> None:
    copying.feed(0, 90)
    copying.run("old", each_batch=each_batch)
    shutil.copytree(copying.here, tmp_path / "copy")
    copying.feed(90, 270)
    copying.run("old", each_batch=each_batch)
    assert copying.ledger()["run"] == copying.run_id
    shutil.rmtree(copying.here)
    shutil.copytree(tmp_path / "copy", copying.here)
    copying.run("new", each_batch=each_batch)
    assert copying.values() == words("old", 0, 270) + words("new", 90, 270)
    ledger = copying.ledger()
    last = max(int(each.name) for each in (copying.here / "commits").glob("[0-9]*"))
    assert (ledger["run"], ledger["batch"]) == (copying.run_id, last)
    assert ledger["query"] == json.loads((copying.here / "metadata").read_text())["id"]
    assert ledger["planned"]
    # As after a kill between the ledger's commit and Spark's: the same batch, asked for again.
    for each in (copying.here / "commits").glob(f"*{last}*"):
        each.unlink()
    copying.run("new", each_batch=each_batch)
    assert copying.values() == words("old", 0, 270) + words("new", 90, 270)


def test_a_checkpoint_rolled_back_beside_its_ledger_is_refused_with_a_way_out(
    copying: Copying, tmp_path: Path
) -> None:
    staging = tmp_path / "ledger"
    copying.feed(0, 90)
    copying.run("old", staging)
    shutil.copytree(copying.here, tmp_path / "copy")
    copying.feed(90, 180)
    copying.run("old", staging)
    shutil.rmtree(copying.here)
    shutil.copytree(tmp_path / "copy", copying.here)
    query = json.loads((copying.here / "metadata").read_text())["id"]
    with pytest.raises(Exception, match="was rolled back or begun again") as raised:
        copying.run("new", staging)
    command = f"barnabas pipeline ledger forget --staging {staging} --from 1 {query}"
    assert f"`{command}`" in str(raised.value)
    assert main([*command.split()[1:], "--yes"]) == 0
    copying.run("new", staging)
    assert copying.values() == words("old", 0, 180) + words("new", 90, 180)
