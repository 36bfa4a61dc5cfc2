"""The rule that brokers do with their logs what topics say of compaction and retention, however it came to
them: at the end every log has the configuration that the metadata give it."""

from __future__ import annotations

from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster
from barnabas.sim.history import Violation


class LogsFollowTheirConfigs(Checker):
    def finish(self, cluster: SimCluster) -> None:
        for node in cluster.up():
            broker = node.broker
            if broker is None:
                continue
            for partition in broker.replicas.by_id.values():
                wanted = broker.replicas.configs.log_config(partition.topic)
                if partition.log is not None and partition.log.config != wanted:
                    raise Violation(
                        f"{partition.name} on node {node.id} goes by {partition.log.config}, not {wanted}"
                    )
