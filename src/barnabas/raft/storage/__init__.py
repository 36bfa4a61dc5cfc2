"""What a replica of the quorum has on disk: log, snapshots, quorum-state, recovery point."""
