"""``barnabas quorum make-dynamic``: from voters that the configuration names to voters in the log (KIP-853).

Raises the feature ``kraft.version`` to 1 at the active controller, as ``kafka-features upgrade`` does.
"""

from __future__ import annotations

import typer

from barnabas.cli.confirming import Yes, confirm
from barnabas.cli.connection.connect import AsJson, Bootstrap, Data, answer
from barnabas.cli.connection.quorum_client import Controllers, quorum_client
from barnabas.cli.plain_text import say
from barnabas.cli.reports.quorum_view import view_of
from barnabas.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE = 1
"""Upgrade type: never to a lower level."""
TIMEOUT_MS = 60_000


def make_dynamic(
    bootstrap: Bootstrap = None,
    controllers: Controllers = None,
    data: Data = None,
    yes: bool = Yes,
    dry_run: bool = typer.Option(False, "--dry-run", help="Only say whether it would be done."),
    as_json: AsJson = False,
) -> None:
    """Write the voters of a static quorum into its log, so that they can be changed while it runs."""
    with quorum_client(bootstrap, controllers, data) as client:
        quorum = client.describe()
        view = view_of(quorum, client.cluster_id)
        found = {
            "dry_run": dry_run,
            "changed": view.is_static and not dry_run,
            "voters": [voter.as_voter() for voter in view.voters],
        }
        if not as_json:
            for voter in view.voters:
                say(f"  voter {voter.identity}")
        if not view.is_static:
            answer(as_json, found, "the voters are in the log already")
            return
        if not dry_run:
            confirm("Write the voters into the log?", yes)
        update = FeatureUpdateKey(
            feature="kraft.version", max_version_level=1, upgrade_type=UPGRADE
        )
        request = UpdateFeaturesRequest(
            timeout_ms=TIMEOUT_MS, feature_updates=[update], validate_only=dry_run
        )
        client.ask_leader(quorum, request, TIMEOUT_MS)
        if dry_run:
            answer(as_json, found, "every voter supports it: it would be done")
            return
    servers = ",".join(v.endpoints[0].partition("://")[2] for v in view.voters if v.endpoints)
    answer(
        as_json,
        {**found, "bootstrap_servers": servers},
        "the voters are in the log now; it cannot be taken back",
        "in every node's file put this in the place of controller.quorum.voters:"
        f" controller.quorum.bootstrap.servers={servers}",
    )
