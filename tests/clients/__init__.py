"""Other people's clients: what they may do against a cluster, one module per client."""
