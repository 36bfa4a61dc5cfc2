"""Runs one server of ZooKeeper's protocol in this process: ``python -m barnabas.host.zookeeper.server_process
zoo.cfg``.

SIGTERM, SIGINT or SIGHUP ends it. Exit status: 0 then; 1 if it could not start, with a sentence on standard
error; 70 if it halted itself. Its directory must not be one of Apache ZooKeeper, whose files it does not
read."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from barnabas.config.meta_properties import DirectoryError
from barnabas.config.properties import parse_properties
from barnabas.host.disk import sentence_of
from barnabas.host.loop import end_signals, new_loop
from barnabas.host.main import DAMAGE_ERRORS, LOG_LEVEL_VARIABLE, allow_many_files
from barnabas.host.ports import HostPorts
from barnabas.host.process.end_request import EndRequest
from barnabas.host.process.standard_streams import fill_standard_streams
from barnabas.host.structured_log import StructuredLog
from barnabas.zookeeper.server.server_settings import (
    ServerSettings,
    SettingsError,
    server_settings,
)
from barnabas.zookeeper.server.znode_server import ZnodeServer

APACHE_DATA = "version-2"
"""The name that Apache ZooKeeper has in its directory."""


class ZooKeeperStartError(Exception):
    """The reason, in one sentence, why the server cannot start."""


def load_settings(path: str) -> ServerSettings:
    """The settings in the file `path`. Raises `ZooKeeperStartError`."""
    try:
        properties = parse_properties(Path(path).read_text(encoding="utf-8", errors="replace"))
        if "dataDir" in properties:
            properties["dataDir"] = str(Path(properties["dataDir"]).resolve())
        settings = server_settings(properties, lambda name: Path(name).read_text())
    except OSError as error:
        raise ZooKeeperStartError(f"{error.filename} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ZooKeeperStartError(f"{path}: {error}") from error
    if Path(settings.data_dir, APACHE_DATA).exists():
        raise ZooKeeperStartError(
            f"{settings.data_dir} holds the data of Apache ZooKeeper, which this server does not read"
        )
    return settings


class ZooKeeperProcess:
    """One server on one loop, from start to exit status."""

    def __init__(self, settings: ServerSettings, journal: StructuredLog) -> None:
        self._loop = new_loop()
        self._loop.set_exception_handler(self._on_unhandled)
        self.ports = HostPorts(self._loop, journal)
        self.server = ZnodeServer(self.ports, settings)
        self._is_stopping = False

    def run(self, end_request: EndRequest) -> int:
        """Serve until a signal ends it; not at all if one came before. Raises `ZooKeeperStartError`."""
        for number in end_signals():
            self._loop.add_signal_handler(number, self._on_signal, number)
        try:
            if not end_request.is_made:
                self._start()
                self._loop.run_forever()
        finally:
            self.ports.network.abort_all()
            self.ports.stop()
            self._loop.close()
        return 0

    def _start(self) -> None:
        settings = self.server.settings
        for key in settings.unread:
            self.ports.log("warning", "config.unknown_key", key=key)
        try:
            self.server.open()
        except (DirectoryError, SettingsError, *DAMAGE_ERRORS) as error:
            raise ZooKeeperStartError(str(error)) from error
        except OSError as error:
            raise ZooKeeperStartError(sentence_of(error)) from error
        self.ports.log(
            "info",
            "zookeeper.started",
            server=settings.server_id,
            listener=settings.client_endpoint,
        )

    def _on_signal(self, number: signal.Signals) -> None:
        if self._is_stopping:
            return
        self._is_stopping = True
        self.ports.log("info", "zookeeper.stopping", signal=signal.Signals(number).name)
        self.server.begin_shutdown(lambda: self._loop.call_soon(self._loop.stop))

    def _on_unhandled(self, message: str, error: Exception) -> None:
        self.ports.log(
            "error",
            "node.fault",
            message=message,
            error=repr(error),
            traceback="".join(traceback.format_exception(error)),
        )


def run_server(path: str, end_request: EndRequest | None = None) -> int:
    """Run the server of the file `path` until it ends. `end_request` has taken note of signals while the
    program was loaded. Returns the exit status."""
    end_request = end_request or EndRequest()
    allow_many_files()
    try:
        if end_request.is_made:
            return 0
        journal = StructuredLog(2, os.environ.get(LOG_LEVEL_VARIABLE, "info"))
        return ZooKeeperProcess(load_settings(path), journal).run(end_request)
    except (ZooKeeperStartError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def main(arguments: Sequence[str]) -> int:
    fill_standard_streams()
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m barnabas.host.zookeeper.server_process zoo.cfg\n")
        return 2
    return run_server(arguments[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
