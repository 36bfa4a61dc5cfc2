"""All checks in turn, the worst findings first."""

from __future__ import annotations

from collections.abc import Collection

from barnabas.cli.doctor import cluster_checks, data_checks
from barnabas.cli.doctor.facts import ClusterFacts
from barnabas.cli.doctor.findings import ClusterFinding, Severity

CHECKS = (
    data_checks.check_partitions,
    cluster_checks.check_brokers,
    cluster_checks.check_quorum,
    cluster_checks.check_disks,
    data_checks.check_transactions,
    cluster_checks.check_certificates,
    data_checks.check_groups,
    data_checks.check_moves,
    data_checks.check_balance,
    data_checks.check_risks,
    cluster_checks.check_features,
    cluster_checks.check_clocks,
)


def examine(facts: ClusterFacts, ignored: Collection[str] = ()) -> list[ClusterFinding]:
    """The findings, without those of `ignored` checks."""
    found = [finding for check in CHECKS for finding in check(facts) if finding.code not in ignored]
    for what, why in facts.unknown.items():
        if "not-looked-at" not in ignored:
            found.append(
                ClusterFinding(
                    "not-looked-at",
                    Severity.NOTICE,
                    f"The doctor could not look at {what}",
                    f"{why}.",
                    "ask as a user who may describe the cluster",
                    "commands",
                )
            )
    return sorted(found, key=lambda finding: -finding.severity)
