"""The rows that commands show of the quorum and of log files."""
