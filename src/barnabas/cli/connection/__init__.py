"""How a command reaches a cluster: brokers, controllers, the metadata log, who votes first."""
