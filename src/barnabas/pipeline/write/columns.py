"""Columns of a DataFrame that is written as records: which there may be, and `value` made into bytes."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.options import SinkOptions


def check_columns(schema: StructType, options: SinkOptions, *, overwrite: bool) -> None:
    """Raises `OptionError` where a DataFrame cannot be written as records."""
    if overwrite:
        raise OptionError("mode overwrite is not possible: a topic is appended to")
    allowed: dict[str, tuple[type[DataType], ...]] = {
        "key": (BinaryType, StringType),
        "value": (BinaryType, StringType),
        "topic": (StringType,),
        "partition": (IntegerType,),
        "headers": (ArrayType,),
        "timestamp": (TimestampType,),
    }
    if options.values is not None:
        allowed["value"] = (StructType,)
    found = {field.name.lower(): field.dataType for field in schema.fields}
    for name, type_ in found.items():
        if name not in allowed:
            raise OptionError(f"column {name!r} is none of {', '.join(allowed)}")
        if not isinstance(type_, allowed[name]):
            names = " or ".join(type_.typeName() for type_ in allowed[name])
            more = ""
            if name == "value" and options.values is not None:
                names += f" with value.format {options.values.format} (struct(*) as value)"
            elif name == "value" and isinstance(type_, StructType):
                more = "; value.format says how a struct is encoded"
            raise OptionError(f"column {name!r} is {names}, not {type_.simpleString()}{more}")
    if "value" not in found:
        raise OptionError("column 'value' is missing")
    if "topic" not in found and options.topic is None:
        raise OptionError("no topic: set option topic or give a column topic")
    headers = found.get("headers")
    shape = "array<struct<key:string,value:binary>>"
    if headers is not None and headers.simpleString() != shape:
        raise OptionError(f"column 'headers' is {shape}, not {headers.simpleString()}")


def with_writer_schema(options: SinkOptions, schema: StructType) -> SinkOptions:
    """With the schema that values are written with, which is registered where a registry is given. Raises
    `OptionError`."""
    if options.values is None:
        return options
    from barnabas.pipeline.formats.writing.writer_schema import writer_schema

    (value,) = [field for field in schema.fields if field.name.lower() == "value"]
    columns = to_arrow_schema(StructType([value]), timezone="UTC").field(0).type
    return replace(options, writer_schema=writer_schema(options.values, columns))
