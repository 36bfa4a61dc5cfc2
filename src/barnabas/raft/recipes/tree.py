"""The replicated state: keys with values and versions, and sessions that own ephemeral keys.

Pure: `apply` takes one command with its offset and gives the result and the changes. It never raises for
what users do; a command that cannot be done changes nothing and says why (`RefusedError` as a value), on
every replica alike. Commands and snapshots are JSON, one object per record.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.types import Buffer

ANY_VERSION = -1
NO_SESSION = 0
ENTRIES_PER_CHUNK = 500
"""Entries per chunk of a snapshot."""
TIMEOUT_MS_MAX = (1 << 31) - 1
"""The longest time-out of a session."""


class RefusedError(Exception):
    """The obstacle that a command met: `reason` is exists, missing, version, session, malformed or
    too large."""

    def __init__(self, reason: str, key: str = "") -> None:
        super().__init__(reason, key)
        self.reason = reason
        self.key = key

    def __str__(self) -> str:
        return f"{self.reason}: {self.key}"


class Entry(NamedTuple):
    """One key's value. `version` is the offset of the record that wrote it, `created` of the first."""

    value: bytes
    version: int
    created: int
    owner: int = NO_SESSION
    """The session with which it goes; 0 where it stays."""


class Change(NamedTuple):
    """An event of a watch. `entry` is None where the key is gone."""

    key: str
    entry: Entry | None


class Applied(NamedTuple):
    """The result of one applied command."""

    result: Any
    """A key, a version, a session's id; a `RefusedError` where nothing was changed."""
    changes: tuple[Change, ...] = ()


def encode(command: Mapping[str, Any]) -> bytes:
    """A command as a record's value; bytes become base64."""
    return json.dumps(
        {
            name: b64encode(value).decode() if isinstance(value, bytes) else value
            for name, value in command.items()
        },
        separators=(",", ":"),
    ).encode()


def decode(value: Buffer) -> dict[str, Any]:
    """Raises ``ValueError`` for what is no command."""
    try:
        command = json.loads(bytes(value))
        if not isinstance(command, dict) or "do" not in command:
            raise ValueError(f"no command: {bytes(value)[:80]!r}")
        if "value" in command:
            command["value"] = b64decode(command["value"])
    except (TypeError, RecursionError) as error:
        raise ValueError(f"no command: {error}") from error
    return command


