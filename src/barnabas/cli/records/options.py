"""Options of ``barnabas consume``."""

from __future__ import annotations

from typing import Annotated

import typer

from barnabas.cli.records.record_lines import FORMATS

Include = Annotated[
    str | None,
    typer.Option("--include", help="All topics whose whole name this regular expression matches."),
]
FromTime = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="TIME", help="Begin at 2026-11-01T00:00 (UTC), -10m or @MILLISECONDS."
    ),
]
ToTime = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="End before the first record of this time or later."),
]
Partitions = Annotated[
    list[str],
    typer.Option("--partition", "--partitions", "-p", metavar="0,3-5", help="Only these."),
]
Offset = Annotated[
    str | None,
    typer.Option(
        "--offset",
        "-o",
        metavar="OFFSET",
        help="Begin here: N, -N (from the end), beginning or end.",
    ),
]
ToOffset = Annotated[
    int | None,
    typer.Option("--to-offset", min=0, help="End before this offset of each partition."),
]
Share = Annotated[
    str | None,
    typer.Option(
        "--share",
        metavar="GROUP",
        help="Take records of this share group, and acknowledge each that was printed.",
    ),
]
OnError = Annotated[
    str,
    typer.Option(
        "--on-error",
        metavar="release|reject",
        help="With --share: what becomes of a record whose value cannot be decoded.",
    ),
]
MaxRecords = Annotated[int | None, typer.Option("--max-records", "-n", min=1)]
Timeout = Annotated[
    float | None, typer.Option("--timeout", help="End when nothing came for so many seconds.")
]
FilterKey = Annotated[
    str, typer.Option("--filter-key", help="Only records whose key contains this.")
]
FilterHeader = Annotated[
    str,
    typer.Option(
        "--filter-header", metavar="NAME[=VALUE]", help="Only records that have this header."
    ),
]
FilterPath = Annotated[
    str,
    typer.Option(
        "--filter-path", metavar="A.B[0][=VALUE]", help="Only records whose JSON value has this."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-F",
        help=f"{', '.join(FORMATS)}, or kcat's tokens: '%t %p %o %T %k %s %K %S %R %h\\n'.",
    ),
]
ShowKeys = Annotated[bool, typer.Option("--keys", "-k", help="Key, tab, value.")]
Null = Annotated[
    str | None, typer.Option("--null", help="Print this for keys and values that are null.")
]
Raw = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Bytes as they are; a terminal gets control characters as escapes otherwise.",
    ),
]
Registry = Annotated[
    str | None,
    typer.Option(
        "--schema-registry",
        metavar="URL",
        help="Print values in Avro, Protobuf and JSON Schema as JSON by this registry, else by"
        " schema.registry.url of the profile or of --command-config ('' is none); the user is"
        " basic.auth.user.info there.",
    ),
]
