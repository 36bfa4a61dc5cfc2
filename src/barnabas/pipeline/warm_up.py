"""Compile the pipeline's loops ahead of the first task that needs them.

The compiler's work is kept on disk beside the code (or in the user's cache directory), so this
costs some seconds once per installation and little afterwards. Without it the first tasks of a
query compile, each worker for itself.
"""

from __future__ import annotations

import pyarrow as pa

from barnabas.pipeline.options import ClusterOptions, SinkOptions
from barnabas.pipeline.write.batch_encoder import BatchEncoder
from barnabas.record.columnar import SMALL_RUN, decode, repeated_text


def warm_up() -> None:
    """Have every loop compiled, by encoding a row and decoding it again."""
    columns = [repeated_text(name, 1) for name in ("key", "value")]
    rows = pa.RecordBatch.from_arrays(columns, names=["key", "value"])
    options = SinkOptions(ClusterOptions(()), topic="none")
    encoder = BatchEncoder(options, lambda _: 1, wall_ms=0, turn=0)
    for batch in encoder.encode(rows):
        decode(batch.data, 0, 1, include_headers=True)
        # Many small batches are decoded by a loop of their own.
        decode(bytes(batch.data) * (SMALL_RUN + 1), 0, 1)
