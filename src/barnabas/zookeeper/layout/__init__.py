"""Metadata records and the znodes that hold them, both ways, in the bytes of Kafka 3.9.

- `znode_table`: a path and its data ↔ a typed value; each kind of znode has a module by subject.
- `cluster_znodes`: all znodes of a cluster ↔ metadata records; what changes in znodes when records are
  applied.
- `java_order`, `json_bytes`: what makes the bytes Kafka's and not merely equivalent.

Pure functions and values. Malformed data is a `MalformedZnode`, which names the znode.

Source: ``kafka.zk.ZkData``, `kafka.zk.migration.*`, `AclEntry`, ``DelegationTokenManagerZk`` of Kafka 3.9.1.
"""
