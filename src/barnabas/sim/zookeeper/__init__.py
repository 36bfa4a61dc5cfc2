"""The twin of a ZooKeeper ensemble: servers on simulated machines, and sessions of simulated processes.

The agreement between the servers is an oracle (`ensemble`), not a simulated protocol: what it commits is in
one order, survives every crash, and needs a leader with a majority. Everything that a client can tell from
outside is here: servers that lag, time-outs, expiry, watches, moves, lost connections, elections.
"""
