"""Where a job is, by the files of a checkpoint; and what the sentence of a failure says of it."""

from __future__ import annotations

import json
from pathlib import Path

from barnabas.pipeline.jobs.job_failures import cause_in, failure_of
from barnabas.pipeline.jobs.job_file import Job, Source
from barnabas.pipeline.jobs.job_offsets import digest_of, position_of

TEXT = """[STREAM_FAILED] Query [id = 1] terminated with exception: SQLSTATE: XXKST
Traceback (most recent call last):
  File "/x/barnabas/pipeline/read/source.py", line 1, in read
barnabas.pipeline.errors.DataLossError: records of t-0 are gone

JVM stacktrace:
java.lang.RuntimeError: not this one
"""


def checkpoint(folder: Path, planned: list[dict[str, int]], done: int) -> str:
    for each in ("offsets", "commits"):
        (folder / each).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": "q-1"}))
    for number, offsets in enumerate(planned):
        entry = ["v1", "{}", json.dumps({"t": offsets, "(behind)": {"offsets": 0}})]
        (folder / "offsets" / str(number)).write_text("\n".join(entry))
        (folder / "offsets" / f".{number}.crc").touch()
    for number in range(done):
        (folder / "commits" / str(number)).write_text("v1\n{}")
    return str(folder)


def test_a_checkpoint_says_what_is_planned_and_what_is_done(tmp_path: Path) -> None:
    at = position_of(checkpoint(tmp_path, [{"0": 5}, {"0": 9}], 1))
    assert (at.query, at.planned, at.done) == ("q-1", 1, 0)
    assert at.done_offsets == {("t", 0): 5}
    assert at.planned_offsets == {("t", 0): 9}
    assert digest_of(str(tmp_path), 0) != digest_of(str(tmp_path), 1)


def test_a_job_without_a_checkpoint_has_planned_no_batch(tmp_path: Path) -> None:
    assert position_of(str(tmp_path / "none")).planned == -1


def test_a_failure_names_stage_records_and_cause(tmp_path: Path) -> None:
    where = checkpoint(tmp_path, [{"0": 5}, {"0": 9}], 1)
    job = Job("job.toml", "copy", where, Source({}), ())
    assert str(failure_of(job, "sink topic c", where, TEXT)) == (
        "job copy failed in stage source, read for sink topic c, batch 1 (4 records: t-0 [5, 9)):"
        " DataLossError: records of t-0 are gone"
    )


def test_a_cause_without_a_python_error_is_its_first_line() -> None:
    assert cause_in("[UNRESOLVED_COLUMN] no column x\nmore") == "[UNRESOLVED_COLUMN] no column x"
