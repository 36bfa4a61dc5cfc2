"""The files of a replica of the quorum: log, snapshots, quorum-state, recovery point."""
