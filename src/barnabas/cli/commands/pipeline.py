"""``barnabas pipeline``: jobs from a file (:mod:`pipeline_jobs`), what is kept beside a Spark query's
checkpoint, and the ways out where it is stuck.

``ledger show`` reads. ``ledger skip`` and ``ledger forget`` change what a query takes for written; they
cannot be taken back, so they ask, or want ``--yes`` where standard input is no terminal. Stop the query
before: a driver that publishes does not look again.

A query that commits in transactions keeps its token in the cluster (``--bootstrap-server``); one that writes
by a manifest has a ledger beside its checkpoint (``--staging``).

Needs the extra ``[spark]``; the modules that need it are loaded by the command, not by the help.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from barnabas.cli.commands import pipeline_jobs
from barnabas.cli.connection.connect import (
    USAGE,
    AsJson,
    Bootstrap,
    answer,
    command_config,
    find_bootstrap,
    show,
    table_of,
)
from barnabas.cli.connection.password_prompt import with_password
from barnabas.cli.failure import Failure
from barnabas.client.network.connection import ChannelError
from barnabas.wire.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.pipeline.options import SinkOptions
    from barnabas.pipeline.write.commit_log import CommitLog
    from barnabas.pipeline.write.token_ledger import TokenLedger

T = TypeVar("T")
TIMEOUT_MS = 20_000

app = typer.Typer(
    help="Jobs on Spark, and what is kept beside their queries.", no_args_is_help=True
)
ledger_app = typer.Typer(
    help="What queries have written: `show` it, `skip` a batch, `forget` batches.",
    no_args_is_help=True,
)
app.add_typer(ledger_app, name="ledger")
pipeline_jobs.register(app)

Staging = Annotated[
    str | None,
    typer.Option(
        "--staging",
        "-s",
        metavar="PATH|URI",
        help="The stagingLocation of a query that writes by a manifest: checkpointLocation/barnabas where"
        " it has none.",
    ),
]
Application = Annotated[
    str,
    typer.Argument(
        help="The query id, or txnAppId where the query has one; with --bootstrap-server its"
        " transactional id: `barnabas-` and that, or kafka.transactional.id."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@ledger_app.command("show")
def show_ledger(
    staging: Staging = None,
    bootstrap: Bootstrap = None,
    application: Annotated[str | None, typer.Argument(help="One application only.")] = None,
    as_json: AsJson = False,
) -> None:
    """The last batch that each application has published, batches that were begun since, and transactions of
    tasks that are open: while the query is away, until it is started again or forgotten."""
    names = [application] if application else _applications(staging, bootstrap)
    found = [_described(_ledger(staging, bootstrap, name)) for name in names]
    if (
        application
        and not found[0]["is_there"]
        and not found[0]["begun"]
        and not found[0].get("open")
    ):
        where = f"below {staging}" if staging else "in the cluster"
        raise Failure(f"there is no ledger of {application} {where}")
    table = table_of(None, "application", "query", "published up to", "begun", "open transactions")
    for ledger in found:
        begun = ", ".join(f"{one['batch']} ({one['rows']} rows)" for one in ledger["begun"])
        open_ = ", ".join(ledger.get("open", ())) or "none"
        last = str(ledger["batch"]) if ledger["batch"] >= 0 else "none"
        table.add_row(
            ledger["application"], ledger["query"] or "unknown", last, begun or "none", open_
        )
    show(as_json, found, table)


@ledger_app.command()
def skip(
    application: Application,
    batch: Annotated[int, typer.Option("--batch", min=0, help="The batch to leave out.")],
    staging: Staging = None,
    bootstrap: Bootstrap = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Take a batch for published: what of it is not in its topics is left out for good, and the query
    continues behind it."""
    ledger = _ledger(staging, bootstrap, application)
    known = _described(ledger)
    if batch <= known["batch"]:
        raise Failure(f"batch {batch} of {application} is published already")
    begun = {batch["batch"]: batch for batch in known["begun"]}
    rows = f"up to {begun[batch]['rows']} rows are" if batch in begun else "all its rows are"
    _confirm(f"Batch {batch} of {application} is left out: {rows} not written. Continue?", yes)
    _asked(lambda: ledger.skip(batch))
    answer(
        as_json,
        {"application": application, "next_batch": batch + 1},
        f"{application} continues with batch {batch + 1}",
    )


