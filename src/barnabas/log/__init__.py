"""One partition's bytes on a Disk, in Apache Kafka's files.

* ``partition_log`` is the unit: append, read, cut, sync. It is put together from ``segmented_log``
  (reading), ``cutting``, ``retention`` and ``syncing``; ``recovery`` opens it.
* ``segment`` and ``indexes`` are one segment; ``producer_state``, ``transactions`` and ``epoch_cache``
  what is known of producers, aborted transactions and leader epochs.
* ``changes`` counts what a sync has to answer for.
* ``directories`` has all logs of a broker, ``directory`` one entry of ``log.dirs``.
* ``compaction`` says what compaction keeps, ``cleaner`` does a round on one log, ``cleaning`` chooses
  when and which.
"""
