"""The process: roles, listeners, sockets, threads, requests.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
broker.id | int | -1 | any | read-only | high
    Older name of node.id; must equal it if both are given.
num.io.threads | int | 8 | 1.. | cluster-wide | high
    Accepted for Kafka's sake: one thread serves all requests here.
background.threads | int | 10 | 1.. | cluster-wide | high
    Accepted for Kafka's sake: the number of background threads is fixed here.
request.timeout.ms | int | 30000 | any | read-only | high
    How long a request to another node may take before it fails.
socket.connection.setup.timeout.ms | long | 10000 | any | read-only | medium
    How long an outgoing connection may take to open.
socket.connection.setup.timeout.max.ms | long | 30000 | any | read-only | medium
    Accepted for Kafka's sake: the set-up time-out does not grow after failures here.
config.providers | list | "" | list | cluster-wide | low
    Names of providers that resolve variables ``${name:path:key}`` in this file; each needs its config.providers.<name>.class.
authorizer.class.name | string | "" | any | read-only | low
    The authorizer: empty (all requests are allowed) or Kafka's StandardAuthorizer.
early.start.listeners | list | null | list | read-only | high
    Accepted for Kafka's sake: no listener waits; before the metadata are known only super users may act.
broker.rack | string | null | any | read-only | medium
    The rack of this broker; replicas are spread over racks.
max.incremental.fetch.session.cache.slots | int | 1000 | 0.. | read-only | medium
    How many fetch sessions are kept (KIP-227).
fetch.max.bytes | int | 57671680 | 1024.. | read-only | medium
    The most bytes that one Fetch response has, whatever the client asks for.
max.request.partition.size.limit | int | 2000 | 1.. | read-only | medium
    How many partitions one DescribeTopicPartitions response has.
unstable.api.versions.enable | boolean | false | any | read-only | high internal
    Accepted for Kafka's sake: no unstable API version is offered.
unstable.feature.versions.enable | boolean | false | any | read-only | high internal
    Accepted for Kafka's sake: no unstable feature level is offered.
process.roles | list | required | nonempty list of broker/controller | read-only | high
    The roles of this process: broker, controller, or both.
node.id | int | required | 0.. | read-only | high
    The id of this process in the cluster; no other process has it.
controller.listener.names | list | required | nonempty list | read-only | high
    Names of the controllers' listeners; nodes connect to the first.
server.max.startup.time.ms | long | 9223372036854775807 | 0.. | read-only | medium internal
    Accepted for Kafka's sake: the time of a start is not bounded.
listeners | list | PLAINTEXT://:9092 | nonempty list | per-broker | high
    Where this process listens, as NAME://host:port entries.
advertised.listeners | list | null | nonempty list | read-only | high
    Where others reach this process, if that differs from listeners.
listener.security.protocol.map | string | SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT | any | per-broker | low
    The security protocol of each listener name.
socket.send.buffer.bytes | int | 102400 | any | read-only | high
    Send buffer of an accepted connection in bytes; the system's default if it is -1 or not set.
socket.receive.buffer.bytes | int | 102400 | any | read-only | high
    Receive buffer of an accepted connection in bytes; the system's default if it is -1 or not set.
socket.request.max.bytes | int | 104857600 | 1.. | read-only | high
    The largest request in bytes; a larger one closes its connection.
socket.listen.backlog.size | int | 50 | 1.. | read-only | medium
    Connections that may wait to be accepted on one listener.
max.connections.per.ip | int | 2147483647 | 0.. | cluster-wide | medium
    Connections that one address may have open.
max.connections.per.ip.overrides | string | "" | any | cluster-wide | medium
    Addresses or host names with another limit, as address:number entries.
max.connections | int | 2147483647 | 0.. | cluster-wide | medium
    Connections that may be open in all; the inter-broker and controller listeners have further ones of their own.
max.connection.creation.rate | int | 2147483647 | 0.. | cluster-wide | medium
    New connections that are accepted per second; further ones wait.
connections.max.idle.ms | long | 600000 | any | read-only | medium
    How long a connection may be idle before it is closed.
connection.failed.authentication.delay.ms | int | 100 | 0.. | read-only | low
    How long the answer to a failed authentication is delayed.
queued.max.requests | int | 500 | 1.. | read-only | high
    Accepted for Kafka's sake: requests are served as they are read; one connection has at most 64 in flight.
queued.max.request.bytes | long | -1 | any | read-only | medium
    Accepted for Kafka's sake: requests do not wait in a queue here.
num.network.threads | int | 3 | 1.. | cluster-wide | high
    Accepted for Kafka's sake: one thread serves all connections here.
controller.socket.timeout.ms | int | 30000 | any | read-only | medium
    Accepted for Kafka's sake: a broker's requests to the controller have their own time-outs.
testing.faults.file | string | "" | any | read-only | low
    For tests only: barnabas.testing writes it for nodes that it makes fail; other nodes refuse it (Barnabas).
"""  # noqa: E501
