"""``barnabas doctor``: one page that says what is wrong with a cluster, why that matters, and what to do.

It asks brokers by Kafka's protocol alone, so that it examines Apache Kafka's clusters as well. It changes
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import typer

from barnabas.cli.connection.connect import AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.doctor.examination import examine
from barnabas.cli.doctor.facts import gather_facts
from barnabas.cli.doctor.findings import ClusterFinding, Severity, worst
from barnabas.cli.plain_text import counted, on_one_line, say
from barnabas.cli.watching import watched


@watched
def command(
    sample: float = typer.Option(
        5.0, "--sample", min=0.0, metavar="SECONDS", help="Between the two looks at groups."
    ),
    ignore: list[str] = typer.Option(
        [], "--ignore", "-i", metavar="CODE", help="Leave out a kind of finding; may be repeated."
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Examine a cluster: what is wrong, why that matters, and the command that mends it. Ends with 0 where
    there are notices at most, with 10 after a warning, with 20 after something critical."""
    with cluster(bootstrap, data) as connected:
        facts = gather_facts(connected, sample)
    findings = examine(facts, ignore)
    if as_json:
        whole = {
            "cluster_id": facts.cluster_id,
            "worst": worst(findings).name.lower() if findings else None,
            "findings": [finding.as_dict() for finding in findings],
        }
        show(True, whole, table_of(None))
    else:
        _show(facts.cluster_id, len(facts.brokers), findings)
    if status := worst(findings).exit_status:
        raise typer.Exit(status)


def _show(cluster_id: str, brokers: int, findings: Sequence[ClusterFinding]) -> None:
    counts = Counter(finding.severity for finding in findings)
    found = ", ".join(
        f"{counts[severity]} {severity.name.lower()}"
        for severity in sorted(Severity, reverse=True)
        if counts[severity]
    )
    say(f"cluster {cluster_id}, {counted(brokers, 'broker')}: {found or 'nothing is wrong'}")
    for finding in findings:
        say("")
        say(on_one_line(f"{finding.severity.name:8}  {finding.what}  [{finding.code}]"))
        say(on_one_line(f"     why  {finding.why}"))
        say(on_one_line(f"      do  {finding.command}"))
        say(on_one_line(f"     see  {finding.link}"))
