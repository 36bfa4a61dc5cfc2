"""``barnabas features``: the levels of what the cluster can do, and moving them, as ``kafka-features`` does.

A level decides which records the metadata log has, so it goes up only where every node can follow, and
down only where nothing is lost by it. `--dry-run` has the controller judge without doing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import typer

from barnabas.cli.connection.connect import (
    USAGE,
    AsJson,
    Bootstrap,
    Data,
    answer,
    cluster,
    show,
    table_of,
)
from barnabas.cli.failure import Failure
from barnabas.cli.feature_options import RELEASE, WANTED, first_levels
from barnabas.cli.watching import watched
from barnabas.client.feature_levels import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    Feature,
    describe_features,
    update_features,
)
from barnabas.host.client import Connected
from barnabas.metadata.features import SERVED

app = typer.Typer(help="Levels of what the cluster can do.", no_args_is_help=True)

DryRun = typer.Option(False, "--dry-run", help="Only ask whether it could be done.")


class WantedLevels(NamedTuple):
    """Levels that are asked for: each of them, or those of a release where they are on the way there."""

    levels: dict[str, int]
    all_of_them: bool


class Moved(NamedTuple):
    """A feature as it was, and its new level."""

    before: Feature
    level: int


@app.command()
@watched
def describe(bootstrap: Bootstrap = None, data: Data = None, as_json: AsJson = False) -> None:
    """Every feature: the levels that the brokers support, and the one that is in force."""
    with cluster(bootstrap, data) as connected:
        described = connected.call(describe_features(connected.client))
    table = table_of(None, "feature", "level", "supported")
    for found in described.features.values():
        table.add_row(
            found.name,
            found.level_name(found.level),
            f"{found.level_name(found.lowest)} to {found.level_name(found.highest)}",
        )
    rows = [found._asdict() for found in described.features.values()]
    show(as_json, {"epoch": described.epoch, "features": rows}, table)


@app.command()
def upgrade(
    release: str | None = RELEASE,
    feature: list[str] = WANTED,
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Take features to higher levels, which every broker and controller must support. `--release` takes
    up what is lower there, but not kraft.version, which never goes back."""
    wanted = wanted_levels(release, feature)
    with cluster(bootstrap, data) as connected:
        moved = _move(connected, wanted, UPGRADE, dry_run)
    _show_moved(as_json, moved, dry_run)


@app.command()
def downgrade(
    release: str | None = RELEASE,
    feature: list[str] = WANTED,
    unsafe: bool = typer.Option(False, "--unsafe", help="Also where metadata may be lost."),
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Take features to lower levels; 0 switches one off."""
    wanted = wanted_levels(release, feature)
    kind = UNSAFE_DOWNGRADE if unsafe else SAFE_DOWNGRADE
    with cluster(bootstrap, data) as connected:
        moved = _move(connected, wanted, kind, dry_run)
    _show_moved(as_json, moved, dry_run)


def wanted_levels(release: str | None, wanted: list[str]) -> WantedLevels:
    """The levels of ``--release`` or ``--feature``. Raises `Failure`."""
    if (release is None) == (not wanted):
        raise Failure("say either --release or --feature", USAGE)
    return WantedLevels(first_levels(release, wanted), all_of_them=release is None)


def _move(connected: Connected, wanted: WantedLevels, kind: int, dry_run: bool) -> list[Moved]:
    known = connected.call(describe_features(connected.client)).features
    moved = changes(known, wanted.levels, up=kind == UPGRADE, all_of_them=wanted.all_of_them)
    if moved:
        connected.call(update_features(connected.client, moved, kind, validate_only=dry_run))
    return [Moved(known.get(name, Feature(name, 0, 0, 0)), level) for name, level in moved.items()]


def _show_moved(as_json: bool, moved: list[Moved], dry_run: bool) -> None:
    verb = "would go" if dry_run else "went"
    rows = [{"name": found.name, "before": found.level, "after": level} for found, level in moved]
    sentences = [
        f"{found.name} {verb} from {found.level_name(found.level)} to {found.level_name(level)}"
        for found, level in moved
    ]
    nothing = ["nothing to do: the levels are these already"]
    answer(as_json, {"dry_run": dry_run, "features": rows}, *(sentences or nothing))


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
