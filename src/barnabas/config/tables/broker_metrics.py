"""Metrics, telemetry and quota windows.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
metrics.num.samples | int | 2 | 1.. | read-only | low
    Accepted for Kafka's sake: metrics have windows of their own here.
metrics.sample.window.ms | long | 30000 | 1.. | read-only | low
    Accepted for Kafka's sake: metrics have windows of their own here.
metric.reporters | list | org.apache.kafka.common.metrics.JmxReporter | list | cluster-wide | low
    Accepted for Kafka's sake: plug-ins that metrics are given to; none are supported.
metrics.recording.level | string | INFO | any | read-only | low
    Accepted for Kafka's sake: all metrics are kept.
kafka.metrics.reporters | list | "" | list | read-only | low
    Accepted for Kafka's sake: older plug-ins for metrics; none are supported.
kafka.metrics.polling.interval.secs | int | 10 | 1.. | read-only | low
    Accepted for Kafka's sake: there are no older plug-ins for metrics.
metrics.listeners | list | "" | list | read-only | medium
    Addresses that serve /metrics and /health: http://host:port or https://host:port (Barnabas).
metrics.bearer.token | password | null | any | read-only | medium
    What a request to metrics.listeners must show as its bearer token (Barnabas).
otel.endpoint | string | "" | any | read-only | medium
    The OpenTelemetry receiver that gets metrics and traces, http://host:port for OTLP over HTTP (Barnabas).
otel.metrics.interval.ms | long | 60000 | 1000.. | read-only | low
    The time between two exports of metrics to otel.endpoint (Barnabas).
otel.traces.sample.ratio | double | 0.0 | 0..1 | read-only | medium
    The share of Produce requests whose records are searched for a trace; 0 traces nothing (Barnabas).
telemetry.max.bytes | int | 1048576 | 1.. | read-only | low
    The largest push of a client's metrics, before and after decompression (KIP-714).
quota.window.num | int | 11 | 1.. | read-only | low
    Accepted for Kafka's sake: unused quota is kept for one window, so that a rate is exact over seconds.
replication.quota.window.num | int | 11 | 1.. | read-only | low
    Accepted for Kafka's sake: a throttle's window is one second here.
alter.log.dirs.replication.quota.window.num | int | 11 | 1.. | read-only | low
    Accepted for Kafka's sake: a throttle's window is one second here.
controller.quota.window.num | int | 11 | 1.. | read-only | low
    For how many windows an unused quota of controller mutations is kept.
quota.window.size.seconds | int | 1 | 1.. | read-only | low
    For how long an unused client quota (bytes, request time) is kept.
replication.quota.window.size.seconds | int | 1 | 1.. | read-only | low
    Accepted for Kafka's sake: a throttle's window is one second here.
alter.log.dirs.replication.quota.window.size.seconds | int | 1 | 1.. | read-only | low
    Accepted for Kafka's sake: a throttle's window is one second here.
controller.quota.window.size.seconds | int | 1 | 1.. | read-only | low
    The size of such a window.
client.quota.callback.class | class | null | any | read-only | low
    Plug-in that decides client quotas; none are supported.
"""
