"""The doctor of a cluster: it gathers facts by Kafka's protocol, and pure checks make findings of them."""
