"""The metadata quorum, its log and the active controller.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
controller.performance.sample.period.ms | long | 60000 | 100.. | read-only | medium internal
    -
controller.performance.always.log.threshold.ms | long | 2000 | 0.. | read-only | medium internal
    -
metadata.log.max.record.bytes.between.snapshots | long | 20971520 | 1.. | read-only | high
    -
metadata.log.max.snapshot.interval.ms | long | 3600000 | 0.. | read-only | high
    -
metadata.log.dir | string | null | any | read-only | high
    -
metadata.log.segment.bytes | int | 1073741824 | 8388608.. | read-only | high
    -
metadata.log.segment.ms | long | 604800000 | any | read-only | high
    -
metadata.max.retention.bytes | long | 104857600 | any | read-only | high
    -
metadata.max.retention.ms | long | 604800000 | any | read-only | high
    -
metadata.max.idle.interval.ms | int | 500 | 0.. | read-only | low
    -
internal.metadata.log.segment.bytes | int | null | any | read-only | low internal
    -
internal.metadata.max.batch.size.in.bytes | int | 8388608 | any | read-only | low internal
    -
internal.metadata.delete.delay.millis | long | 60000 | any | read-only | low internal
    -
unclean.leader.election.interval.ms | long | 300000 | 1.. | read-only | medium internal
    -
controller.quorum.voters | list | "" | list | read-only | high
    -
controller.quorum.bootstrap.servers | list | "" | list | read-only | high
    -
controller.quorum.election.timeout.ms | int | 1000 | 0.. | read-only | high
    -
controller.quorum.fetch.timeout.ms | int | 2000 | 0.. | read-only | high
    -
controller.quorum.election.backoff.max.ms | int | 1000 | 0.. | read-only | high
    -
controller.quorum.append.linger.ms | int | 25 | 0.. | read-only | medium
    -
controller.quorum.request.timeout.ms | int | 2000 | 0.. | read-only | medium
    -
controller.quorum.retry.backoff.ms | int | 20 | 0.. | read-only | low
    -
controller.quorum.auto.join.enable | boolean | false | any | read-only | low
    -
controller.quorum.fetch.snapshot.max.bytes | int | 1048576 | 1.. | read-only | low
    -
controller.quorum.fetch.max.bytes | int | 1048576 | 1.. | read-only | low
    -
"""
