"""Whole jobs from one file: where rows come from, what becomes of them, where they land.

:mod:`job_file` reads and checks the file (with :mod:`key_lines`), :mod:`job_offsets` says how far a job is
and what it would read, without Spark. :mod:`job_run` runs it, :mod:`parquet_table` and :mod:`delta_table`
are sinks that take each micro-batch once.

Source: Kafka Connect's properties of a connector; Spark's ``foreachBatch``.
"""
