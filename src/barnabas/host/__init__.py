"""The real machine behind the ports: sockets, threads, clock, chance, log lines.

A node has one loop on one thread. `ports.HostPorts` gives it to the node, and `main` runs one node
from a properties file.
"""
