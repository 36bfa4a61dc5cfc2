"""Tables of SQL: ``CREATE TABLE t USING barnabas OPTIONS (...)``, then ``SELECT``, ``INSERT`` and streams.

Owns how a table's options reach its readers and writers. Spark gives them to a Python source only when the
table is made, each twice, once with the prefix ``option.``. Of a table that is there it gives the columns
alone. So the options travel with the columns: in the metadata of the first one, or in its comment where Spark
parses the columns of decoded values from a text.

What a query names itself (``SELECT ... FROM t WITH (...)``, ``.option(...)``) goes before the table's. A
query that names ``kafka.bootstrap.servers`` itself has all its options, and those of columns that came from a
table say nothing to it. Secrets are not kept in a catalog: such an option is named per query, or is a
variable of ``kafka.config.providers``.

Source: pyspark's ``PythonDataSourceV2`` and Spark's ``V2SessionCatalog``, whose ``getTable`` has options that
the Python source does not take.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.option_names import READING, WRITING
from barnabas.pipeline.options import OF_BATCHES, OF_STREAMS

PREFIX = "option."
MADE_WITH = "provider"
"""A property that every table has, and no reader or writer."""
PROPERTIES = frozenset(
    {MADE_WITH, "comment", "external", "is_managed_location", "location", "owner", "path"}
)
"""Names that Spark puts among the options of a table that is made."""
KEPT = "barnabas.options"
"""The key of a column's metadata that has its table's options."""
COMMENT = "barnabas table: "
SERVERS = "kafka.bootstrap.servers"
SECRET = re.compile(r"password|passphrase|secret|token$|jaas|keystore\.key", re.IGNORECASE)
VARIABLE = re.compile(r"\$\{.+\}")


def is_made(given: Mapping[str, str]) -> bool:
    """Whether the options are those of a table that is being made."""
    return MADE_WITH in {name.lower() for name in given}


def named(given: Mapping[str, str]) -> dict[str, str]:
    """The options that a user has named, each once. Those of a table that is made lack what Spark adds."""
    if not is_made(given):
        return {name: given[name] for name in given}
    return {
        name: given[name]
        for name in given
        if name.lower() not in PROPERTIES and not name.lower().startswith(PREFIX)
    }


def check_no_secret(options: Mapping[str, str]) -> None:
    """Raises `OptionError`."""
    for name, value in options.items():
        if SECRET.search(name) and not VARIABLE.search(value):
            raise OptionError(
                f"option {name} is a secret, and a table's options are in Spark's catalog: name it in each"
                " query, SELECT ... FROM t WITH (...), or as a variable of kafka.config.providers"
            )


def with_options(schema: StructType | str, options: Mapping[str, str]) -> StructType | str:
    """The columns of a table that is made, with its options."""
    text = json.dumps(dict(sorted(options.items())))
    if isinstance(schema, str):  # columns as text, each behind its name in backquotes
        first, comma, rest = schema.partition(", `")
        comment = COMMENT + base64.b64encode(text.encode()).decode()
        return f"{first} COMMENT '{comment}'{comma}{rest}"
    first, *others = schema.fields
    metadata = {**first.metadata, KEPT: text}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def kept_options(schema: StructType) -> dict[str, str] | None:
    """The options that `with_options` put there; None where no column is a table's."""
    for field in schema.fields:
        text = field.metadata.get(KEPT)
        comment = field.metadata.get("comment", "")
        if text is None and comment.startswith(COMMENT):
            text = base64.b64decode(comment.removeprefix(COMMENT)).decode()
        if text is not None:
            found: dict[str, str] = json.loads(text)
            return found
    return None


def options_in_query(
    given: Mapping[str, str], schema: StructType, *, reading: bool, streaming: bool
) -> dict[str, str]:
    """The options of a query: `given`, and beneath it the options of its table that mean something to it.
    Raises `OptionError`."""
    mine = named(given)
    lower = {name.lower() for name in mine}
    if SERVERS in lower:
        return mine
    kept = kept_options(schema)
    if kept is None:
        if mine:
            return mine
        raise OptionError(
            f"{SERVERS} is missing: host:port,host:port. Spark gives a table's options to no Python source"
            " where CREATE TABLE names columns itself: leave them out (option columns chooses), or name the"
            " options in the query, SELECT ... FROM t WITH (...)"
        )
    if not reading and "value.format" in kept:
        raise OptionError(
            "a table with value.format is for reading; write by df.write or writeStream, whose value.format"
            " says how column value is encoded"
        )
    here, there = (READING, WRITING) if reading else (WRITING, READING)
    foreign = set(there) - set(here) | set(OF_BATCHES if streaming else OF_STREAMS)
    without = {name.lower() for name in foreign if not name.startswith("kafka.")}
    return mine | {
        name: value
        for name, value in kept.items()
        if name.lower() not in without and name.lower() not in lower
    }


def written_columns(schema: StructType) -> StructType:
    """The columns that an ``INSERT`` writes: where a record is to be is the topic's to say, and so
    is the type of its timestamp."""
    if kept_options(schema) is None:
        return schema
    return StructType(
        [field for field in schema.fields if field.name not in ("offset", "timestampType")]
    )
