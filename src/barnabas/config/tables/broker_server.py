"""The process: roles, listeners, sockets, threads, requests.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
broker.id | int | -1 | any | read-only | high
    -
num.io.threads | int | 8 | 1.. | cluster-wide | high
    -
background.threads | int | 10 | 1.. | cluster-wide | high
    -
request.timeout.ms | int | 30000 | any | read-only | high
    -
socket.connection.setup.timeout.ms | long | 10000 | any | read-only | medium
    -
socket.connection.setup.timeout.max.ms | long | 30000 | any | read-only | medium
    -
config.providers | list | "" | list | cluster-wide | low
    -
authorizer.class.name | string | "" | any | read-only | low
    -
early.start.listeners | list | null | list | read-only | high
    -
broker.rack | string | null | any | read-only | medium
    -
max.incremental.fetch.session.cache.slots | int | 1000 | 0.. | read-only | medium
    -
fetch.max.bytes | int | 57671680 | 1024.. | read-only | medium
    -
max.request.partition.size.limit | int | 2000 | 1.. | read-only | medium
    -
unstable.api.versions.enable | boolean | false | any | read-only | high internal
    -
unstable.feature.versions.enable | boolean | false | any | read-only | high internal
    -
process.roles | list | required | nonempty list of broker/controller | read-only | high
    -
node.id | int | required | 0.. | read-only | high
    -
controller.listener.names | list | required | nonempty list | read-only | high
    -
server.max.startup.time.ms | long | 9223372036854775807 | 0.. | read-only | medium internal
    -
listeners | list | PLAINTEXT://:9092 | nonempty list | per-broker | high
    -
advertised.listeners | list | null | nonempty list | read-only | high
    -
listener.security.protocol.map | string | SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT | any | per-broker | low
    -
socket.send.buffer.bytes | int | 102400 | any | read-only | high
    -
socket.receive.buffer.bytes | int | 102400 | any | read-only | high
    -
socket.request.max.bytes | int | 104857600 | 1.. | read-only | high
    -
socket.listen.backlog.size | int | 50 | 1.. | read-only | medium
    -
max.connections.per.ip | int | 2147483647 | 0.. | cluster-wide | medium
    -
max.connections.per.ip.overrides | string | "" | any | cluster-wide | medium
    -
max.connections | int | 2147483647 | 0.. | cluster-wide | medium
    -
max.connection.creation.rate | int | 2147483647 | 0.. | cluster-wide | medium
    -
connections.max.idle.ms | long | 600000 | any | read-only | medium
    -
connection.failed.authentication.delay.ms | int | 100 | 0.. | read-only | low
    -
queued.max.requests | int | 500 | 1.. | read-only | high
    -
queued.max.request.bytes | long | -1 | any | read-only | medium
    -
num.network.threads | int | 3 | 1.. | cluster-wide | high
    -
controller.socket.timeout.ms | int | 30000 | any | read-only | medium
    -
"""  # noqa: E501
