"""The boards: cluster, topics, groups, quorum, transactions, Spark.

``$topic`` and ``$group`` are variables of a board, regular expressions that match all by default.
"""

from __future__ import annotations

from barnabas.monitoring.boards.panels import Board, Panel

CONTROLLER = "kafka.controller:type=KafkaController,name="
MANAGER = "kafka.server:type=ReplicaManager,name="
TRAFFIC = "kafka.server:type=BrokerTopicMetrics,name="
RAFT = "kafka.server:type=raft-metrics,name="
TRANSACTIONS = "barnabas.transaction:type=Transactions,name="
SECONDS = "barnabas_request_seconds{request,phase}"
LAG = "kafka_consumergroup_lag_sum{consumergroup,topic}"
LAG_SECONDS = "kafka_consumergroup_lag_seconds{consumergroup,topic,partition}"
OFFSETS = "kafka_consumergroup_current_offset_sum{consumergroup,topic}"
REQUESTS = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=*"
DIRECTORY = "barnabas.log:type=LogDirectory,name={}Bytes,logDirectory=*"
SIZE = "kafka.log:type=Log,name=Size,topic=*,partition=*"
SMALL_ISR = "kafka_topic_partition_under_replicated_partition{topic,partition}"
MEMBERS = "kafka_consumergroup_members{consumergroup}"
REBALANCES = "kafka.server:type=group-coordinator-metrics,name={}-rebalance-count"
STABLE_LAG = "kafka.cluster:type=Partition,name=LastStableOffsetLag,topic=*,partition=*"
USABLE, TOTAL = DIRECTORY.format("Usable"), DIRECTORY.format("Total")
OF_TOPIC, OF_GROUP = '{topic=~"$topic"}', '{consumergroup=~"$group"}'
TOPIC_NAMES = ("topic", "label_values(<kafka_topic_partitions{topic}>, topic)")
GROUP_NAMES = ("group", f"label_values(<{LAG}>, consumergroup)")
NODE = "{{instance}}"
TOPIC, GROUP = "{{topic}}", "{{consumergroup}} {{topic}}"


def _quantile(quantile: float, by: str, where: str) -> str:
    return f"histogram_quantile({quantile}, sum by (le, {by}) (rate(<{SECONDS}>{{{where}}}[2m])))"


def _by_topic(name: str) -> str:
    return f"sum by (topic) (rate(<{TRAFFIC}{name},topic=*>{OF_TOPIC}[2m]))"


CLUSTER = Board(
    "cluster",
    "cluster",
    (
        Panel(
            "Active controllers", "none", [(f"sum(<{CONTROLLER}ActiveControllerCount>)", "active")]
        ),
        Panel("Nodes", "none", [("<kafka_brokers>", NODE), ("up", "scraped {{instance}}")]),
        Panel(
            "Partitions in trouble",
            "none",
            [
                (f"max(<{CONTROLLER}OfflinePartitionsCount>)", "offline"),
                (f"sum(<{MANAGER}UnderReplicatedPartitions>)", "under-replicated"),
                (f"sum(<{MANAGER}UnderMinIsrPartitionCount>)", "under min ISR"),
            ],
        ),
        Panel("Checks of health", "none", [("<barnabas_health{check}>", "{{check}} {{instance}}")]),
        Panel("Leaders", "none", [(f"<{MANAGER}LeaderCount>", NODE)]),
        Panel(
            "Records written",
            "wps",
            [(f"sum by (instance) (rate(<{TRAFFIC}MessagesInPerSec,topic=*>[2m]))", NODE)],
        ),
        Panel(
            "Bytes in and out",
            "Bps",
            [
                (f"sum(rate(<{TRAFFIC}BytesInPerSec,topic=*>[2m]))", "in"),
                (f"sum(rate(<{TRAFFIC}BytesOutPerSec,topic=*>[2m]))", "out"),
                (f"sum(rate(<{TRAFFIC}ReplicationBytesOutPerSec>[2m]))", "replication"),
            ],
        ),
        Panel(
            "Requests",
            "reqps",
            [
                (
                    f"sum by (request) (rate(<{REQUESTS}>[2m]))",
                    "{{request}}",
                )
            ],
        ),
        Panel(
            "Time of Produce, 99 %, by phase",
            "s",
            [(_quantile(0.99, "phase", 'request="Produce"'), "{{phase}}")],
        ),
        Panel("CPU", "percentunit", [("rate(<process_cpu_seconds_total>[2m])", NODE)]),
        Panel("Memory", "bytes", [("<process_resident_memory_bytes>", NODE)]),
        Panel("Longest turn", "s", [("<barnabas_loop_longest_turn_seconds>", NODE)]),
        Panel(
            "Free disk",
            "percentunit",
            [
                (
                    f"<{USABLE}> / <{TOTAL}>",
                    "{{instance}} {{logDirectory}}",
                )
            ],
        ),
        Panel(
            "Connections",
            "none",
            [
                (
                    "<kafka.server:type=socket-server-metrics,name=connection-count,listener=*>",
                    "{{instance}} {{listener}}",
                )
            ],
        ),
        Panel("In memory", "none", [("sum by (what) (<barnabas_held{what}>)", "{{what}}")]),
    ),
)
TOPICS = Board(
    "topics",
    "topics",
    (
        Panel("Records written", "wps", [(_by_topic("MessagesInPerSec"), TOPIC)]),
        Panel("Bytes in", "Bps", [(_by_topic("BytesInPerSec"), TOPIC)]),
        Panel("Bytes out", "Bps", [(_by_topic("BytesOutPerSec"), TOPIC)]),
        Panel(
            "Refused",
            "reqps",
            [
                (_by_topic("FailedProduceRequestsPerSec"), "produce {{topic}}"),
                (_by_topic("FailedFetchRequestsPerSec"), "fetch {{topic}}"),
            ],
        ),
        Panel(
            "Size",
            "bytes",
            [
                (
                    f"sum by (topic) (<{SIZE}>{OF_TOPIC})",
                    TOPIC,
                )
            ],
        ),
        Panel(
            "Partitions that lack a replica",
            "none",
            [
                (
                    f"sum by (topic) (<{SMALL_ISR}>{OF_TOPIC})",
                    TOPIC,
                )
            ],
        ),
    ),
    (TOPIC_NAMES,),
)


