"""One partition's bytes on a Disk, in Apache Kafka's files.

* ``partition/`` is the log itself: ``partition_log`` appends and reads (with ``segmented_log``),
  ``truncation``, ``retention`` and ``flush_jobs`` change and sync it,
  ``log_loader`` opens it after a start, with ``crash_recovery`` after a crash.
* ``segments/`` has one segment and its indexes; ``state/`` what is known of producers and leader epochs.
* ``directories/`` has all logs of a broker (``log_directories``) and one entry of ``log.dirs``
  (``log_directory``), moves logs between entries, and chooses what to clean and when (``log_cleaner``).
* ``compaction/`` says what a cleaning keeps, and does one pass over one log.
* ``durability`` counts the changes that a sync has to answer for; ``checkpoints`` reads and writes Kafka's
  checkpoint files; ``file_cache`` bounds the open files.
"""
