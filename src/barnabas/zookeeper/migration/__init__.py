"""The way of a stopped cluster from ZooKeeper to KRaft, and back: what prevents it, the records and znodes,
and what differs. Pure functions over values; commands read and write. Source: KIP-866 for `/controller`
and `/migration`; the copy itself is of a cluster whose brokers are stopped.
"""
