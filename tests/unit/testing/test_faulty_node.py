"""The parts of a node that a test can make fail: its disk, its answers, its control."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.host.main import NodeProcess, StartError
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine
from barnabas.sim.world.world import World
from barnabas.testing.faults_file import FaultsFile, read_faults_file
from barnabas.testing.faulty_node.commands import CommandError, NodeCommands
from barnabas.testing.faulty_node.control import Control
from barnabas.testing.faulty_node.disk import FAILING, FULL, DiskFaults, FaultyDisk
from barnabas.testing.faulty_node.requests import (
    ERROR,
    LATE,
    NEVER,
    PlannedAnswer,
    RequestFaults,
)
from barnabas.wire.api_table import ApiKey
from barnabas.wire.dispatch import ApiEntry
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Api, Parked, RequestContext, Working

GIVEN = FaultsFile("token", "/control", 1000, {1: 1001}, 2)
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9
listeners=PLAINTEXT://127.0.0.1:8,CONTROLLER://127.0.0.1:9
log.dirs=/data
"""


def number_of(call: Any, *arguments: Any, **named: Any) -> int | None:
    try:
        call(*arguments, **named)
    except OSError as error:
        return error.errno
    return None


def test_a_full_disk_refuses_what_needs_room_and_reads_on(tmp_path: Path) -> None:
    faults = DiskFaults()
    disk = FaultyDisk(faults)
    path = str(tmp_path / "a" / "log")
    disk.make_dirs(str(tmp_path / "a"))
    file = disk.open(path, create=True)
    file.append([b"one"])
    faults.set(str(tmp_path / "a"), FULL)
    assert number_of(file.append, [b"two"]) == errno.ENOSPC
    assert number_of(file.write_at, 0, b"o") == errno.ENOSPC
    assert number_of(disk.write_atomic, path, b"") == errno.ENOSPC
    assert number_of(disk.open, path + "2", create=True) == errno.ENOSPC
    assert file.read_at(0, 3) == b"one" == disk.read_file(path)
    file.sync()
    assert disk.free_bytes(str(tmp_path / "a"))[1] == 0
    disk.write_atomic(str(tmp_path / "beside"), b"there is room")
    faults.clear()
    file.append([b"two"])
    assert file.size() == 6
    file.close()


def test_a_failing_disk_refuses_everything_but_closing(tmp_path: Path) -> None:
    faults = DiskFaults()
    disk = FaultyDisk(faults)
    path = str(tmp_path / "log")
    file = disk.open(path, create=True)
    file.append([b"one"])
    faults.set(str(tmp_path), FAILING)
    calls = [
        (file.append, [b"two"]), (file.read_at, 0, 1), (file.try_read_at, 0, 1), (file.sync,),
        (file.truncate, 0), (disk.open, path), (disk.read_file, path), (disk.list_dir, str(tmp_path)),
        (disk.rename, path, path + "2"), (disk.remove, path), (disk.sync_dir, str(tmp_path)),
        (disk.size, path), (disk.remove_tree, path), (disk.free_bytes, path),
    ]  # fmt: skip
    assert {number_of(*call) for call in calls} == {errno.EIO}
    file.close()
    faults.set(str(tmp_path), None)
    assert disk.read_file(path) == b"one"


class Handler:
    """Handles requests by counting them."""

    def __init__(self) -> None:
        self.world = World(1)
        machine = SimMachine(
            self.world, SimNetwork(self.world), "m", SimDisk(self.world.rng("disk"))
        )
        self.requests = RequestFaults(machine.start_process())
        self.handled = 0
        api = Api(ApiKey.PRODUCE, cast("Any", None), lambda *_: None)
        entry = ApiEntry(api, self._handle, None, 0, 1, 9)
        self._guarded = self.requests.guard(entry)

    def _handle(self, request: Any, ctx: RequestContext, role: Any) -> Any:
        self.handled += 1
        if request is not None:
            return request
        return f"answer {self.handled}"

    def ask(self, client_id: str = "c", result: Any = None) -> Any:
        """The answer; `result` is what the handler returns where it is not its count."""
        ctx = RequestContext(api_key=0, api_version=0, client_id=client_id)
        return self._guarded(result, ctx, None)

    def pass_ms(self, time_ms: float) -> None:
        self.world.run(self.world.now_ms + time_ms)

    def plan(self, times: int, answer: PlannedAnswer) -> int:
        return self.requests.plan(int(ApiKey.PRODUCE), times, answer)


