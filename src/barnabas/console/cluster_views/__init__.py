"""What pages show of a cluster: asked over the Kafka protocol, combined, without a word of HTML."""
