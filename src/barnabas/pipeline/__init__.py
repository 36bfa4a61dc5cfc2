"""Topics in Spark: ``format("barnabas")`` for batch and streaming, reading and writing.

:mod:`datasource` is what Spark sees. Reading: :mod:`source` plans (with :mod:`offset_resolution` and
:mod:`offsets`), :mod:`range_reader` is a task's work, :mod:`barnabas.record.columnar` turns bytes into
Arrow. Writing: :mod:`sink` is the protocol of tasks and driver, :mod:`batch_encoder` makes batches,
:mod:`commit_log` and :mod:`staging` remember, :mod:`publisher` sends. :mod:`cluster_client` and
:mod:`broker_connection` reach the brokers. :mod:`each_batch` and :mod:`warm_up` are for users.

Needs the extra ``[spark]``. Sources: Spark's Python Data Source API (4.3), the options of Spark's
Kafka connector.
"""
