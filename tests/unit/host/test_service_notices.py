"""What a service manager receives on its socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.host.loop import Loop
from barnabas.host.process.service_notices import ServiceNotices, watchdog_s
from tests.unit.host.running import run_until


class Manager:
    """The socket of a service manager, and a node that says why it is not ready."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.setblocking(False)
        self.address = address
        self.loop = Loop()
        self.why = "no leader of the metadata quorum is known"
        self.lines: list[str] = []
        self.logged: list[str] = []

    def notices(self, **more: str) -> ServiceNotices:
        environment = {"NOTIFY_SOCKET": self.address, **more}
        return ServiceNotices(
            self.loop,
            lambda level, event, **fields: self.logged.append(event),
            environment,
            lambda: self.why,
        )

    def receives(self, line: str) -> bool:
        try:
            while True:
                self.lines += self.socket.recv(4096).decode().splitlines()
        except BlockingIOError:
            return line in self.lines

    def wait_for(self, line: str) -> None:
        run_until(self.loop, lambda: self.receives(line))


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    is_path = request.param == "path"
    found = Manager(str(tmp_path / "notify") if is_path else f"@barnabas-test-{os.getpid()}")
    yield found
    found.socket.close()
    found.loop.close()


@pytest.mark.slow
def test_a_node_is_ready_once_and_says_why_it_is_not(manager: Manager) -> None:
    notices = manager.notices()
    notices.start()
    manager.wait_for("STATUS=no leader of the metadata quorum is known")
    assert "READY=1" not in manager.lines
    manager.why = ""
    manager.wait_for("READY=1")
    assert manager.lines[-1] == "STATUS=ready"
    manager.why = "the controller has fenced this broker"
    manager.wait_for("STATUS=the controller has fenced this broker")
    notices.stopping()
    manager.wait_for("STOPPING=1")
    assert manager.lines.count("READY=1") == 1 and "WATCHDOG=1" not in manager.lines
    notices.stop()


def test_a_manager_that_was_away_hears_the_rest(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    manager = Manager(address)
    manager.why = ""
    manager.socket.close()
    notices = manager.notices(WATCHDOG_USEC="20000")
    notices.start()
    run_until(manager.loop, lambda: manager.logged == ["service.notice_failed"])
    os.unlink(address)
    manager.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.socket.bind(address)
    manager.socket.setblocking(False)
    manager.wait_for("READY=1")
    run_until(manager.loop, lambda: manager.receives("") or manager.lines.count("WATCHDOG=1") > 1)
    notices.stop()
    manager.socket.close()
    manager.loop.close()


def test_the_watchdog_hears_of_a_loop_that_turns(manager: Manager) -> None:
    notices = manager.notices(WATCHDOG_USEC="20000", WATCHDOG_PID=str(os.getpid()))
    notices.start()
    run_until(manager.loop, lambda: manager.receives("") or manager.lines.count("WATCHDOG=1") > 2)
    notices.stop()


def test_a_lost_manager_costs_one_line_of_the_log(manager: Manager) -> None:
    manager.socket.close()
    if not manager.address.startswith("@"):
        os.unlink(manager.address)
    manager.notices(WATCHDOG_USEC="2000").start()
    run_until(manager.loop, lambda: bool(manager.logged))
    assert manager.logged == ["service.notice_failed"]


def test_a_watchdog_of_another_process_is_not_fed() -> None:
    assert watchdog_s({}) == watchdog_s({"WATCHDOG_USEC": "x"}) == 0
    assert watchdog_s({"WATCHDOG_USEC": "30000000"}) == 30
    assert watchdog_s({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}) == 0


def test_nothing_is_sent_where_no_manager_asks() -> None:
    loop = Loop()
    ServiceNotices(loop, lambda *_, **fields: None, {}, lambda: "").start()
    assert not loop._timers
    loop.close()
