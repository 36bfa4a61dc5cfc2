"""The machines of replication: what a leader and a follower of one partition decide.

:mod:`~barnabas.replication.isr` has the states of an ISR, :mod:`~barnabas.replication.leader` the
leader's bookkeeping of its followers, :mod:`~barnabas.replication.follower` where a follower fetches
from and where it truncates to, :mod:`~barnabas.replication.sessions` fetch sessions (KIP-227).
Nothing here does I/O, reads a clock or knows a log: offsets and instants are arguments.
"""
