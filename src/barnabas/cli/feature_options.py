"""The options that name feature levels, and what their texts mean: a whole release, or one feature each."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from barnabas.cli.failure import Failure
from barnabas.metadata.features import (
    FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    default_level,
    metadata_version_from_name,
)

USAGE = 2
"""`connection.connect.USAGE`, which would load a client."""

RELEASE = typer.Option(
    None, "--release", "-r", metavar="4.4", help="All features as that release has them."
)
WANTED = typer.Option(
    [], "--feature", "-f", metavar="NAME=LEVEL", help="One feature's level; may be repeated."
)


def levels_of_release(text: str) -> dict[str, int]:
    """The level of every feature in a release, by its name or that of its metadata.version. Raises
    `Failure`."""
    try:
        version = metadata_version_from_name(text)
    except ValueError as error:
        raise Failure(str(error), USAGE) from error
    names = [METADATA_VERSION, *(name for name in FEATURES if name != KRAFT_VERSION)]
    return {name: default_level(name, version) for name in names}


def level_of(text: str) -> tuple[str, int]:
    """(name, level) of ``group.version=1`` or ``metadata.version=4.2-IV1``. Raises `Failure`."""
    name, equals, level = text.partition("=")
    if name and equals and level.isdigit():
        return name, int(level)
    if name == METADATA_VERSION and equals:
        return name, levels_of_release(level)[METADATA_VERSION]
    raise Failure(f"a feature is given as group.version=1, not {text!r}", USAGE)


def first_levels(release: str | None, wanted: Iterable[str]) -> dict[str, int]:
    """The levels with which a new cluster begins: those of `release`, and over them those that are `wanted`
    one by one. Raises `Failure`."""
    given = {} if release is None else levels_of_release(release)
    given.update(level_of(text) for text in wanted)
    return given
