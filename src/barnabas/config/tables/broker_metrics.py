"""Metrics, telemetry and quota windows.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
metrics.num.samples | int | 2 | 1.. | read-only | low
    Samples that a metric keeps.
metrics.sample.window.ms | long | 30000 | 1.. | read-only | low
    How long one sample of a metric is.
metric.reporters | list | org.apache.kafka.common.metrics.JmxReporter | list | cluster-wide | low
    Plug-ins that metrics are given to; none are supported.
metrics.recording.level | string | INFO | any | read-only | low
    How detailed metrics are.
kafka.metrics.reporters | list | "" | list | read-only | low
    Older plug-ins for metrics; none are supported.
kafka.metrics.polling.interval.secs | int | 10 | 1.. | read-only | low
    How often older metrics plug-ins are called.
telemetry.max.bytes | int | 1048576 | 1.. | read-only | low
    The largest push of a client's metrics (KIP-714).
quota.window.num | int | 11 | 1.. | read-only | low
    Windows over which client quotas are measured.
replication.quota.window.num | int | 11 | 1.. | read-only | low
    Windows over which replication throttles are measured.
alter.log.dirs.replication.quota.window.num | int | 11 | 1.. | read-only | low
    Windows over which moves between directories are measured.
controller.quota.window.num | int | 11 | 1.. | read-only | low
    Windows over which the rate of changes is measured.
quota.window.size.seconds | int | 1 | 1.. | read-only | low
    How long one window of a client quota is.
replication.quota.window.size.seconds | int | 1 | 1.. | read-only | low
    How long one window of a replication throttle is.
alter.log.dirs.replication.quota.window.size.seconds | int | 1 | 1.. | read-only | low
    How long one window of a move between directories is.
controller.quota.window.size.seconds | int | 1 | 1.. | read-only | low
    How long one window of the rate of changes is.
client.quota.callback.class | class | null | any | read-only | low
    Plug-in that decides client quotas; none are supported.
"""
