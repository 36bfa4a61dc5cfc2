"""What commands show of the quorum and of log files, as rows."""
