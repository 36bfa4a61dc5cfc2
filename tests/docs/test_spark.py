"""The programs of docs/spark.md and README.md, in one session, and the ledger's commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from barnabas.demo.spark_process import missing_java
from barnabas.testing.cluster import Cluster
from tests.docs.blocks import NOT_RUN, Reader, blocks

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(400),
]
END = "spark.streams.awaitAnyTermination()\n"
WAIT_S = 90.0
SESSION = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false --conf "
    "spark.sql.shuffle.partitions=1 --driver-java-options -XX:TieredStopAtLevel=1 pyspark-shell",
}


@pytest.mark.skipif(missing_java() is not None, reason=str(missing_java()))
def test_spark_jobs_of_the_pages_land_their_records(tmp_path: Path) -> None:
    with Cluster(nodes=3, directory=tmp_path) as cluster:
        reader = Reader(cluster)
        reader.environment.update(SESSION)
        reader.shell("barnabas topics create flights loud-flights delays -p 1 -r 3")
        reader.shell("printf 'a:on time\\nb:late\\n' | barnabas produce flights -k :")
        pages = [*blocks("README.md"), *blocks("docs/spark.md")]
        programs = [
            block.text
            for block in pages
            if block.language == "python" and NOT_RUN not in block.words
        ]
        assert len(programs) == 3
        with reader.running("".join(programs) + END) as job:
            wait_for(reader, job, "loud-flights", ["LATE", "ON TIME"])
            wait_for(reader, job, "delays", ["a\t1", "b\t1"])
        for block in blocks("docs/spark.md"):
            if block.language == "sh" and NOT_RUN not in block.words:
                reader.shell(block.text)


def wait_for(reader: Reader, job: subprocess.Popen[bytes], topic: str, lines: list[str]) -> None:
    """The job writes `lines` to `topic`: none is missing, none is there twice."""
    keys = " --keys" if "\t" in lines[0] else ""
    consume = f"barnabas consume {topic} --from-beginning -n {len(lines)} --timeout {WAIT_S}{keys}"
    said = sorted(reader.shell(consume).splitlines())
    assert said == lines, (job.poll(), (reader.home / "program.log").read_text()[-4000:])
    assert sorted(reader.shell(f"barnabas consume {topic} --exit{keys}").splitlines()) == lines
