"""A node that a test can make fail: ``python -m barnabas.testing.faulty_node FILE.properties``.

It is the node of `barnabas.host.main` on other ports: its disk can fail, its clock can be stepped,
its connections to other nodes go through the relay of the cluster's links, and a control on loopback has it
answer requests with an error, late or never. Only `barnabas.testing` starts it (``testing.faults.file``).
"""
