"""The parts of ``barnabas up``: a directory of node files, processes, free ports, readiness."""
