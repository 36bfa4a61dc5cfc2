"""The process: roles, listeners, sockets, threads, requests.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
broker.id | int | -1 | any | read-only | high
    Older name of node.id; must equal it where both are given.
num.io.threads | int | 8 | 1.. | cluster-wide | high
    Accepted for Kafka's sake: one thread serves all requests here.
background.threads | int | 10 | 1.. | cluster-wide | high
    Accepted for Kafka's sake: the number of background threads is fixed here.
request.timeout.ms | int | 30000 | any | read-only | high
    How long a request that waits for others is held before it fails.
socket.connection.setup.timeout.ms | long | 10000 | any | read-only | medium
    How long an outgoing connection may take to be made.
socket.connection.setup.timeout.max.ms | long | 30000 | any | read-only | medium
    Accepted for Kafka's sake: the set-up time-out does not grow after failures here.
config.providers | list | "" | list | cluster-wide | low
    Names of providers that answer variables ``${name:path:key}`` in this file; each needs its config.providers.<name>.class.
authorizer.class.name | string | "" | any | read-only | low
    What decides who may do what: empty (everybody may do everything) or Kafka's StandardAuthorizer.
early.start.listeners | list | null | list | read-only | high
    Accepted for Kafka's sake: no listener waits; before the metadata are known only super users may act.
broker.rack | string | null | any | read-only | medium
    The rack of this broker; replicas are spread over racks.
max.incremental.fetch.session.cache.slots | int | 1000 | 0.. | read-only | medium
    How many fetch sessions are kept (KIP-227).
fetch.max.bytes | int | 57671680 | 1024.. | read-only | medium
    The most that one fetch returns, whatever the client asks for.
max.request.partition.size.limit | int | 2000 | 1.. | read-only | medium
    How many partitions one DescribeTopicPartitions answers about.
unstable.api.versions.enable | boolean | false | any | read-only | high internal
    Accepted for Kafka's sake: no API version is offered that is still being made.
unstable.feature.versions.enable | boolean | false | any | read-only | high internal
    Accepted for Kafka's sake: no feature level is offered that is still being made.
process.roles | list | required | nonempty list of broker/controller | read-only | high
    What this process is: a broker, a controller, or both.
node.id | int | required | 0.. | read-only | high
    The id of this process in the cluster; no other process has it.
controller.listener.names | list | required | nonempty list | read-only | high
    Names of the listeners on which controllers serve; the first is used to reach them.
server.max.startup.time.ms | long | 9223372036854775807 | 0.. | read-only | medium internal
    Accepted for Kafka's sake: a start is given all the time that it takes.
listeners | list | PLAINTEXT://:9092 | nonempty list | per-broker | high
    Where this process listens, as NAME://host:port entries.
advertised.listeners | list | null | nonempty list | read-only | high
    Where others reach this process, if that differs from listeners.
listener.security.protocol.map | string | SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT | any | per-broker | low
    Which security protocol each listener name speaks.
socket.send.buffer.bytes | int | 102400 | any | read-only | high
    Size of an accepted connection's send buffer; -1, or where it is not set, leaves it to the system.
socket.receive.buffer.bytes | int | 102400 | any | read-only | high
    Size of an accepted connection's receive buffer; -1, or where it is not set, leaves it to the system.
socket.request.max.bytes | int | 104857600 | 1.. | read-only | high
    The largest request that is read; a larger one ends its connection.
socket.listen.backlog.size | int | 50 | 1.. | read-only | medium
    Connections that may wait to be accepted on one listener.
max.connections.per.ip | int | 2147483647 | 0.. | cluster-wide | medium
    Connections that one address may have open.
max.connections.per.ip.overrides | string | "" | any | cluster-wide | medium
    Addresses or hosts with a limit of their own, as address:number entries.
max.connections | int | 2147483647 | 0.. | cluster-wide | medium
    Connections that all clients together may have open; nodes have room beyond it on listeners of their own.
max.connection.creation.rate | int | 2147483647 | 0.. | cluster-wide | medium
    New connections of clients that are accepted per second; others wait.
connections.max.idle.ms | long | 600000 | any | read-only | medium
    How long a connection may be silent before it is closed.
connection.failed.authentication.delay.ms | int | 100 | 0.. | read-only | low
    Accepted for Kafka's sake: there is no authentication yet.
queued.max.requests | int | 500 | 1.. | read-only | high
    Accepted for Kafka's sake: requests are served as they are read; one connection has 64 under way at most.
queued.max.request.bytes | long | -1 | any | read-only | medium
    Accepted for Kafka's sake: requests do not wait in a queue here.
num.network.threads | int | 3 | 1.. | cluster-wide | high
    Accepted for Kafka's sake: one thread serves all connections here.
controller.socket.timeout.ms | int | 30000 | any | read-only | medium
    Accepted for Kafka's sake: what a broker asks the controller has time-outs of its own.
"""  # noqa: E501
