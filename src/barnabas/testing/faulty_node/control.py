"""The control of a node on loopback: lines of JSON over TCP.

A line is a command, ``{"token": ..., "do": "requests", ...}``; its answer is one line, ``{"ok": ...}`` or
``{"error": "one sentence"}``. Commands are those of `NodeCommands`. A node without ``testing.faults.file``
has no control.
"""

from __future__ import annotations

import hmac
import json
import os
from pathlib import Path
from typing import Any

from barnabas.ports import Connection
from barnabas.testing.faulty_node.commands import CommandError, NodeCommands

LINE_BYTES_MAX = 64 * 1024


class Control:
    """The commands of a node, for a client that shows the token."""

    def __init__(self, commands: NodeCommands, token: str) -> None:
        self._commands = commands
        self._token = token

    def accept(self) -> ControlConnection:
        return ControlConnection(self)

    def announce(self, file: Path, port: int) -> None:
        """Say in `file` where the control listens, and in which process."""
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps({"port": port, "pid": os.getpid()}))
        draft.replace(file)

    def answer(self, line: bytes) -> dict[str, Any]:
        try:
            command = json.loads(line)
            token, name = command.pop("token", ""), command.pop("do", "")
        except (ValueError, AttributeError, TypeError, RecursionError):
            return {"error": "a command is a line with one JSON object"}
        if not hmac.compare_digest(str(token).encode(errors="replace"), self._token.encode()):
            return {"error": "the token is missing or wrong"}
        try:
            return {"ok": self._commands.perform(str(name), command)}
        except CommandError as error:
            return {"error": str(error)}


class ControlConnection:
    """One connection to the control: the ``ports.Receiver`` of its stream."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._connection: Connection | None = None
        self._buffer = memoryview(bytearray(4096))
        self._unread = b""

    def __repr__(self) -> str:
        return f"ControlConnection({self._connection})"

    def on_connected(self, connection: Connection) -> None:
        self._connection = connection

    def get_buffer(self) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        connection = self._connection
        assert connection is not None
        *lines, self._unread = (self._unread + bytes(self._buffer[:size])).split(b"\n")
        for line in lines:
            connection.send([json.dumps(self._control.answer(line)).encode() + b"\n"])
        if len(self._unread) > LINE_BYTES_MAX:
            connection.abort()

    def on_closed(self, error: OSError | None) -> None:
        self._connection = None
