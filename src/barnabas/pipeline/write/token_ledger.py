"""The token of one query as a ledger that is shown, skipped in and forgotten by command.

Owns changes of a token outside of its query: each is a transaction of the query's transactional id, so that
a driver that is under way is fenced and finds the change when it is started again.
"""

from __future__ import annotations

from typing import Any

from barnabas.pipeline.errors import LedgerError
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.write import tokens
from barnabas.pipeline.write.commit_log import NOTHING, Origin
from barnabas.pipeline.write.prepared import participants
from barnabas.pipeline.write.prepared.participants import list_open
from barnabas.pipeline.write.prepared.recovery import recover
from barnabas.pipeline.write.publisher import Outgoing
from barnabas.pipeline.write.tokens import Token
from barnabas.pipeline.write.transaction import DriverTransaction


def keys(options: SinkOptions) -> list[str]:
    """Transactional ids of all queries that have a token, or open transactions of tasks."""
    found = participants.list_keys(options.cluster.connect())
    return sorted({*_tokens(options), *found})


def _tokens(options: SinkOptions, key: str | None = None) -> dict[str, Token]:
    cluster = options.cluster.connect()
    if cluster.topic(tokens.TOPIC) is None:
        return {}
    return tokens.read_tokens(cluster, options.cluster, key=key)


class TokenLedger:
    """The ledger, as :class:`~barnabas.pipeline.write.commit_log.CommitLog`, of a query that commits in
    transactions."""

    def __init__(self, options: SinkOptions, key: str) -> None:
        self._options = options
        self._key = key

    def __repr__(self) -> str:
        return f"TokenLedger({self._key})"

    def describe(self) -> dict[str, Any]:
        """The content of the token, and which transactions of tasks are open, for people and programs. The
        driver's own shows in ``barnabas transactions``."""
        cluster = self._options.cluster.connect()
        found = _tokens(self._options, self._key).get(self._key)
        token = found or Token(NOTHING)
        return {
            "application": self._key,
            "is_there": found is not None,
            "batch": token.batch,
            "query": token.origin.query,
            "run": token.origin.run,
            "rows": token.rows,
            "tasks": len(token.participants),
            "open": sorted(
                participant.name(self._key) for participant in list_open(cluster, self._key)
            ),
            "begun": [],
        }

    def skip(self, batch: int) -> None:
        """Take `batch` for published: it is never written."""
        self._change(batch, is_skip=True)

    def forget(self, first: int = 0) -> None:
        """Take nothing from batch `first` on for published. What is in topics stays there."""
        self._change(first - 1, is_skip=False)

    def _change(self, batch: int, *, is_skip: bool) -> None:
        cluster = self._options.cluster.connect()
        transaction = DriverTransaction(cluster, self._options, self._key)
        transaction.begin()
        try:
            token = recover(self._options, transaction) or Token(NOTHING)
            if is_skip and batch <= token.batch:
                raise LedgerError(f"batch {batch} of {self._key} is published already")
            origin = Origin(query=token.origin.query) if is_skip else Origin()
            last = batch if is_skip else min(batch, token.batch)
            data = Token(last, origin).record_batch(self._key)
            transaction.write(
                [Outgoing(tokens.PARTITION, 0, 1, len(data), lambda: bytearray(data))]
            )
            transaction.commit()
        except BaseException:
            transaction.abort()
            raise