def test_a_refused_request_is_not_handled_and_the_next_one_is() -> None:
    handler = Handler()
    plan = handler.plan(2, PlannedAnswer(ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER, "asked for"))
    for left in (1, 0):
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER: asked for"):
            handler.ask()
        assert handler.requests.left(plan) == left
    assert handler.ask() == "answer 1"


def test_a_plan_for_one_client_leaves_others_alone() -> None:
    handler = Handler()
    plan = handler.plan(1, PlannedAnswer(ERROR, client_id="mine"))
    assert handler.ask("theirs") == "answer 1"
    with pytest.raises(KafkaError):
        handler.ask("mine")
    assert handler.requests.left(plan) == 0


def test_plans_are_followed_in_their_order_and_cleared_together() -> None:
    handler = Handler()
    first = handler.plan(1, PlannedAnswer(ERROR, ErrorCode.UNKNOWN_TOPIC_ID))
    second = handler.plan(5, PlannedAnswer(ERROR, ErrorCode.NOT_CONTROLLER))
    for code in ("UNKNOWN_TOPIC_ID", "NOT_CONTROLLER"):
        with pytest.raises(KafkaError, match=code):
            handler.ask()
    handler.requests.clear()
    assert (handler.requests.left(first), handler.requests.left(second)) == (0, 0)
    assert handler.ask() == "answer 1"


def test_a_late_answer_is_the_handlers_and_comes_after_its_time() -> None:
    handler = Handler()
    handler.plan(1, PlannedAnswer(LATE, wait_ms=50))
    answers: list[Any] = []
    parked = handler.ask()
    assert isinstance(parked, Parked) and handler.handled == 1
    parked.attach(answers.append)
    handler.pass_ms(49)
    assert answers == []
    handler.pass_ms(2)
    assert answers == ["answer 1"]


def test_a_late_request_in_parts_holds_its_connection_and_fails_late() -> None:
    handler = Handler()
    handler.plan(1, PlannedAnswer(LATE, wait_ms=50))
    inner = Working()
    happened: list[Any] = []
    working = handler.ask(result=inner)
    working.attach(happened.append)
    assert isinstance(working, Working)
    held = [working.holds]
    working.watch(lambda: happened.append("released"), happened.append)
    inner.fail(KafkaError(ErrorCode.CORRUPT_MESSAGE))
    held.append(working.holds)
    assert held == [True, False] and happened == ["released"]
    handler.pass_ms(51)
    assert [getattr(item, "code", item) for item in happened] == ["released", 2]


@pytest.mark.parametrize("handled", [True, False])
def test_an_answer_that_never_comes_is_of_a_request_that_took_effect_or_not(handled: bool) -> None:
    handler = Handler()
    handler.plan(1, PlannedAnswer(NEVER, is_handled=handled))
    answers: list[Any] = []
    handler.ask().attach(answers.append)
    handler.pass_ms(60_000)
    assert answers == [] and handler.handled == handled


