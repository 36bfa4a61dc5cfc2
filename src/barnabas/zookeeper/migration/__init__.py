"""The way from ZooKeeper to KRaft, and back, of a running cluster (KIP-866) and of a stopped one.

`claim` takes and keeps ``/controller``, `findings` and `readiness` say what prevents a migration,
`comparison` what znodes and log say differently, `progress` how far it is.

- Running: `driver` is the machine of a KRaft controller that migrates, `online_migration` performs its
  effects, `running_copy` makes the log's records of the znodes, `dual_write` the znodes of its decisions.
- Stopped: `copying` makes records of the znodes, and the way back.

But for `online_migration` and `znode_walk`, which speak through a session, these are pure functions and
machines over values. Source: Kafka 3.9's ``org.apache.kafka.metadata.migration``.
"""
