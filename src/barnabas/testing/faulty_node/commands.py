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
        except (KeyError, ValueError) as error:
            raise CommandError(f"{name}: {error.args[0]!r} is unknown or missing") from error

    def _plan_requests(self, fields: Fields) -> int:
        api, outcome = _of_type(fields, "api", str), _of_type(fields, "outcome", str)
        if outcome not in (ERROR, LATE, NEVER):
            raise CommandError(f"an outcome is {ERROR}, {LATE} or {NEVER}, not {outcome!r}")
        key = ApiKey[api.upper()]
        if not any(server.table.get(key) for server in self._node.servers.values()):
            raise CommandError(f"no listener of this node has handlers for {key.name}")
        times = int(fields.get("times", 1))
        if times < 1:
            raise CommandError(f"times is at least 1, not {times}")
        answer = PlannedAnswer(
            outcome,
            ErrorCode[str(fields.get("error", "UNKNOWN_SERVER_ERROR")).upper()],
            str(fields.get("message", "a test asked for this error")),
            float(fields.get("ms", 0)),
            fields.get("client_id"),
            bool(fields.get("handled", True)),
        )
        return self._requests.plan(int(key), times, answer)

    def _fail_disk(self, fields: Fields) -> list[str]:
        """Returns the directories. The node uses them at once, so that it notices."""
        fault = fields.get("fault")
        if fault is not None and fault not in NUMBERS:
            raise CommandError(f"a disk's fault is {', '.join(NUMBERS)} or null, not {fault!r}")
        known = self._node.config.log_dirs
        chosen = [fields["directory"]] if fields.get("directory") else list(known)
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


def _of_type(fields: Fields, name: str, kind: type[T]) -> T:
    value = fields[name]
    if not isinstance(value, kind):
        raise CommandError(f"{name} is of type {kind.__name__}, not {value!r}")
    return value
