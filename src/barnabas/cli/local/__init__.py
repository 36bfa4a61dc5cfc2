"""What ``barnabas up`` is made of: a directory of node files, processes, free ports, readiness."""
