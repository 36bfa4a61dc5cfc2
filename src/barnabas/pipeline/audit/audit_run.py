"""An audit as a job: planned on the driver, a task of Spark's for each replica, compared on the driver.

Owns the report: what was read and what was found, as lines and as a JSON file. Batches come to the driver as
16 bytes each; the records stay where they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.audit.comparison import differences
from barnabas.pipeline.audit.live_replicas import LiveReplica, check_live, plan
from barnabas.pipeline.audit.log_files import check_folder, partitions_in
from barnabas.pipeline.audit.replica_check import Finding, ReplicaReport
from barnabas.pipeline.audit.subject import Audit
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.interpreter import for_session
from barnabas.pipeline.options import ClusterOptions, source_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES_MAX = 50


class AuditError(PipelineError):
    """Something was found."""


@dataclass(frozen=True, slots=True)
class FolderReplica:
    """A replica in a folder of a stopped node."""

    folder: str
    topic: str
    partition: int


Replica = FolderReplica | LiveReplica


def check_replica(cluster: ClusterOptions | None, replica: Replica) -> ReplicaReport:
    """A task's work."""
    if isinstance(replica, FolderReplica):
        return check_folder(replica.folder, replica.topic, replica.partition)
    assert cluster is not None
    return check_live(cluster, replica)


def planned(audit: Audit, source: Mapping[str, str]) -> tuple[ClusterOptions | None, list[Replica]]:
    """The replicas to read, by the options of `source` where the audit names no folders. Raises
    `PipelineError`."""
    if audit.folders:
        found: list[Replica] = []
        for folder in audit.folders:
            try:
                found += [FolderReplica(folder, *partition) for partition in partitions_in(folder)]
            except OSError as error:
                raise PipelineError(f"folder {folder} cannot be read: {error}") from error
        return None, found
    options = source_options(source, streaming=True)
    return options.cluster, [*plan(options.cluster, options.subscription, replicas=audit.replicas)]


def run_audit(
    name: str,
    audit: Audit,
    source: Mapping[str, str],
    spark: SparkSession,
    tell: Callable[[Finding], None],
) -> tuple[int, int]:
    """Replicas and records that were read. Raises `AuditError` where something was found."""
    cluster, replicas = planned(audit, source)
    if not replicas:
        raise PipelineError(f"audit {name}: there is no partition to read")
    reports = _on_spark(spark, cluster, replicas)
    by_partition: dict[tuple[str, int], list[ReplicaReport]] = {}
    for report in reports:
        by_partition.setdefault((report.topic, report.partition), []).append(report)
    findings: list[Finding] = []
    for _, copies in sorted(by_partition.items()):
        findings += [one for copy in copies for one in copy.findings]
        findings += differences(copies)
    if audit.report:
        _write(audit.report, report_of(name, by_partition, findings))
    records = sum(report.records for report in reports)
    for finding in findings[:LINES_MAX]:
        tell(finding)
    if findings:
        shown = f", {LINES_MAX} of them shown" if len(findings) > LINES_MAX else ""
        raise AuditError(
            f"audit {name}: {len(findings)} findings in {len(reports)} replicas{shown}"
        )
    return len(reports), records


def _on_spark(
    spark: SparkSession, cluster: ClusterOptions | None, replicas: list[Replica]
) -> list[ReplicaReport]:
    context = spark.sparkContext
    before = context.pythonExec
    context.pythonExec = for_session(context)
    try:
        tasks = context.parallelize(replicas, len(replicas))
        found: list[ReplicaReport] = tasks.map(
            lambda replica: check_replica(cluster, replica)
        ).collect()
        return found
    finally:
        context.pythonExec = before


def report_of(
    name: str,
    by_partition: dict[tuple[str, int], list[ReplicaReport]],
    findings: list[Finding],
) -> dict[str, Any]:
    """The JSON file."""
    return {
        "audit": name,
        "findings": [finding.describe() for finding in findings],
        "replicas": [
            {
                "topic": copy.topic,
                "partition": copy.partition,
                "replica": copy.replica,
                "start": copy.start,
                "end": copy.end,
                "records": copy.records,
                "bytes": copy.size,
                "compared": not copy.compacted and len(copies) > 1,
            }
            for _, copies in sorted(by_partition.items())
            for copy in copies
        ],
    }


def _write(path: str, report: dict[str, Any]) -> None:
    half = f"{path}.half"
    try:
        Path(half).write_text(json.dumps(report, indent=1), encoding="utf-8")
        os.replace(half, path)
    except OSError as error:
        raise PipelineError(f"the report cannot be written: {error}") from error
