"""Elections of the controller in ZooKeeper mode.

`states` and `moves` are a pure machine; `controller_election` performs what it says.
"""
