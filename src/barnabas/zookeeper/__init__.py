"""ZooKeeper mode: metadata in ZooKeeper, where the other mode has the metadata log.

This package owns what both sides of that mode, and the migration out of it, build on:

- `session`: the port to an ensemble. `host` implements it with kazoo, `sim` with a deterministic twin.
- `operations`, `errors`: what a session is asked and what it answers, as values.
- `layout`: metadata records and the znodes that hold them, both ways, in the bytes of Kafka 3.9.

Nothing here does input or output.
"""
