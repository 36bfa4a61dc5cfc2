"""An audit of topics: every batch of every replica read, its CRC computed, offsets followed, replicas
compared.

:mod:`replica_check` reads one replica and says what is wrong with it, :mod:`log_files` a replica of a stopped
node, :mod:`live_replicas` one of a broker. :mod:`comparison` says where replicas differ, :mod:`audit_run`
does all of it on Spark, a task for each replica.

Source: Kafka's DumpLogSegments and ReplicaVerificationTool.
"""
