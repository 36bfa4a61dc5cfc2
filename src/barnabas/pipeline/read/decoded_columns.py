"""From columns of records to the columns that a query reads, with decoded values among them.

Owns which columns are filled at all, so that a query that reads offsets decodes no record, and where `data`
and `_error` come from (:mod:`barnabas.pipeline.formats.decoding`). Column `value` has the raw bytes of every
record, good or bad: what is copied from it to a topic is what was read.
"""

from __future__ import annotations

import pyarrow as pa

from barnabas.pipeline.formats.decoding import Decoder
from barnabas.pipeline.formats.resolved_schema import ReaderSchema
from barnabas.record.columnar import ALL, VALUE, Columns

DATA, ERROR = "data", "_error"


class DecodedColumns:
    """The columns of one task. `schema` has what the query reads."""

    def __init__(self, schema: pa.Schema, values: ReaderSchema | None) -> None:
        self.schema = schema
        self._decode: Decoder | None = None
        names = frozenset(schema.names)
        if values is not None and names & {DATA, ERROR}:
            self._decode = values.decoder(
                schema.field(DATA).type if DATA in names else pa.struct([])
            )
            self._record_schema = pa.schema(
                [field for field in schema if field.name not in (DATA, ERROR, VALUE)]
            )
            names |= {VALUE}
        self.wanted = names & ALL

    def to_arrow(self, columns: Columns, topic: str, partition: int) -> pa.RecordBatch:
        if self._decode is None:
            return columns.to_arrow(topic, partition, self.schema)
        values = columns.values.to_arrow()
        found = self._decode(values)
        plain = columns.to_arrow(topic, partition, self._record_schema)
        arrays = []
        for field in self.schema:
            match field.name:
                case "data":
                    arrays.append(found.data.cast(field.type))
                case "_error":
                    arrays.append(found.errors)
                case "value":
                    arrays.append(values)
                case name:
                    arrays.append(plain.column(name))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