@ledger_app.command()
def forget(
    application: Application,
    staging: Staging = None,
    bootstrap: Bootstrap = None,
    first: Annotated[
        int, typer.Option("--from", min=0, help="The first batch to forget; all without it.")
    ] = 0,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Take batches for not written: the query, or another one under this name, writes them when it asks
    for them. What is in topics stays, so rows may be there twice."""
    ledger = _ledger(staging, bootstrap, application)
    known = _described(ledger)
    published = (
        f"batches up to {known['batch']} are published" if known["batch"] >= 0 else "none is"
    )
    question = (
        f"{application} forgets its batches from {first} on ({published}): those that its query asks for"
        " again are written again. Continue?"
    )
    _confirm(question, yes)
    _asked(lambda: ledger.forget(first))
    answer(
        as_json,
        {"application": application, "next_batch": first},
        f"{application} may write batch {first} and those behind it",
    )


def _applications(staging: str | None, bootstrap: str | None) -> list[str]:
    _check_installed()
    if staging is None:
        from barnabas.pipeline.write import token_ledger

        found = _asked(lambda: token_ledger.keys(_options(bootstrap)))
        if not found:
            raise Failure("no query has committed in a transaction here")
        return found
    from barnabas.pipeline.places.stores import HALF_WRITTEN, open_store

    names = open_store(staging).names("")
    found = [name for name in names if not name.startswith(".") and not name.endswith(HALF_WRITTEN)]
    if not found:
        raise Failure(f"there is no ledger below {staging}")
    return found


def _options(bootstrap: str | None) -> SinkOptions:
    """The options of the cluster, its security as ``--command-config`` says."""
    from barnabas.host.secrets.config_files import security_of
    from barnabas.pipeline.options import ClusterOptions, SinkOptions, endpoints

    where = find_bootstrap(bootstrap, None)
    try:
        cluster = ClusterOptions(
            endpoints(where),
            client_id="barnabas-cli",
            patience_ms=TIMEOUT_MS,
            security=security_of(with_password(command_config())),
        )
    except ValueError as error:
        raise Failure(str(error), USAGE) from error
    return SinkOptions(cluster)


def _ledger(
    staging: str | None, bootstrap: str | None, application: str
) -> CommitLog | TokenLedger:
    _check_installed()
    from barnabas.pipeline.errors import PipelineError
    from barnabas.pipeline.places.stores import open_store
    from barnabas.pipeline.write.commit_log import CommitLog
    from barnabas.pipeline.write.token_ledger import TokenLedger

    if staging is not None and bootstrap is not None:
        raise Failure("say --staging or --bootstrap-server, not both", USAGE)
    try:
        if staging is None:
            return TokenLedger(_options(bootstrap), application)
        return CommitLog(open_store(staging), application)
    except PipelineError as error:
        raise Failure(str(error), USAGE) from error


def _check_installed() -> None:
    missing = [module for module in ("numpy", "pyarrow") if find_spec(module) is None]
    if missing:
        needed = "pip install 'barnabas[spark]'"
        raise Failure(f"this command needs {' and '.join(missing)}: {needed}", USAGE)


def _described(ledger: CommitLog | TokenLedger) -> dict[str, Any]:
    return _asked(ledger.describe)


def _asked(action: Callable[[], T]) -> T:
    """The result of `action`; what it raises becomes a sentence."""
    from barnabas.pipeline.errors import PipelineError

    try:
        return action()
    except (PipelineError, KafkaError, ChannelError, OSError) as error:
        raise Failure(str(error)) from error


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure("this cannot be taken back: say --yes where no terminal can be asked", USAGE)
    if not typer.confirm(question, err=True):
        raise Failure("nothing was changed")
