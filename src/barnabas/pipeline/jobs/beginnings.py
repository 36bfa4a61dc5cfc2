"""One beginning for all queries of a job that read the same topics, written down before any of them starts.

A record that comes while queries start would else be before the beginning of one and behind the end of
another, and reach neither's sink. A query that is new beside one that runs already (dead letters that a job
gets later) begins where that one continues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from barnabas.pipeline.jobs.job_offsets import position_of
from barnabas.pipeline.options import source_options
from barnabas.pipeline.read.beginning import begin_of, keep_begin, kept_begin
from barnabas.pipeline.read.topic_ids import TopicIds


def fix_beginnings(options: Mapping[str, str], checkpoints: Sequence[str]) -> None:
    """`options` are those of the reader, `checkpoints` those of the queries; the first is the job's own.
    Raises `PipelineError`."""
    given = source_options(options, streaming=True)
    main, *others = [replace(given, checkpoint=each) for each in checkpoints]
    begin = position_of(checkpoints[0]).done_offsets
    if begin is None:
        begin = begin_of(main, TopicIds(main.checkpoint))
    for place, each in zip(checkpoints[1:], others):
        if position_of(place).done_offsets is None and kept_begin(each) is None:
            keep_begin(each, begin, TopicIds(place))
