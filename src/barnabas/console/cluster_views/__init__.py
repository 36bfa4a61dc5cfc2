"""Figures that pages show of a cluster: asked over the Kafka protocol, combined, without HTML."""