class Commands:
    """Repeats its commands."""

    def perform(self, name: str, fields: dict[str, Any]) -> Any:
        if name == "fail":
            raise CommandError("it cannot")
        return [name, fields]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ({"token": "secret", "do": "clear", "x": 1}, {"ok": ["clear", {"x": 1}]}),
        ({"token": "secret", "do": "fail"}, {"error": "it cannot"}),
        ({"token": "wrong", "do": "clear"}, {"error": "the token is missing or wrong"}),
        ({"do": "clear"}, {"error": "the token is missing or wrong"}),
        ([1], {"error": "a command is a line with one JSON object"}),
    ],
)
def test_the_control_answers_a_client_that_shows_its_token(
    line: Any, answer: dict[str, Any]
) -> None:
    control = Control(cast("NodeCommands", Commands()), "secret")
    assert control.answer(json.dumps(line).encode()) == answer
    assert control.answer(b"no json") == {"error": "a command is a line with one JSON object"}


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"a": ' * 50_000, b'"', b"\xff"])
def test_a_line_that_is_no_command_is_answered_with_a_sentence(line: bytes) -> None:
    control = Control(cast("NodeCommands", Commands()), "secret")
    assert control.answer(line) == {"error": "a command is a line with one JSON object"}


def test_a_token_that_no_text_can_have_is_wrong() -> None:
    control = Control(cast("NodeCommands", Commands()), "secret")
    line = b'{"token": "\\ud800", "do": "clear"}'
    assert control.answer(line) == {"error": "the token is missing or wrong"}


@pytest.mark.parametrize(
    "fields",
    [
        {"times": None}, {"times": 1e400}, {"times": True}, {"times": 0}, {"ms": 1e400}, {"ms": -1},
        {"ms": float("nan")}, {"ms": "1"}, {"error": 5}, {"error": "NONE_SUCH"}, {"client_id": 1},
        {"handled": 1}, {"api": "NONE_SUCH"}, {"api": None}, {"outcome": "soon"},
    ],
)  # fmt: skip
def test_a_field_of_the_wrong_kind_is_answered_with_a_sentence(fields: dict[str, Any]) -> None:
    handler = Handler()
    server = SimpleNamespace(table={ApiKey.PRODUCE: object()})
    node = cast("Any", SimpleNamespace(servers={"A": server}))
    commands = NodeCommands(node, handler.requests, DiskFaults(), cast("Any", None))
    usual = {"api": "produce", "outcome": LATE, "ms": 5}
    assert commands.perform("requests", usual) == 1
    with pytest.raises(CommandError):
        commands.perform("requests", {**usual, **fields})


@pytest.mark.parametrize("fault", [[], {}, 5, "slow"])
def test_a_fault_that_no_disk_has_is_refused(fault: Any) -> None:
    node = cast("Any", SimpleNamespace(config=SimpleNamespace(log_dirs=["/d"]), broker=None))
    requests, clock = cast("Any", None), cast("Any", None)
    with pytest.raises(CommandError, match="a disk's fault is"):
        NodeCommands(node, requests, DiskFaults(), clock).perform("disk", {"fault": fault})


def test_a_connection_to_the_control_answers_line_by_line() -> None:
    control = Control(cast("NodeCommands", Commands()), "")
    connection = control.accept()
    sent: list[bytes] = []
    connection.on_connected(cast("Any", SimpleNamespace(send=sent.extend)))
    for part in (b'{"do": "le', b'ft"}\n{"do": "clear"}\n{'):
        connection.get_buffer()[: len(part)] = part
        connection.buffer_updated(len(part))
    assert [json.loads(line)["ok"][0] for line in sent] == ["left", "clear"]


def test_the_faults_file_is_its_owners_and_is_read_as_written(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    GIVEN.write(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_faults_file(file) == GIVEN
    file.write_text("{}")
    with pytest.raises(ValueError, match="is not a file that"):
        read_faults_file(file)


def test_a_node_refuses_the_key_of_tests(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(PROPERTIES)
    assert NodeProcess.load(str(file)).node_id == 1
    file.write_text(f"{PROPERTIES}testing.faults.file=/faults.json\n")
    with pytest.raises(StartError, match=r"testing\.faults\.file is for nodes that barnabas\.test"):
        NodeProcess.load(str(file))
