"""KRaft: a replicated log under one elected leader, by Kafka's protocol (KIP-595, 630, 853, 996).

`RaftNode` (:mod:`barnabas.raft.raft_node`) is the way in: ports, settings, a directory, a transport
and a `StateMachine` (:mod:`barnabas.raft.state_machine`). It works without brokers or metadata.
"""
