"""One process assembled from its roles: see :mod:`barnabas.node.node`."""

from barnabas.node.node import Node

__all__ = ["Node"]
