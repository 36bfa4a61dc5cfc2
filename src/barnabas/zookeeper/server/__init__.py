"""A server of ZooKeeper's client protocol on this project's own Raft quorum.

`jute`, `requests` and `words` are the wire; `replicated_state` is what the log's entries make
(znodes and sessions); `client_connection` is one client; `znode_server` is one server of 1 or 3: it proposes
what changes something, answers from what was committed, and counts sessions' time where it leads.
`server_settings` reads zoo.cfg."""
