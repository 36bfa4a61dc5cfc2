"""How old the records are that a stream has not read: lag in seconds.

Owns one sample: the time of the next record of the partition that is furthest behind, by the header of its
first batch. A sample is taken at most once a second, as it costs a fetch. Where none can be had, no age is
told: a report never fails a query, nor waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.offsets import Range
from barnabas.pipeline.options import SourceOptions
from barnabas.pipeline.patience import now_ms
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError

SAMPLED_MS = 1_000.0
SAMPLE_BYTES = 64 << 10
"""A broker gives one whole batch at least."""


class WaitingAge:
    """The waiting age of one stream."""

    def __init__(self, options: SourceOptions) -> None:
        fetch = replace(options.fetch, partition_bytes_max=SAMPLE_BYTES)
        # Whatever is lost is reported when the batch is planned that has it.
        self._options = replace(options, fetch=fetch, fail_on_data_loss=True)
        self._sampled_ms = float("-inf")
        self._oldest_ms: int | None = None

    def seconds(
        self, at: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], wall_ms: float
    ) -> int | None:
        """The age at `wall_ms`, 0 where nothing waits; None where it is not known."""
        waiting = {
            partition: ends[partition] - at[partition] for partition in ends if partition in at
        }
        furthest = max(sorted(waiting), key=lambda partition: waiting[partition], default=None)
        if furthest is None or waiting[furthest] <= 0:
            self._sampled_ms = float("-inf")
            return 0
        if now_ms() - self._sampled_ms >= SAMPLED_MS:
            self._sampled_ms = now_ms()
            self._oldest_ms = self._sample(furthest, at[furthest], ends[furthest])
        return (
            None if self._oldest_ms is None else max(round((wall_ms - self._oldest_ms) / 1000), 0)
        )

    def _sample(self, partition: TopicPartition, begin: int, end: int) -> int | None:
        from barnabas.pipeline.read.range_reader import RangeReader
        from barnabas.record.batch import CorruptBatchError, read_header

        try:
            cluster = self._options.cluster.connect()
            reader = RangeReader(cluster, Range(*partition, begin, end), self._options, 0.0)
            for run in reader.runs():
                stamp = read_header(run.records).base_timestamp
                return stamp if stamp >= 0 else None
        except (PipelineError, KafkaError, ChannelError, CorruptBatchError):
            pass
        return None
