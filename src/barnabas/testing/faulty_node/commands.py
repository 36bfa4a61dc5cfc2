"""The commands of a node's control.

| command | fields |
|---|---|
| ``requests`` | `api`, `outcome` (error, late, never); `times`, `error`, `ms`, `client_id`, `handled` |
| ``left`` | `plan`, which ``requests`` has answered: how many of its requests are still to come |
| ``disk`` | `fault` (full, failing, null); `directory`, or all of the node's |
| ``clock`` | `ms` by which the date is stepped, from where it is |
| ``resign`` | the active controller gives up; says whether this node was it |
| ``clear`` | no request, disk or clock is faulty any more |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.log import checkpoints
from barnabas.node.node import Node
from barnabas.testing.faulty_node.disk import NUMBERS, DiskFaults
from barnabas.testing.faulty_node.requests import ERROR, LATE, NEVER, PlannedAnswer, RequestFaults
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.testing.faulty_node.clock import SteppedClock

Fields = Mapping[str, Any]
T = TypeVar("T")
LATE_MS_MAX = 3_600_000
"""The longest time by which an answer can be late: one hour."""


class CommandError(Exception):
    """The node cannot do a command; the text is one sentence."""


class NodeCommands:
    """The commands of one node."""

    def __init__(
        self, node: Node, requests: RequestFaults, disk: DiskFaults, clock: SteppedClock
    ) -> None:
        self._node = node
        self._requests = requests
        self._disk = disk
        self._clock = clock
        self._by_name: dict[str, Callable[[Fields], Any]] = {
            "requests": self._plan_requests,
            "left": lambda fields: self._requests.left(_of_type(fields, "plan", int)),
            "disk": self._fail_disk,
            "clock": self._step_clock,
            "resign": self._resign,
            "clear": self._clear,
        }

    def perform(self, name: str, fields: Fields) -> Any:
        """Raises `CommandError`."""
        command = self._by_name.get(name)
        if command is None:
            known = ", ".join(self._by_name)
            raise CommandError(f"there is no command {name!r}; there are {known}")
        try:
            return command(fields)
        except KeyError as error:
            raise CommandError(f"{name}: {error.args[0]!r} is unknown or missing") from error

    def _plan_requests(self, fields: Fields) -> int:
        api, outcome = _of_type(fields, "api", str), _of_type(fields, "outcome", str)
        if outcome not in (ERROR, LATE, NEVER):
            raise CommandError(f"an outcome is {ERROR}, {LATE} or {NEVER}, not {outcome!r}")
        key = ApiKey[api.upper()]
        if not any(server.table.get(key) for server in self._node.servers.values()):
            raise CommandError(f"no listener of this node has handlers for {key.name}")
        times = _of_type(fields, "times", int, 1)
        if times < 1:
            raise CommandError(f"times is at least 1, not {times}")
        wait_ms = _of_type(fields, "ms", (int, float), 0)
        if not 0 <= wait_ms < LATE_MS_MAX:
            raise CommandError(f"ms is between 0 and {LATE_MS_MAX}, not {wait_ms}")
        client_id = fields.get("client_id")
        answer = PlannedAnswer(
            outcome,
            ErrorCode[_of_type(fields, "error", str, "UNKNOWN_SERVER_ERROR").upper()],
            _of_type(fields, "message", str, "a test asked for this error"),
            float(wait_ms),
            None if client_id is None else _of_type(fields, "client_id", str),
            _of_type(fields, "handled", bool, True),
        )
        return self._requests.plan(int(key), times, answer)

    def _fail_disk(self, fields: Fields) -> list[str]:
        """Returns the directories. The node uses them at once, so that it notices."""
        fault = fields.get("fault")
        if fault is not None and (not isinstance(fault, str) or fault not in NUMBERS):
            raise CommandError(f"a disk's fault is {', '.join(NUMBERS)} or null, not {fault!r}")
        known = self._node.config.log_dirs
        named = fields.get("directory")
        chosen = [_of_type(fields, "directory", str)] if named else list(known)
        for directory in chosen:
            if directory not in known:
                raise CommandError(f"{directory} is no log directory of this node")
            self._disk.set(directory, fault)
        if fault is not None and self._node.broker is not None:
            self._node.broker.logs.checkpoint(checkpoints.RECOVERY_POINT)
        return chosen

    def _step_clock(self, fields: Fields) -> int:
        self._clock.step_ms += _of_type(fields, "ms", int)
        return self._clock.step_ms

    def _resign(self, fields: Fields) -> bool:
        quorum = self._node.quorum
        was_leader = quorum.leader_id == self._node.config.node_id
        if was_leader:
            quorum.resign("a test asked for it")
        return was_leader

    def _clear(self, fields: Fields) -> None:
        self._requests.clear()
        self._disk.clear()
        self._clock.step_ms = 0


def _of_type(
    fields: Fields, name: str, kind: type[T] | tuple[type[T], ...], default: T | None = None
) -> T:
    """The field `name`; `default` where it is left out, unless that is None. Raises KeyError and
    `CommandError`. A bool is no number, though Python says so."""
    value = fields[name] if default is None else fields.get(name, default)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        known = " or ".join(found.__name__ for found in kinds)
        raise CommandError(f"{name} is of type {known}, not {value!r}")
    return value
