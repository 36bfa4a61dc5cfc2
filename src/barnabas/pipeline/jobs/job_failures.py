"""Why a run ended: the stage, the batch and its records, and the cause in one sentence.

Owns what is found in the texts of Java's and Python's traces.
"""

from __future__ import annotations

import re

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.jobs.executor_errors import explained
from barnabas.pipeline.jobs.job_file import Job
from barnabas.pipeline.jobs.job_offsets import position_of, ranges_of

RANGES_SHOWN = 8


class RunFailedError(PipelineError):
    """A run ended: in which stage, with which records, why."""


def failure_of(job: Job, stage: str, checkpoint: str, text: str) -> RunFailedError:
    """The sentence of a query that failed in a batch: its stage, its records, the cause."""
    at = position_of(checkpoint)
    if "/pipeline/read/" in text and "/pipeline/write/" not in text:
        stage = f"source, read for {stage}" if stage != "source" else stage
    where = f"job {job.name} failed in stage {stage}"
    if at.planned > at.done:
        where += f", batch {at.planned}"
        ranges = [
            range_ for range_ in ranges_of(at.done_offsets, at.planned_offsets) if range_.size
        ]
        if at.done_offsets is None and at.planned_offsets:
            ends = ", ".join(
                f"{partition} up to {end}" for partition, end in at.planned_offsets.items()
            )
            where += f" (its first: {ends})"
        elif ranges:
            shown = ", ".join(str(range_) for range_ in ranges[:RANGES_SHOWN])
            more = f" and {len(ranges) - RANGES_SHOWN} more" if len(ranges) > RANGES_SHOWN else ""
            where += f" ({sum(range_.size for range_ in ranges):,} records: {shown}{more})"
    return RunFailedError(f"{where}: {cause_in(text)}")


def cause_in(text: str) -> str:
    """The last Python error that a text with Java's and Python's traces names, else its first line."""
    sentence = explained(text)
    if sentence is not None:
        return sentence
    text = text.split("JVM stacktrace:")[0]
    found = re.findall(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", text, re.MULTILINE)
    own = [f"{name}: {said}" for name, said in found if not name.startswith("Py")]
    if own:
        return own[-1]
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason is given")
