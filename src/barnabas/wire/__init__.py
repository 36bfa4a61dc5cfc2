"""The protocol of Apache Kafka on the wire: messages, codec, frames, server connections, table of APIs."""
