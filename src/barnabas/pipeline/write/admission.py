"""Whether a batch that a query asks for is new, published already, or cannot be what the ledger has.

Owns the comparison of a query's checkpoint with the ledger beside it. Spark repeats at most the last
batch that it planned, so that a query that continues from its own checkpoint asks for the ledger's last
batch or a later one. Whatever else it asks for shows that checkpoint and ledger have parted: the one
was rolled back, begun again, copied or lost without the other. To skip would lose rows then and to
write could write them twice, so the query ends with a sentence that says which it is and what to do.

Pure: values in, an answer or `LedgerError` out. What an entry of the checkpoint is comes from
:mod:`barnabas.pipeline.checkpoint`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from barnabas.pipeline.errors import LedgerError
from barnabas.pipeline.write.commit_log import CommitEntry, Manifest, Origin


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One batch as a query's driver asks for it."""

    batch: int
    application: str
    staging: str
    origin: Origin
    """Empty where the write is part of no stream."""
    new_ledger: int | None = None
    """The batch with which a ledger may begin that is not there (option ``newLedger``)."""
    bootstrap: str = ""
    """The brokers that keep in a topic what was written; the application is the key there."""

    @property
    def ledger(self) -> str:
        """The place that keeps what was written, for people."""
        if self.bootstrap:
            return f"the token of {self.application} in topic __barnabas_pipelines"
        return f"the ledger below {self.staging}"

    def __str__(self) -> str:
        where = f"batch {self.batch} of application {self.application!r}"
        return f"{where}, query {self.origin.query}" if self.origin.query else where

    def command(self, verb: str, *more: str) -> str:
        """The command line that changes this ledger."""
        place = ("--bootstrap-server", self.bootstrap)
        if not self.bootstrap:
            place = ("--staging", self.staging)
        words = ("barnabas pipeline ledger", verb, *place, *more)
        return f"`{' '.join((*words, self.application))}`"


class Admission(NamedTuple):
    """Whether to publish the batch; `warning` says why a batch is taken for published that may not be
    the same."""

    is_new: bool
    warning: str = ""


def admit(asked: AdmissionRequest, committed: CommitEntry, manifest: Manifest | None) -> Admission:
    """The decision about a batch, given the ledger's last one and the manifest of its number, if there is
    one. Raises `LedgerError`."""
    if not committed.is_there and manifest is None:
        _check_new(asked)
        return Admission(True)
    _check_query(asked, committed.origin)
    if asked.batch > committed.batch:
        if manifest is not None:
            _check_query(asked, manifest.origin)
            _check_planned(asked, manifest.origin, "begun")
        return Admission(True)
    if not asked.origin.query:
        return Admission(
            False
        )  # the pair of txnAppId and txnVersion says that it is the same write
    if asked.origin.run and asked.origin.run == committed.origin.run:
        raise LedgerError(_twice(asked))
    if asked.batch < committed.batch:
        raise LedgerError(_rolled_back(asked, f"has published up to batch {committed.batch}"))
    _check_planned(asked, committed.origin, "published")
    if asked.origin.planned and committed.origin.planned:
        return Admission(False)
    return Admission(
        False,
        f"{asked} is skipped: an earlier run has published a batch of that number. Whether it had the"
        " same offsets cannot be checked: the checkpoint cannot be read from here, or the ledger is of a"
        " Barnabas that did not keep that",
    )


def _check_new(asked: AdmissionRequest) -> None:
    """A query beyond its first batch has a ledger, unless it wrote elsewhere until now."""
    if asked.batch == 0 or not asked.origin.query or asked.new_ledger == asked.batch:
        return
    if asked.bootstrap:
        raise LedgerError(
            f"no token of {asked} in topic __barnabas_pipelines: which rows were written before is not"
            " known. If the query wrote elsewhere until now, or by a manifest, or rows of batch"
            f" {asked.batch} may be in the topic twice, set option newLedger to {asked.batch}"
        )
    raise LedgerError(
        f"no ledger of {asked}, below {asked.staging}: which rows were written before is not known. If the"
        " ledger is elsewhere, set stagingLocation to its place. If the query begins to write here only"
        f" now, or rows of batch {asked.batch} may be in the topic twice, set option newLedger to"
        f" {asked.batch}"
    )


def _check_query(asked: AdmissionRequest, owner: Origin) -> None:
    mine = asked.origin.query
    if mine and owner.query and mine != owner.query:
        raise LedgerError(
            f"{asked}: {asked.ledger} belongs to query {owner.query}, whose batches have"
            " the same numbers. A query with a checkpoint of its own needs an application (txnAppId) of"
            " its own. If the other query has ended for good and this one takes its place, run"
            f" {asked.command('forget')} first"
        )


def _check_planned(asked: AdmissionRequest, known: Origin, done: str) -> None:
    """The checkpoint keeps what it planned; what is planned once more under the number is another batch."""
    if asked.origin.planned and known.planned and asked.origin.planned != known.planned:
        raise LedgerError(_rolled_back(asked, f"has {done} another batch {asked.batch}"))


def _twice(asked: AdmissionRequest) -> str:
    return (
        f"{asked} was written before in this run of the query, and Spark asks for a batch once in a run. If"
        " foreachBatch writes more than once, each write needs an application (txnAppId) of its own; if it"
        " tries again after an error, start the query again, and the batch is known to be written"
    )


def _rolled_back(asked: AdmissionRequest, what: str) -> str:
    forget = asked.command("forget", "--from", str(asked.batch))
    own = "a stagingLocation of its own"
    if asked.bootstrap:
        own = f"a kafka.transactional.id of its own and newLedger={asked.batch}"
    return (
        f"{asked} is not written: {asked.ledger} {what}. The checkpoint was rolled back"
        " or begun again, and the ledger was not, or is a copy that shares the ledger with its original."
        f" To write the query's batches from this one on, run {forget} first (what is in the topic stays"
        f" there). Otherwise put back the checkpoint that belongs to the ledger, or give the copy {own}"
    )
