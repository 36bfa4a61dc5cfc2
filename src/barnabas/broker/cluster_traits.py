"""Traits of a cluster by which a broker acts; they depend on what coordinates the cluster.

The composition root passes them. The defaults are those of a cluster that a quorum coordinates (KRaft).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterTraits:
    """Brokers of the cluster can rely on these."""

    orders_broker_epochs: bool = True
    """Whether a later registration of a broker has a higher epoch. Epochs of two coordinators have no
    order."""
    takes_envelopes: bool = True
    """Whether every controller takes envelopes. One of Kafka 3.9 closes a connection that carries one."""
    names_directories: bool = True
    """Whether the metadata name the log directory of each replica. Where they do not, the controller says
    which replicas are new."""
    creates_topics_at_once: bool = True
    """Whether a broker learns of all partitions of a new topic at once."""


QUORUM_TRAITS = ClusterTraits()
