"""The errors between a pipeline and its cluster, each in one sentence a user can act on."""

from __future__ import annotations


class PipelineError(Exception):
    """Base of the pipeline's own errors."""


class OptionError(PipelineError, ValueError):
    """An option of ``format("barnabas")`` has a value that is not allowed."""


class ClusterUnreachableError(PipelineError):
    """No broker answered until the time for it was over."""


class UnknownPartitionError(ClusterUnreachableError):
    """No broker that was asked knows the partition, to the end of the patience."""


class DataLossError(PipelineError):
    """Records that a query still had to read are gone (deleted topic, retention, lost log).

    With ``failOnDataLoss=false`` the query continues behind the gap instead.
    """


class StagingError(PipelineError):
    """Rows could not be staged for an exactly-once write, or what was staged is gone."""


class WriteRefusedError(PipelineError):
    """The cluster refused rows for good: too large, unknown topic or partition, no permission."""


class LedgerError(PipelineError):
    """A query asks for a batch that cannot be what the ledger has under its number, or the ledger that
    it should have is not there. Going on would lose rows or write them twice, in silence."""


class BatchRefusedTooLargeError(WriteRefusedError):
    """A topic takes no batch of that size. The text says what helps."""


class ExecutorError(PipelineError):
    """An executor, or the driver, has another version of something than the pipeline needs."""


class TableRefusedError(PipelineError):
    """A table asks its writers for something that a job does not do, or the job asks for another table than
    is there. Writing would leave rows that break the table's rules, or that its readers see as nulls."""
