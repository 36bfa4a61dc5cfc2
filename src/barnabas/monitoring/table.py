"""Every metric of a node. The endpoint, the commands, the page in docs and the boards are made from
these rows.

:mod:`barnabas.monitoring.metric` describes the form of the rows.
"""

from __future__ import annotations

from functools import cache

from barnabas.monitoring.metric import Metric, by_mbean, parse_rows

CONTROLLER = """
kafka.controller:type=KafkaController,name=ActiveControllerCount | gauge
    1: this controller is active | no answer for some seconds: no majority
kafka.controller:type=KafkaController,name=ActiveBrokerCount | gauge
    brokers that serve | below the number of brokers
kafka.controller:type=KafkaController,name=ControlledShutdownBrokerCount | gauge
    brokers that shut down in order
kafka.controller:type=KafkaController,name=FencedBrokerCount | gauge
    registered brokers that do not serve | above 0
kafka.controller:type=KafkaController,name=GlobalTopicCount | gauge
    topics
kafka.controller:type=KafkaController,name=GlobalPartitionCount | gauge
    partitions
kafka.controller:type=KafkaController,name=OfflinePartitionsCount | gauge
    partitions without a leader, those that never had one included | **above 0**
kafka.controller:type=KafkaController,name=PreferredReplicaImbalanceCount | gauge
    partitions whose leader is not the preferred replica | stays high
kafka.controller:type=KafkaController,name=LastAppliedRecordOffset | gauge
    end of what the controller's image has
kafka.controller:type=KafkaController,name=LastCommittedRecordOffset | gauge
    end of what a majority has | stays below the one above
kafka.controller:type=KafkaController,name=LastAppliedRecordTimestamp | gauge
    date of the last record
kafka.controller:type=KafkaController,name=LastAppliedRecordLagMs | gauge
    its age; grows while nothing is decided, which is normal here
kafka.controller:type=ControllerStats,name=ElectionFromEligibleLeaderReplicasPerSec:Count | counter
    elections from the ELR since the process began
kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec:Count | counter
    unclean elections since the process began | **grows: records may be lost**
barnabas.controller:type=Partitions,name=New | gauge
    never had a leader | stays above 0
barnabas.controller:type=Partitions,name=Online | gauge
    have a leader
barnabas.controller:type=Partitions,name=Offline | gauge
    lost their leader | **above 0**
barnabas.controller:type=Partitions,name=UnderReplicated | gauge
    the ISR lacks a replica | above 0 for minutes
barnabas.controller:type=Partitions,name=UnderMinIsr | gauge
    refuse producers with acks=all | **above 0**
barnabas.controller:type=Partitions,name=Reassigning | gauge
    replicas move
barnabas.controller:type=Partitions,name=Recovering | gauge
    an unclean recovery asks replicas for their log ends | stays above 0
barnabas.controller:type=Controller,name=WaitingAnswers | gauge
    requests that wait for a commit | grows
barnabas.controller:type=Controller,name=WorkInSlices | gauge
    long decisions under way | stays above 0
barnabas.controller:type=Controller,name=DepartingBrokers | gauge
    brokers whose partitions are being moved away | stays above 0
barnabas.controller:type=Controller,name=RememberedRefusals | gauge
    refusals that `cluster events` can show, 1,000 at most
"""
ZOOKEEPER_CONTROLLER = """
kafka.controller:type=KafkaController,name=TopicsToDeleteCount | gauge
    topics that are being deleted | stays above 0
kafka.controller:type=KafkaController,name=ReplicasToDeleteCount | gauge
    their replicas
kafka.controller:type=KafkaController,name=TopicsIneligibleToDeleteCount | gauge
    those that wait for a broker or a log directory | stays above 0
kafka.controller:type=KafkaController,name=ReplicasIneligibleToDeleteCount | gauge
    their replicas that cannot be deleted at present
barnabas.controller:type=Controller,name=TopicsLeftOut | gauge
    topics with a znode that cannot be read ([ZooKeeper mode](zookeeper.md)) | **above 0**
"""
ZOOKEEPER_SESSION = """
barnabas_zookeeper_session{state} | gauge
    1 for the state of the session with the ensemble: connecting, connected, suspended ... | not connected
"""
COORDINATORS = """
kafka.server:type=group-coordinator-metrics,name=group-count,protocol=classic | gauge
    classic groups
kafka.server:type=group-coordinator-metrics,name=group-count,protocol=consumer | gauge
    consumer groups (KIP-848)
kafka.server:type=group-coordinator-metrics,name=group-count,protocol=share | gauge
    share groups (KIP-932)
kafka.server:type=group-coordinator-metrics,name=group-count,protocol=streams | gauge
    streams groups (KIP-1071)
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups | gauge
    classic groups
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsPreparingRebalance | gauge
    wait for their members to join | stays above 0
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsCompletingRebalance | gauge
    wait for their leader's assignment | stays above 0
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsStable | gauge
    have their assignment
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsDead | gauge
    being removed
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsEmpty | gauge
    have offsets and no members
kafka.server:type=group-coordinator-metrics,name=classic-group-count,state=PreparingRebalance | gauge
    classic groups that wait for their members to join; the names since Kafka 4.4 | stays above 0
kafka.server:type=group-coordinator-metrics,name=classic-group-count,state=CompletingRebalance | gauge
    wait for their leader's assignment | stays above 0
kafka.server:type=group-coordinator-metrics,name=classic-group-count,state=Stable | gauge
    have their assignment
kafka.server:type=group-coordinator-metrics,name=classic-group-count,state=Dead | gauge
    being removed
kafka.server:type=group-coordinator-metrics,name=classic-group-count,state=Empty | gauge
    have offsets and no members
kafka.server:type=group-coordinator-metrics,name=consumer-group-count,state=Empty | gauge
    consumer groups without members
kafka.server:type=group-coordinator-metrics,name=consumer-group-count,state=Assigning | gauge
    wait for a target assignment | stays above 0
kafka.server:type=group-coordinator-metrics,name=consumer-group-count,state=Reconciling | gauge
    some member has not given up or taken what it should | stays above 0
kafka.server:type=group-coordinator-metrics,name=consumer-group-count,state=Stable | gauge
    have their assignment
kafka.server:type=group-coordinator-metrics,name=consumer-group-count,state=Dead | gauge
    being removed
kafka.server:type=group-coordinator-metrics,name=share-group-count,state=Empty | gauge
    share groups without members
kafka.server:type=group-coordinator-metrics,name=share-group-count,state=Stable | gauge
    have members
kafka.server:type=group-coordinator-metrics,name=share-group-count,state=Dead | gauge
    being removed
kafka.server:type=group-coordinator-metrics,name=streams-group-count,state=Empty | gauge
    streams groups without members
kafka.server:type=group-coordinator-metrics,name=streams-group-count,state=NotReady | gauge
    topics do not fit the topology | stays above 0
kafka.server:type=group-coordinator-metrics,name=streams-group-count,state=Assigning | gauge
    wait for a target assignment | stays above 0
kafka.server:type=group-coordinator-metrics,name=streams-group-count,state=Reconciling | gauge
    some member has not given up or taken what it should | stays above 0
kafka.server:type=group-coordinator-metrics,name=streams-group-count,state=Stable | gauge
    have their assignment
kafka.server:type=group-coordinator-metrics,name=streams-group-count,state=Dead | gauge
    being removed
kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets | gauge
    committed offsets
kafka.server:type=group-coordinator-metrics,name=offset-count | gauge
    the same number
kafka.server:type=group-coordinator-metrics,name=group-completed-rebalance-count | counter
    rebalances of classic groups that were completed | grows without deployments
kafka.server:type=group-coordinator-metrics,name=consumer-group-rebalance-count | counter
    new epochs of consumer groups | grows without deployments
kafka.server:type=group-coordinator-metrics,name=share-group-rebalance-count | counter
    new epochs of share groups | grows without deployments
kafka.server:type=group-coordinator-metrics,name=streams-group-rebalance-count | counter
    new epochs of streams groups | grows without deployments
kafka.server:type=group-coordinator-metrics,name=num-partitions,state=loading | gauge
    partitions of `__consumer_offsets` whose coordinator is not ready | stays above 0
kafka.server:type=group-coordinator-metrics,name=num-partitions,state=active | gauge
    those that are coordinated
kafka.server:type=group-coordinator-metrics,name=num-partitions,state=failed | gauge
    those whose log cannot be read | **above 0**
kafka.server:type=group-coordinator-metrics,name=partition-load-time-max | gauge
    ms from the election to the loaded coordinator, the longest of the last half minute
kafka.server:type=group-coordinator-metrics,name=partition-load-time-avg | gauge
    the average
barnabas.transaction:type=Transactions,name=Empty | gauge
    transactional ids that have a producer id and had no transaction yet
barnabas.transaction:type=Transactions,name=Ongoing | gauge
    open transactions
barnabas.transaction:type=Transactions,name=PrepareCommit | gauge
    the commit is decided and markers are being written | stays above 0
barnabas.transaction:type=Transactions,name=PrepareAbort | gauge
    the same for aborts | stays above 0
barnabas.transaction:type=Transactions,name=CompleteCommit | gauge
    transactional ids whose last transaction was committed
barnabas.transaction:type=Transactions,name=CompleteAbort | gauge
    those whose last was aborted
barnabas.transaction:type=Transactions,name=Committed:Count | counter
    commits decided
barnabas.transaction:type=Transactions,name=Aborted:Count | counter
    aborts decided: asked for, by a new producer of the id, or for time
barnabas.transaction:type=Transactions,name=TimedOut:Count | counter
    those for time | grows: producers die or hang
barnabas.transaction:type=Transactions,name=OldestOpenMs | gauge
    age of the oldest open transaction; 0 where none is open | above `transaction.max.timeout.ms`
barnabas.transaction:type=Transactions,name=WaitingForMarkers | gauge
    transactions that have ended and lack markers or the record that completes them | stays above 0
barnabas.transaction:type=Transactions,name=WaitingMarkers | gauge
    their partitions without a marker | stays above 0
kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=UnknownDestinationQueueSize | gauge
    of these, markers to be tried again | stays above 0: `read_committed` waits
kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=LogAppendRetryQueueSize | gauge
    transactions whose completion is to be written again | stays above 0
barnabas.transaction:type=Transactions,name=num-partitions,state=loading | gauge
    partitions of `__transaction_state` whose coordinator is not ready | stays above 0
barnabas.transaction:type=Transactions,name=num-partitions,state=active | gauge
    those that are coordinated
barnabas.transaction:type=Transactions,name=num-partitions,state=failed | gauge
    those whose log cannot be read | **above 0**
kafka.server:type=transaction-coordinator-metrics,name=partition-load-time-max | gauge
    ms from the election to the loaded coordinator, the longest of the last half minute
kafka.server:type=transaction-coordinator-metrics,name=partition-load-time-avg | gauge
    the average
kafka.server:type=ShareGroupMetrics,name=RecordAcknowledgementsPerSec,ackType=* | counter
    records of share groups that members accepted, released, rejected or renewed
kafka.server:type=SharePartitionMetrics,name=InFlightMessageCount,group=*,topic=*,partition=* | gauge
    offsets of a share partition led here, from its start to the last that was delivered | \
stays at `share.partition.max.record.locks`: members take no more
kafka.server:type=SharePartitionMetrics,name=InFlightBatchCount,group=*,topic=*,partition=* | gauge
    runs of equal state that they are kept in
kafka.server:type=SharePartitionMetrics,name=AcquisitionLockTimeoutPerSec,group=*,topic=*,partition=* \
| counter
    records whose lock ended before they were acknowledged | grows: members are slow, or fail
barnabas.share:type=SharePartitions,name=Acquired,group=*,topic=*,partition=* | gauge
    records that members hold
barnabas.share:type=SharePartitions,name=Delivered,group=*,topic=*,partition=*,deliveries=* | gauge
    records that are not acknowledged yet, by how often they were delivered
kafka.server:type=ShareGroupMetrics,name=DeadLetterQueueRecordCount,group=* | counter
    dead letters that this broker has written
kafka.server:type=ShareGroupMetrics,name=DeadLetterQueueTotalProduceRequestsPerSec,group=* | counter
    requests by which it wrote dead letters
kafka.server:type=ShareGroupMetrics,name=DeadLetterQueueFailedProduceRequestsPerSec,group=* | counter
    those of them that failed | grows: dead letters wait, or are lost
barnabas.quotas:type=Clients,name=Known | gauge
    clients whose use is measured: some limit is theirs
barnabas.quotas:type=Clients,name=ThrottledAnswers:Count | counter
    answers that made their client wait
"""
CERTIFICATES = """
barnabas.security:type=Certificates,name=SecondsLeft,listener=* | gauge
    seconds until the listener's certificate ends; negative afterwards | **below 2,592,000 (30 days)**
"""
QUORUM = """
kafka_server_raftmetrics_current_state{current_state} | gauge
    1 for the state that this replica is in: leader, follower, observer, candidate ...
kafka.server:type=raft-metrics,name=current-leader | gauge
    node id of the leader, -1 for none | -1
kafka.server:type=raft-metrics,name=current-vote | gauge
    node id that this replica voted for
kafka.server:type=raft-metrics,name=current-epoch | gauge
    quorum epoch | grows often: elections
kafka.server:type=raft-metrics,name=high-watermark | gauge
    end of what is committed | does not grow while requests wait
kafka.server:type=raft-metrics,name=log-end-offset | gauge
    end of the log
kafka.server:type=raft-metrics,name=log-end-epoch | gauge
    epoch of its last record
kafka.server:type=raft-metrics,name=number-unknown-voter-connections | gauge
    voters without a known address | above 0
kafka.server:type=raft-metrics,name=number-of-voters | gauge
    voters | not odd
kafka.server:type=raft-metrics,name=number-of-observers | gauge
    brokers and controllers without a vote
kafka.server:type=raft-metrics,name=uncommitted-voter-change | gauge
    1 while a change of voters is not committed | stays 1
kafka.server:type=raft-metrics,name=commit-latency-avg | gauge
    ms from append to commit | the disk's fdatasync is slow
kafka.server:type=raft-metrics,name=commit-latency-max | gauge
    the longest
kafka.server:type=raft-metrics,name=election-latency-avg | gauge
    ms from candidate to leader
kafka.server:type=raft-metrics,name=election-latency-max | gauge
    the longest
kafka.server:type=raft-metrics,name=append-records-rate | gauge
    records per second that the leader appends
kafka.server:type=raft-metrics,name=fetch-records-rate | gauge
    records per second that this replica fetches
kafka.server:type=raft-metrics,name=poll-idle-ratio-avg | gauge
    share of time in which the quorum's replica has nothing to do | below 0.2
kafka.server:type=raft-channel-metrics,name=request-total | counter
    requests to other replicas of the quorum
kafka.server:type=raft-channel-metrics,name=response-total | counter
    their responses
kafka.server:type=raft-channel-metrics,name=outgoing-byte-total | counter
    bytes of these requests
kafka.server:type=raft-channel-metrics,name=incoming-byte-total | counter
    bytes of these responses
"""
REPLICAS = """
kafka.server:type=KafkaServer,name=BrokerState | gauge
    1 starting, 2 recovering its logs, 3 running, 6 shutting down | not 3 for minutes
kafka.server:type=ReplicaManager,name=PartitionCount | gauge
    replicas on this broker
kafka.server:type=ReplicaManager,name=LeaderCount | gauge
    of these, leaders
kafka.server:type=ReplicaManager,name=OfflineReplicaCount | gauge
    of these, replicas in a log directory that failed | **above 0**
kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions | gauge
    partitions led here whose ISR lacks a replica | above 0 for minutes
kafka.server:type=ReplicaManager,name=UnderMinIsrPartitionCount | gauge
    partitions led here that refuse producers with acks=all | **above 0**
kafka.server:type=ReplicaManager,name=AtMinIsrPartitionCount | gauge
    partitions led here that will, once one more replica is lost
kafka.server:type=ReplicaManager,name=ReassigningPartitions | gauge
    partitions led here whose replicas move
kafka.log:type=LogManager,name=OfflineLogDirectoryCount | gauge
    log directories that failed | **above 0**
kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory=* | gauge
    1 where the directory failed | 1
barnabas.log:type=LogDirectory,name=TotalBytes,logDirectory=* | gauge
    size of the volume
barnabas.log:type=LogDirectory,name=UsableBytes,logDirectory=* | gauge
    what is free on it | below what arrives until retention takes effect
kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions | gauge
    fetch sessions that are kept (KIP-227)
kafka.server:type=socket-server-metrics,name=connection-count,listener=* | gauge
    connections of the listener
"""
PARTITIONS = """
kafka.log:type=Log,name=Size,topic=*,partition=* | gauge
    bytes of the replica's segments
kafka.log:type=Log,name=LogStartOffset,topic=*,partition=* | gauge
    its first offset
kafka.log:type=Log,name=LogEndOffset,topic=*,partition=* | gauge
    the offset that its next record gets
kafka.log:type=Log,name=NumLogSegments,topic=*,partition=* | gauge
    its segments
kafka.cluster:type=Partition,name=InSyncReplicasCount,topic=*,partition=* | gauge
    replicas in the ISR; said by the leader
kafka.cluster:type=Partition,name=ReplicasCount,topic=*,partition=* | gauge
    replicas; said by the leader
kafka.cluster:type=Partition,name=UnderReplicated,topic=*,partition=* | gauge
    1 where the ISR lacks a replica; said by the leader | 1 for minutes
kafka.cluster:type=Partition,name=UnderMinIsr,topic=*,partition=* | gauge
    1 where producers with acks=all are refused; said by the leader | **1**
kafka.cluster:type=Partition,name=AtMinIsr,topic=*,partition=* | gauge
    1 where producers with acks=all will be refused once one more replica is lost; said by the leader
kafka.cluster:type=Partition,name=LastStableOffsetLag,topic=*,partition=* | gauge
    records behind the first one of an open transaction; said by the leader | grows: a transaction hangs
"""
TOPICS = """
kafka_brokers | gauge
    brokers of the cluster (kafka_exporter's name)
kafka_broker_info{id,address} | gauge
    1; a broker of the cluster and its address between brokers
kafka_topic_partitions{topic} | gauge
    partitions of the topic; said by the leader of its partition 0
kafka_topic_partition_current_offset{topic,partition} | gauge
    high watermark; said by the leader
kafka_topic_partition_oldest_offset{topic,partition} | gauge
    first offset; said by the leader
kafka_topic_partition_leader{topic,partition} | gauge
    node id of the leader; said by the leader
kafka_topic_partition_leader_is_preferred{topic,partition} | gauge
    1 where it is the first of the replicas
kafka_topic_partition_replicas{topic,partition} | gauge
    replicas
kafka_topic_partition_in_sync_replica{topic,partition} | gauge
    replicas in the ISR
kafka_topic_partition_under_replicated_partition{topic,partition} | gauge
    1 where the ISR lacks a replica | 1 for minutes
"""
GROUPS = """
kafka_consumergroup_current_offset{consumergroup,topic,partition} | gauge
    offset that the group has committed
kafka_consumergroup_current_offset_sum{consumergroup,topic} | gauge
    the sum over the topic's partitions
kafka_consumergroup_lag{consumergroup,topic,partition} | gauge
    records between the committed offset and the high watermark | grows
kafka_consumergroup_lag_sum{consumergroup,topic} | gauge
    the sum over the topic's partitions
kafka_consumergroup_lag_seconds{consumergroup,topic,partition} | gauge
    age of the first record that is not committed, by its timestamp; 0 where there is none | **high**
kafka_consumergroup_members{consumergroup} | gauge
    members; 0 for groups that only commit, such as Spark's queries
barnabas_consumergroup_offsets_left_out | gauge
    committed offsets beyond the 50,000 that one coordinator shows | above 0
"""
REQUESTS = """
kafka.network:type=RequestMetrics,name=RequestsPerSec,request=* | counter
    requests that were answered, by API
barnabas_request_seconds{request,phase} | histogram
    time of a request by phase: queue, local (the handler), remote, throttle, send, total | grows
kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=* | counter
    records that clients wrote
kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=* | counter
    bytes of their batches
kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic=* | counter
    bytes of batches that consumers fetched
kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesInPerSec | counter
    bytes of batches that followers here fetched
kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesOutPerSec | counter
    bytes of batches that followers fetched
kafka.server:type=BrokerTopicMetrics,name=TotalProduceRequestsPerSec,topic=* | counter
    partitions in Produce requests
kafka.server:type=BrokerTopicMetrics,name=TotalFetchRequestsPerSec,topic=* | counter
    partitions in the answers to consumers' Fetch requests
kafka.server:type=BrokerTopicMetrics,name=FailedProduceRequestsPerSec,topic=* | counter
    of these, refused; clients that only have to learn the leader do not count | grows
kafka.server:type=BrokerTopicMetrics,name=FailedFetchRequestsPerSec,topic=* | counter
    of these, refused in the same sense | grows
"""
PROCESS = """
process_cpu_seconds_total | counter
    CPU time of the process
process_resident_memory_bytes | gauge
    resident memory
process_open_fds | gauge
    open file descriptors | near process_max_fds
process_max_fds | gauge
    the most that there may be
process_start_time_seconds | gauge
    when the process began, in seconds since 1970
kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent | gauge
    share of time (0 to 1) in which the loop waits, over the last half minute | below 0.2
kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent | gauge
    the same: one loop does what network and handler threads do in Kafka | below 0.2
kafka.server:type=KafkaServer,name=linux-disk-read-bytes | gauge
    bytes that the process made the disks read
kafka.server:type=KafkaServer,name=linux-disk-write-bytes | gauge
    bytes that the process made the disks write
kafka.server:type=KafkaServer,name=linux-disk-cancelled-write-bytes | gauge
    bytes of these that were never written, since their files were cut or deleted before
kafka.server:type=KafkaServer,name=linux-disk-rchar | gauge
    bytes that the process read, from the page cache too
kafka.server:type=KafkaServer,name=linux-disk-wchar | gauge
    bytes that the process wrote, into the page cache too
kafka.server:type=KafkaServer,name=linux-disk-syscr | gauge
    system calls that read
kafka.server:type=KafkaServer,name=linux-disk-syscw | gauge
    system calls that wrote
barnabas_loop_turns_total | counter
    turns of the event loop
barnabas_loop_slow_turns_total | counter
    turns of more than 20 ms | grows fast
barnabas_loop_longest_turn_seconds | gauge
    the longest turn since the start
barnabas_memory_bytes{owner} | gauge
    unread responses (`unsent`, `kept`), the `image`, fetch `sessions`, index `caches` | unsent near 256 MiB
barnabas_held{what} | gauge
    unanswered requests, fetch sessions, deadlines, partitions of the image, logs: the number in memory
barnabas_build_info{version,node_id,cluster_id,roles} | gauge
    1; the labels say what runs
barnabas_scrape_seconds | gauge
    CPU time that the previous scrape took here
barnabas_health{check} | gauge
    1 where a check of /health/ready passes | **0**
"""

SECTIONS = {
    "The active controller": CONTROLLER,
    "The controller in ZooKeeper mode": ZOOKEEPER_CONTROLLER,
    "The session with ZooKeeper": ZOOKEEPER_SESSION,
    "Coordinators and quotas of a broker": COORDINATORS,
    "Replicas and log directories of a broker": REPLICAS,
    "Requests, and what clients write and read": REQUESTS,
    "Each partition of a broker": PARTITIONS,
    "Topics, under kafka_exporter's names": TOPICS,
    "Groups and their lag, said by their coordinator": GROUPS,
    "Listeners with TLS": CERTIFICATES,
    "The quorum": QUORUM,
    "The process": PROCESS,
}
"""The rows by the heading that they have in docs/metrics.md."""


@cache
def metrics() -> dict[str, Metric]:
    """Every metric by its MBean."""
    return by_mbean(metric for rows in SECTIONS.values() for metric in parse_rows(rows))
