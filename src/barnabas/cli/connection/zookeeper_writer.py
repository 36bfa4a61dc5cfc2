"""Transactions on znodes, one after the other, for commands."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.connection.connect import USAGE
from barnabas.cli.connection.silence import Silence
from barnabas.cli.connection.zookeeper_reader import TIMEOUT_S, _no_log
from barnabas.cli.failure import Failure
from barnabas.cli.progress import ProgressLine, has_onlooker
from barnabas.config.definition import ConfigError
from barnabas.host.loop import Loop
from barnabas.host.tls_contexts import HostSecrets
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.operations import Multi
from barnabas.zookeeper.session import (
    SessionSettings,
    SessionState,
    WatchEvent,
    ZooKeeperSession,
)


def write_znodes(
    connect: str,
    transactions: Sequence[Multi],
    within_s: float = TIMEOUT_S,
    *,
    as_json: bool = False,
) -> None:
    """Do all `transactions` below `host:port/chroot`, each after the one before it. Raises `Failure` at the
    first that fails, or that has no answer for `within_s`: those before it are done."""
    from barnabas.host.zookeeper.sessions import HostZooKeeper

    loop = Loop()
    silence = Silence(loop, within_s)
    line = ProgressLine("transactions", len(transactions), is_shown=has_onlooker(as_json))
    writing = _Writing(loop, transactions, silence, line)
    secrets = HostSecrets(_no_log)
    try:
        session = HostZooKeeper(loop, _no_log, lambda: secrets).open(
            SessionSettings(connect), writing
        )
    except (ConfigError, ValueError) as error:
        raise Failure(f"--zookeeper {connect}: {error}", USAGE) from error
    writing.session = session
    with line:
        loop.run_forever()
    session.close()
    if writing.error is not None:
        raise Failure(
            f"ZooKeeper at {connect} refuses transaction {writing.done + 1}: {writing.error}"
        )
    if writing.done < len(transactions):
        raise Failure(
            f"ZooKeeper at {connect} answered {writing.done} of {len(transactions)} transactions, and the"
            f" next not within {within_s:g} s: it is unknown whether that was done"
        )


class _Writing:
    """The transactions that are left."""

    def __init__(
        self, loop: Loop, transactions: Sequence[Multi], silence: Silence, line: ProgressLine
    ) -> None:
        self.session: ZooKeeperSession
        self.done = 0
        self.error: ZooKeeperError | None = None
        self._loop = loop
        self._transactions = transactions
        self._silence = silence
        self._line = line
        self._asked = False

    def on_session_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED and not self._asked:
            self._next()
        elif state.is_final:
            self._loop.stop()

    def on_watch(self, event: WatchEvent) -> None:
        """No watch is set."""

    def _next(self) -> None:
        if self.done == len(self._transactions):
            self._loop.stop()
            return
        self._asked = True
        self.session.submit(self._transactions[self.done], self._on_answer)

    def _on_answer(self, answer: object) -> None:
        if isinstance(answer, ZooKeeperError):
            self.error = answer
            self._loop.stop()
            return
        self._silence.end()
        self.done += 1
        self._line.update(self.done)
        self._next()