class Tree:
    """Keys in the order of their creation. Entries never change; a new one replaces the old."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.sessions: dict[int, int] = {}
        """Time-out in milliseconds by id."""
        self._owned: dict[int, set[str]] = {}

    def under(self, prefix: str) -> list[tuple[str, Entry]]:
        """The keys that begin with `prefix`, sorted."""
        return sorted(item for item in self.entries.items() if item[0].startswith(prefix))

    def validate(self) -> None:
        """A key of a session goes with it. Raises AssertionError."""
        owned: dict[int, set[str]] = {}
        for key, entry in self.entries.items():
            assert entry.created <= entry.version, f"{key}: {entry}"
            if entry.owner != NO_SESSION:
                assert entry.owner in self.sessions, f"{key} outlives session {entry.owner}"
                owned.setdefault(entry.owner, set()).add(key)
        assert owned == {owner: keys for owner, keys in self._owned.items() if keys}, owned

    # -- commands --------------------------------------------------------------------------------

    def apply(self, command: Mapping[str, Any], offset: int) -> Applied:
        """Do one command, whose record is at `offset`."""
        try:
            return _COMMANDS[command["do"]](self, command, offset)
        except RefusedError as refusal:
            return Applied(refusal)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            return Applied(RefusedError("malformed", str(error)))

    def _create(self, command: Mapping[str, Any], offset: int) -> Applied:
        key, owner = str(command["key"]), int(command.get("session", NO_SESSION))
        if command.get("sequential"):
            key = f"{key}{offset:020d}"
        if key in self.entries:
            raise RefusedError("exists", key)
        self._check_session(owner)
        return Applied(key, (self._set(key, Entry(command["value"], offset, offset, owner)),))

    def _put(self, command: Mapping[str, Any], offset: int) -> Applied:
        key = str(command["key"])
        before = self.entries.get(key)
        expected = int(command.get("version", ANY_VERSION))
        if expected != ANY_VERSION and (before is None or before.version != expected):
            raise RefusedError("version" if before is not None else "missing", key)
        if before is None:
            entry = Entry(command["value"], offset, offset)
        else:
            entry = before._replace(value=command["value"], version=offset)
        return Applied(offset, (self._set(key, entry),))

    def _delete(self, command: Mapping[str, Any], offset: int) -> Applied:
        key = str(command["key"])
        before = self.entries.get(key)
        expected = int(command.get("version", ANY_VERSION))
        if before is None:
            raise RefusedError("missing", key)
        if expected not in (ANY_VERSION, before.version):
            raise RefusedError("version", key)
        return Applied(before.version, (self._remove(key),))

    def _open(self, command: Mapping[str, Any], offset: int) -> Applied:
        timeout_ms = int(command["timeout_ms"])
        if not 0 < timeout_ms <= TIMEOUT_MS_MAX:
            raise ValueError(f"a session's time-out is 1 to {TIMEOUT_MS_MAX} ms, not {timeout_ms}")
        self.sessions[offset] = timeout_ms
        return Applied(offset)

    def _end(self, command: Mapping[str, Any], offset: int) -> Applied:
        session = int(command["session"])
        self._check_session(session)
        del self.sessions[session]
        gone = sorted(self._owned.pop(session, ()))
        return Applied(session, tuple(self._remove(key) for key in gone))

    def _barrier(self, command: Mapping[str, Any], offset: int) -> Applied:
        return Applied(offset)

    def _check_session(self, session: int) -> None:
        if session != NO_SESSION and session not in self.sessions:
            raise RefusedError("session", str(session))

    def _set(self, key: str, entry: Entry) -> Change:
        self.entries[key] = entry
        if entry.owner != NO_SESSION:
            self._owned.setdefault(entry.owner, set()).add(key)
        return Change(key, entry)

    def _remove(self, key: str) -> Change:
        entry = self.entries.pop(key)
        if entry.owner in self._owned:
            self._owned[entry.owner].discard(key)
        return Change(key, None)

    # -- snapshots -------------------------------------------------------------------------------

    def snapshot(self) -> Iterator[Sequence[Buffer]]:
        """The chunks that `load` needs, as of now, whatever is applied meanwhile."""
        sessions, entries = list(self.sessions.items()), list(self.entries.items())
        values = [encode({"do": "session", "id": id, "timeout_ms": ms}) for id, ms in sessions]

        def chunks() -> Iterator[Sequence[Buffer]]:
            yield values
            for at in range(0, len(entries), ENTRIES_PER_CHUNK):
                yield [
                    encode({"do": "entry", "key": key, **entry._asdict()})
                    for key, entry in entries[at : at + ENTRIES_PER_CHUNK]
                ]

        return chunks()

    def load(self, chunks: Iterator[Sequence[Buffer]]) -> None:
        """Become what a snapshot says. Raises ``ValueError``, ``KeyError`` where it says nothing."""
        self.entries, self.sessions, self._owned = {}, {}, {}
        for chunk in chunks:
            for value in chunk:
                command = decode(value)
                if command["do"] == "session":
                    self.sessions[command["id"]] = command["timeout_ms"]
                else:
                    fields = (command[name] for name in Entry._fields)
                    self._set(command["key"], Entry(*fields))


_COMMANDS = {
    "create": Tree._create,
    "put": Tree._put,
    "delete": Tree._delete,
    "open": Tree._open,
    "end": Tree._end,
    "barrier": Tree._barrier,
}
