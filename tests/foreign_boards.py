"""The metrics that public boards for Apache Kafka ask for, by board: names only.

Read from the queries of Strimzi's boards (`strimzi-kafka`, `strimzi-kraft`, `strimzi-kafka-exporter`) and of
kafka_exporter's (Grafana 7589).
"""

from __future__ import annotations

STRIMZI_KAFKA = frozenset(
    [
        "kafka_cluster_partition_atminisr",
        "kafka_cluster_partition_replicascount",
        "kafka_cluster_partition_underminisr",
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "kafka_controller_kafkacontroller_activecontrollercount",
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "kafka_log_log_size",
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "kafka_server_brokertopicmetrics_bytesin_total",
        "kafka_server_brokertopicmetrics_bytesout_total",
        "kafka_server_brokertopicmetrics_failedfetchrequests_total",
        "kafka_server_brokertopicmetrics_failedproducerequests_total",
        "kafka_server_brokertopicmetrics_messagesin_total",
        "kafka_server_brokertopicmetrics_totalfetchrequests_total",
        "kafka_server_brokertopicmetrics_totalproducerequests_total",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "kafka_server_kafkaserver_linux_disk_read_bytes",
        "kafka_server_kafkaserver_linux_disk_write_bytes",
        "kafka_server_replicamanager_leadercount",
        "kafka_server_replicamanager_partitioncount",
        "kafka_server_replicamanager_underreplicatedpartitions",
        "kafka_server_socket_server_metrics_connection_count",
        "process_open_fds",
    ]
)
STRIMZI_KRAFT = frozenset(
    [
        "kafka_server_raftchannelmetrics_incoming_byte_total",
        "kafka_server_raftchannelmetrics_outgoing_byte_total",
        "kafka_server_raftchannelmetrics_request_total",
        "kafka_server_raftchannelmetrics_response_total",
        "kafka_server_raftmetrics_append_records_rate",
        "kafka_server_raftmetrics_commit_latency_avg",
        "kafka_server_raftmetrics_current_epoch",
        "kafka_server_raftmetrics_current_leader",
        "kafka_server_raftmetrics_current_state",
        "kafka_server_raftmetrics_current_vote",
        "kafka_server_raftmetrics_fetch_records_rate",
        "kafka_server_raftmetrics_high_watermark",
        "kafka_server_raftmetrics_log_end_offset",
        "process_open_fds",
    ]
)
STRIMZI_KAFKA_EXPORTER = frozenset(
    [
        "kafka_broker_info",
        "kafka_cluster_partition_atminisr",
        "kafka_cluster_partition_underminisr",
        "kafka_consumergroup_current_offset",
        "kafka_consumergroup_lag",
        "kafka_topic_partition_current_offset",
        "kafka_topic_partition_in_sync_replica",
        "kafka_topic_partition_leader_is_preferred",
        "kafka_topic_partition_oldest_offset",
        "kafka_topic_partition_replicas",
        "kafka_topic_partition_under_replicated_partition",
        "kafka_topic_partitions",
    ]
)
KAFKA_EXPORTER = frozenset(
    [
        "kafka_consumergroup_current_offset",
        "kafka_consumergroup_lag",
        "kafka_topic_partition_current_offset",
        "kafka_topic_partitions",
    ]
)
BOARDS = {
    "strimzi-kafka": STRIMZI_KAFKA,
    "strimzi-kraft": STRIMZI_KRAFT,
    "strimzi-kafka-exporter": STRIMZI_KAFKA_EXPORTER,
    "kafka_exporter": KAFKA_EXPORTER,
}
OF_A_JVM = frozenset(
    [
        "jvm_gc_collection_seconds_count",
        "jvm_gc_collection_seconds_sum",
        "jvm_memory_used_bytes",
        "jvm_threads_current",
    ]
)
OF_KUBERNETES = frozenset(
    [
        "container_cpu_usage_seconds_total",
        "container_memory_usage_bytes",
        "kubelet_volume_stats_available_bytes",
    ]
)
"""What these boards ask for and a node does not have; docs/metrics.md names each."""
