"""The real machine behind the ports: sockets, threads, clock, chance, log lines.

One loop on one thread is all there is; `ports.HostPorts` hands it to a node, `main` runs one
node from a properties file.
"""
