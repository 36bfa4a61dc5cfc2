"""``barnabas features``: the levels of what the cluster can do, and moving them, as ``kafka-features`` does.

A level decides which records the metadata log has, so it goes up only where every node can follow, and
down only where nothing is lost by it. `--dry-run` has the controller judge without doing it.
"""

from __future__ import annotations

from collections.abc import Mapping

import typer

from barnabas.cli.connection.connect import USAGE, AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.feature_options import RELEASE, WANTED, first_levels
from barnabas.cli.plain_text import say
from barnabas.cli.watching import watched
from barnabas.client.feature_levels import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    Feature,
    describe_features,
    update_features,
)
from barnabas.metadata.features import SERVED

app = typer.Typer(help="Levels of what the cluster can do.", no_args_is_help=True)

DryRun = typer.Option(False, "--dry-run", help="Only ask whether it could be done.")


@app.command()
@watched
def describe(bootstrap: Bootstrap = None, data: Data = None, as_json: AsJson = False) -> None:
    """Every feature: the levels that the brokers support, and the one that is in force."""
    with cluster(bootstrap, data) as connected:
        answer = connected.call(describe_features(connected.client))
    table = table_of(None, "feature", "level", "supported")
    for found in answer.features.values():
        table.add_row(
            found.name,
            found.level_name(found.level),
            f"{found.level_name(found.lowest)} to {found.level_name(found.highest)}",
        )
    rows = [found._asdict() for found in answer.features.values()]
    show(as_json, {"epoch": answer.epoch, "features": rows}, table)


@app.command()
def upgrade(
    release: str | None = RELEASE,
    feature: list[str] = WANTED,
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
) -> None:
    """Take features to higher levels, which every broker and controller must support. `--release` takes
    up what is lower there, but not kraft.version, which never goes back."""
    _move(release, feature, UPGRADE, dry_run, bootstrap, data)


@app.command()
def downgrade(
    release: str | None = RELEASE,
    feature: list[str] = WANTED,
    unsafe: bool = typer.Option(False, "--unsafe", help="Also where metadata may be lost."),
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
) -> None:
    """Take features to lower levels; 0 switches one off."""
    kind = UNSAFE_DOWNGRADE if unsafe else SAFE_DOWNGRADE
    _move(release, feature, kind, dry_run, bootstrap, data)


def _move(
    release: str | None,
    wanted: list[str],
    kind: int,
    dry_run: bool,
    bootstrap: str | None,
    data: Data,
) -> None:
    if (release is None) == (not wanted):
        raise Failure("say either --release or --feature", USAGE)
    given = first_levels(release, wanted)
    with cluster(bootstrap, data) as connected:
        known = connected.call(describe_features(connected.client)).features
        moved = changes(known, given, up=kind == UPGRADE, all_of_them=release is None)
        if moved:
            connected.call(update_features(connected.client, moved, kind, validate_only=dry_run))
    if not moved:
        say("nothing to do: the levels are these already")
    for name, level in moved.items():
        found = known.get(name, Feature(name, 0, 0, 0))
        verb = "would go" if dry_run else "went"
        before, after = found.level_name(found.level), found.level_name(level)
        say(f"{name} {verb} from {before} to {after}")


def changes(
    known: Mapping[str, Feature], given: Mapping[str, int], *, up: bool, all_of_them: bool
) -> dict[str, int]:
    """Which of the levels `given` are to be asked for. A release is asked for where its levels are higher
    (`up`) or lower than those in force, but not up to what is not served; what was named one by one
    (`all_of_them`) goes there or is refused."""

    def is_wanted(name: str, level: int) -> bool:
        present = known[name].level if name in known else 0
        if level == present:
            return False
        return all_of_them or (level > present) is up

    wanted = dict(given)
    if up and not all_of_them:
        wanted = {name: min(level, SERVED.get(name, level)) for name, level in given.items()}
    return {name: level for name, level in wanted.items() if is_wanted(name, level)}
