"""Metrics, telemetry and quota windows.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
metrics.num.samples | int | 2 | 1.. | read-only | low
    -
metrics.sample.window.ms | long | 30000 | 1.. | read-only | low
    -
metric.reporters | list | org.apache.kafka.common.metrics.JmxReporter | list | cluster-wide | low
    -
metrics.recording.level | string | INFO | any | read-only | low
    -
kafka.metrics.reporters | list | "" | list | read-only | low
    -
kafka.metrics.polling.interval.secs | int | 10 | 1.. | read-only | low
    -
telemetry.max.bytes | int | 1048576 | 1.. | read-only | low
    -
quota.window.num | int | 11 | 1.. | read-only | low
    -
replication.quota.window.num | int | 11 | 1.. | read-only | low
    -
alter.log.dirs.replication.quota.window.num | int | 11 | 1.. | read-only | low
    -
controller.quota.window.num | int | 11 | 1.. | read-only | low
    -
quota.window.size.seconds | int | 1 | 1.. | read-only | low
    -
replication.quota.window.size.seconds | int | 1 | 1.. | read-only | low
    -
alter.log.dirs.replication.quota.window.size.seconds | int | 1 | 1.. | read-only | low
    -
controller.quota.window.size.seconds | int | 1 | 1.. | read-only | low
    -
client.quota.callback.class | class | null | any | read-only | low
    -
"""
