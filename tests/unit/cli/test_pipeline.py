"""``barnabas pipeline ledger`` shows what a query has written, and frees one that is stuck."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import WriteRefusedError
from tests.json_shapes import assert_documented
from tests.unit.pipeline.fake_cluster import FakeCluster
from tests.unit.pipeline.streaming_query import Query


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[FakeCluster, Query]:
    """A query that has written batch 0, and whose batch 1 no topic takes."""
    cluster = FakeCluster()
    monkeypatch.setattr(ClusterClient, "shared", lambda *_, **__: cluster)
    query = Query(tmp_path / "checkpoint")
    query.start("old", 30)
    cluster.batch_bytes_max = dict.fromkeys(cluster.logs, 50)
    with pytest.raises(WriteRefusedError):
        query.start("old", 60)
    cluster.batch_bytes_max = {}
    return cluster, query


@pytest.mark.parametrize("verb", ["validate", "explain", "run"])
def test_a_job_without_pyspark_is_one_sentence(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("barnabas.cli.commands.pipeline_jobs.find_spec", lambda module: None)
    assert main(["pipeline", verb, str(tmp_path / "job.toml")]) == 2
    printed = capsys.readouterr().err
    assert "this command needs" in printed and "pip install 'barnabas[spark]'" in printed
    assert "Traceback" not in printed


@pytest.mark.slow
def test_a_ledger_is_shown_with_what_was_begun(
    stuck: tuple[FakeCluster, Query], capsys: pytest.CaptureFixture[str]
) -> None:
    _, query = stuck
    assert main(["pipeline", "ledger", "show", "-s", str(query.options.staging), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["application"], shown["query"], shown["batch"]) == (query.id, query.id, 0)
    assert [(each["batch"], each["rows"]) for each in shown["begun"]] == [(1, 30)]
    assert main(["pipeline", "ledger", "show", "-s", str(query.options.staging)]) == 0
    assert "1 (30 rows)" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "option", "landed"), [("skip", "--batch", 60), ("forget", "--from", 90)]
)
def test_a_stuck_batch_is_freed_once_that_is_confirmed(
    stuck: tuple[FakeCluster, Query],
    capsys: pytest.CaptureFixture[str],
    verb: str,
    option: str,
    landed: int,
) -> None:
    cluster, query = stuck
    words = ["pipeline", "ledger", verb, "--staging", str(query.options.staging), option, "1"]
    assert main([*words, query.id]) == 2
    assert "--yes" in capsys.readouterr().err
    capsys.readouterr()
    assert main([*words, query.id, "--yes", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert_documented(words, told)
    assert told == {"application": query.id, "next_batch": 2 if verb == "skip" else 1}
    query.start("new", 90)
    assert sum(cluster.ends.values()) == landed


@pytest.mark.slow
def test_an_invalid_pipeline_is_refused_in_one_sentence(
    stuck: tuple[FakeCluster, Query], capsys: pytest.CaptureFixture[str]
) -> None:
    _, query = stuck
    staging = str(query.options.staging)
    verbs = ["pipeline", "ledger"]
    assert main([*verbs, "skip", "-s", staging, "--batch", "0", "--yes", query.id]) == 1
    assert "published already" in capsys.readouterr().err
    assert main([*verbs, "show", "-s", f"{staging}/none"]) == 1
    assert "there is no ledger below" in capsys.readouterr().err
    assert main([*verbs, "show", "-s", staging, "another"]) == 1
    assert "there is no ledger of another" in capsys.readouterr().err
    assert main([*verbs, "skip", "-s", "no-such:x", "--batch", "0", "app"]) == 2
    assert "cannot be opened" in capsys.readouterr().err


def test_a_job_that_reads_files_is_explained_without_a_cluster(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("KAFKA", "h:1"), ("DATA", "/data")):
        monkeypatch.setenv(name, value)
    job = Path(__file__).parents[3] / "examples" / "pipelines" / "files_to_topic.toml"
    assert main(["pipeline", "explain", str(job), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["source"], found["ranges"]) == ("/data/incoming", [])


def test_a_valid_job_is_described_to_programs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("KAFKA", "h:1"), ("DATA", "/data")):
        monkeypatch.setenv(name, value)
    jobs = Path(__file__).parents[3] / "examples" / "pipelines"
    for name in ("files_to_topic.toml", "topic_to_table.toml", "clickstream.toml"):
        assert main(["pipeline", "validate", str(jobs / name), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert_documented(["pipeline", "validate"], found)
        assert all(query["sources"] for query in found["queries"])
