"""Columns of a reader: those of a record, and those of decoded values.

Spark starts a process only to ask for them, so this imports neither Arrow nor what connects to a cluster.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.pipeline.formats.value_options import value_options
from barnabas.pipeline.options import Options, boolean, columns_of

HEADERS = "headers"
HEADERS_TYPE = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


def record_schema(*, include_headers: bool) -> StructType:
    """Columns of a record, as Spark's Kafka connector has them."""
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if include_headers:
        fields.append(StructField("headers", HEADERS_TYPE))
    return StructType(fields)


DATA, ERROR = "data", "_error"
"""Columns of decoded values: what is in them, and why it could not be found."""


def schema_of(options: Options) -> StructType | str:
    """Columns as options ask for them: all of a record, those of ``columns``, and with ``value.format`` also
    `data` and `_error`; as DDL where a part of it is the user's."""
    headers = boolean(options, "includeHeaders", False) or HEADERS in columns_of(options)
    columns = columns_of(options)
    fields = [
        field
        for field in record_schema(include_headers=headers).fields
        if not columns or field.name in columns
    ]
    if value_options(options) is None:
        return StructType(fields)
    from barnabas.pipeline.formats.resolved_schema import reader_schema  # may ask a registry

    values = reader_schema(options)
    assert values is not None
    written = [f"`{field.name}` {field.dataType.simpleString()}" for field in fields]
    return ", ".join([*written, f"`{DATA}` {values.ddl}", f"`{ERROR}` string"])