LAG_PANELS = (
    Panel(
        "Lag in seconds",
        "s",
        [(f"max by (consumergroup, topic) (<{LAG_SECONDS}>{OF_GROUP})", GROUP)],
    ),
    Panel(
        "Lag in records",
        "none",
        [(f"sum by (consumergroup, topic) (<{LAG}>{OF_GROUP})", GROUP)],
    ),
    Panel(
        "Records read",
        "rps",
        [(f"sum by (consumergroup, topic) (rate(<{OFFSETS}>{OF_GROUP}[2m]))", GROUP)],
    ),
)
GROUPS = Board(
    "groups",
    "groups and lag",
    (
        *LAG_PANELS,
        Panel(
            "Members",
            "none",
            [
                (
                    f"sum by (consumergroup) (<{MEMBERS}>{OF_GROUP})",
                    "{{consumergroup}}",
                )
            ],
        ),
        Panel(
            "Rebalances",
            "none",
            [
                (
                    f"sum(increase(<{REBALANCES.format('group-completed')}>[5m]))",
                    "classic",
                ),
                (
                    f"sum(increase(<{REBALANCES.format('consumer-group')}>[5m]))",
                    "consumer",
                ),
            ],
        ),
        Panel(
            "Committed offsets",
            "none",
            [("sum(<kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets>)", "all")],
        ),
    ),
    (GROUP_NAMES,),
)
SPARK = Board(
    "spark",
    "Spark's queries",
    LAG_PANELS,
    (("group", f'label_values(<{LAG}>{{consumergroup=~"spark-.*"}}, consumergroup)'),),
)
QUORUM = Board(
    "quorum",
    "quorum",
    (
        Panel(
            "State",
            "none",
            [
                (
                    "<kafka_server_raftmetrics_current_state{current_state}>",
                    "{{current_state}} {{instance}}",
                )
            ],
        ),
        Panel("Leader", "none", [(f"<{RAFT}current-leader>", NODE)]),
        Panel("Epoch", "none", [(f"<{RAFT}current-epoch>", NODE)]),
        Panel("High watermark", "none", [(f"<{RAFT}high-watermark>", NODE)]),
        Panel("Records appended", "wps", [(f"<{RAFT}append-records-rate>", NODE)]),
        Panel(
            "Commit latency",
            "ms",
            [
                (f"<{RAFT}commit-latency-avg>", f"average {NODE}"),
                (f"<{RAFT}commit-latency-max>", f"max {NODE}"),
            ],
        ),
        Panel("Elections", "ms", [(f"<{RAFT}election-latency-max>", NODE)]),
        Panel(
            "Voters and observers",
            "none",
            [
                (f"<{RAFT}number-of-voters>", f"voters {NODE}"),
                (f"<{RAFT}number-of-observers>", f"observers {NODE}"),
            ],
        ),
        Panel("Idle share of the loop", "percentunit", [(f"<{RAFT}poll-idle-ratio-avg>", NODE)]),
    ),
)
TRANSACTION_BOARD = Board(
    "transactions",
    "transactions",
    (
        Panel("Open", "none", [(f"sum(<{TRANSACTIONS}Ongoing>)", "open")]),
        Panel("Oldest open", "ms", [(f"max(<{TRANSACTIONS}OldestOpenMs>)", "oldest")]),
        Panel(
            "Ends",
            "ops",
            [
                (f"sum(rate(<{TRANSACTIONS}Committed:Count>[2m]))", "committed"),
                (f"sum(rate(<{TRANSACTIONS}Aborted:Count>[2m]))", "aborted"),
                (f"sum(rate(<{TRANSACTIONS}TimedOut:Count>[2m]))", "timed out"),
            ],
        ),
        Panel(
            "Wait for markers",
            "none",
            [
                (f"sum(<{TRANSACTIONS}WaitingForMarkers>)", "transactions"),
                (f"sum(<{TRANSACTIONS}WaitingMarkers>)", "markers"),
            ],
        ),
        Panel(
            "Records that read_committed waits for",
            "none",
            [
                (
                    f"max by (topic) (<{STABLE_LAG}>)",
                    TOPIC,
                )
            ],
        ),
        Panel(
            "Time of EndTxn, 99 %, by phase",
            "s",
            [(_quantile(0.99, "phase", 'request="EndTxn"'), "{{phase}}")],
        ),
    ),
)
BOARDS = (CLUSTER, TOPICS, GROUPS, QUORUM, TRANSACTION_BOARD, SPARK)
