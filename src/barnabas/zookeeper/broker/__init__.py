"""A broker that ZooKeeper coordinates: its registration, and what its controller orders by RPC.

Everything else of the broker is the same in both modes: orders become records that its image replays.
"""
