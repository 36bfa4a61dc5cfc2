"""The content of pages: asked over the Kafka protocol and combined, without HTML."""
