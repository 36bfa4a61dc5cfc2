"""Whole jobs from one file: where rows come from, what becomes of them, where they land.

:mod:`job_file` reads and checks the file (with :mod:`key_lines`), :mod:`job_offsets` says how far a job is
and what it would read, without Spark. :mod:`job_run` runs it, :mod:`parquet_table`, :mod:`delta_table` and
:mod:`iceberg_table` are sinks that take each micro-batch once (:mod:`table_rules`), :mod:`compaction` merges
their small files.

Source: Kafka Connect's properties of a connector; Spark's ``foreachBatch``.
"""
