"""The demo hears of its Spark job's end at once."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from barnabas.demo.spark_process import JobFailedError, SparkProcess


def job(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> SparkProcess:
    """A job that is this shell script."""
    program = directory / "job.sh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    with monkeypatch.context() as context:
        context.setattr(sys, "executable", str(program))
        return SparkProcess(directory / "spark")


def test_a_job_that_ends_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = job(tmp_path, monkeypatch, "echo no memory >&2; exit 3")
    try:
        began = time.monotonic()
        with pytest.raises(JobFailedError, match="no memory"):
            process.heard("session", 60.0)
        with pytest.raises(JobFailedError, match="no memory"):
            process.tell(finish=True)
        assert time.monotonic() - began < 30
    finally:
        process.end()


def test_output_of_the_jvm_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        "printf '%s\\n' WARN 17 '[]' '{}' '{\"event\": \"session\", \"version\": \"4\"}'; read line"
    )
    process = job(tmp_path, monkeypatch, said)
    try:
        assert process.heard("session", 60.0) == {"event": "session", "version": "4"}
        process.tell(finish=True)
    finally:
        process.end()
