"""One partition's bytes on a Disk, in Apache Kafka's files.

* :mod:`barnabas.log.partition_log` is the unit: append, read, cut, sync. It is put together from
  :mod:`~barnabas.log.segmented_log` (reading), :mod:`~barnabas.log.cutting`, :mod:`~barnabas.log.retention` and
  :mod:`~barnabas.log.syncing`; :mod:`~barnabas.log.recovery` opens it.
* :mod:`barnabas.log.segment` and :mod:`~barnabas.log.indexes` are one segment;
  :mod:`~barnabas.log.producer_state`, :mod:`~barnabas.log.transactions` and :mod:`~barnabas.log.epoch_cache` what is
  known of producers, aborted transactions and leader epochs.
* :mod:`barnabas.log.directories` has all logs of a broker, :mod:`~barnabas.log.directory` one entry of ``log.dirs``.
* :mod:`barnabas.log.compaction` says what compaction keeps, :mod:`~barnabas.log.cleaner` does a round on one log,
  :mod:`~barnabas.log.cleaning` chooses when and which.
"""
