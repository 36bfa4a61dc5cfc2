"""``format("barnabas")``: what Spark sees of the pipeline.

Readers and writers are made here from options; nothing else happens here. A plain session finds
the class through the top-level module ``pyspark_barnabas``; ``register(spark)`` does it by hand.

The rest is imported where it is used: Spark starts a Python process only to find this class, and another to
ask for the schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class BarnabasDataSource(DataSource):  # type: ignore[misc]
    """Batch and streaming reads and writes of topics; options of Spark's Kafka connector."""

    options: Any

    def __init__(self, options: Any) -> None:
        """At ``.load()`` and before a write begins: a misspelt option ends it there."""
        from barnabas.pipeline.option_names import check_names
        from barnabas.pipeline.reuse.sql_tables import is_made, named
        from barnabas.pipeline.same_version import check_pyspark

        self._is_table = is_made(options)
        """Whether a table is being made, by ``CREATE TABLE``."""
        super().__init__(CaseInsensitiveDict(named(options)) if self._is_table else options)
        check_pyspark(pyspark.__version__)
        check_names(self.options)

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    def schema(self) -> StructType | str:
        from barnabas.pipeline.option_names import LAND, check_direction
        from barnabas.pipeline.options import cluster_options, fetch_options, subscription_of
        from barnabas.pipeline.read.columns import schema_of

        if self._is_table:
            from barnabas.pipeline.reuse.sql_tables import check_no_secret

            check_no_secret(self.options)
        else:
            check_direction(self.options, reading=True)
        cluster_options(self.options)
        subscription_of(self.options)
        fetch_options(self.options)
        if LAND in self.options:
            from barnabas.pipeline.read.landing import FILES
            from barnabas.pipeline.read.landing_plan import LandingPlan

            LandingPlan.from_json(self.options[LAND])
            return FILES
        found = schema_of(self.options)
        if not self._is_table:
            return found
        from barnabas.pipeline.reuse.sql_tables import with_options

        return with_options(found, self.options)

    def _options(self, schema: StructType, *, reading: bool, streaming: bool) -> Any:
        """The query's options, with those of its table."""
        from barnabas.pipeline.reuse.sql_tables import options_in_query

        found = options_in_query(self.options, schema, reading=reading, streaming=streaming)
        return CaseInsensitiveDict(found)

    def reader(self, schema: StructType) -> DataSourceReader:
        from barnabas.pipeline.options import boolean, source_options
        from barnabas.pipeline.read.pushed_filters import is_asked
        from barnabas.pipeline.read.source import BatchReader, PushingBatchReader

        options = self._options(schema, reading=True, streaming=False)
        pushes = boolean(options, "pushFilters", False) and is_asked()
        made = PushingBatchReader if pushes else BatchReader
        return made(source_options(options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from barnabas.pipeline.option_names import LAND
        from barnabas.pipeline.options import source_options

        if LAND in self.options:
            from barnabas.pipeline.read.landing import LandingReader
            from barnabas.pipeline.read.landing_plan import LandingPlan

            plan = LandingPlan.from_json(self.options[LAND])
            return LandingReader(source_options(self.options, streaming=True), plan)
        from barnabas.pipeline.read.source import StreamReader

        options = self._options(schema, reading=True, streaming=True)
        return StreamReader(source_options(options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from barnabas.pipeline.option_names import check_direction
        from barnabas.pipeline.options import sink_options
        from barnabas.pipeline.reuse.sql_tables import written_columns
        from barnabas.pipeline.write.columns import check_columns, with_writer_schema
        from barnabas.pipeline.write.writers import BatchWriter

        check_direction(self.options, reading=False)
        options = sink_options(
            self._options(schema, reading=False, streaming=False), streaming=False
        )
        schema = written_columns(schema)
        check_columns(schema, options, overwrite=overwrite)
        return BatchWriter(with_writer_schema(options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from barnabas.pipeline.option_names import check_direction
        from barnabas.pipeline.options import sink_options
        from barnabas.pipeline.write.columns import check_columns, with_writer_schema
        from barnabas.pipeline.write.writers import StreamWriter

        check_direction(self.options, reading=False)
        options = sink_options(self.options, streaming=True)
        check_columns(schema, options, overwrite=False)
        return StreamWriter(with_writer_schema(options, schema))


def register(spark: SparkSession) -> None:
    """Make ``format("barnabas")`` known to a session that did not find it by itself, such as one that
    was started before :mod:`barnabas.pipeline` was imported. Its Python is the driver's, unless
    ``PYSPARK_PYTHON`` says another (:mod:`barnabas.pipeline.interpreter`)."""
    from barnabas.pipeline.interpreter import for_session

    context = None if is_remote() else spark.sparkContext
    if context is None:  # Spark Connect: the server chooses
        spark.dataSource.register(BarnabasDataSource)
        return
    before = context.pythonExec
    context.pythonExec = for_session(context)
    try:
        spark.dataSource.register(BarnabasDataSource)
    finally:
        context.pythonExec = before  # functions of the user's own go by it
