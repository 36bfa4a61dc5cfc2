"""The twins of ``host/``: virtual time, processes, network, disk and helper of a simulated machine."""
