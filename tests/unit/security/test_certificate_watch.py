"""When a node's certificates end: a metric per listener, and an event per day in the last month."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.local.certificate_authority import Authority
from barnabas.host.tls_contexts import HostSecrets
from barnabas.security.certificate_watch import CERTIFICATES, DAY_MS, CertificateWatch
from barnabas.security.tls_settings import SecurityKeys, tls_settings

START_MS = 1_000_000.0


class World:
    """A clock that is moved by hand, real certificates, and no network."""

    def __init__(self, wall_ms: int) -> None:
        self.events: list[tuple[str, str, dict[str, object]]] = []
        self.timers: list[tuple[float, object]] = []
        self.wall = wall_ms
        self.now = START_MS
        self.secrets = HostSecrets(self.log)
        self.clock = self.wakeups = self

    def log(self, level: str, event: str, **fields: object) -> None:
        self.events.append((level, event, fields))

    def now_ms(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return self.wall

    def call_at(self, when_ms: float, callback: object) -> None:
        self.timers.append((when_ms, callback))

    def pass_day(self) -> None:
        when_ms, callback = self.timers.pop()
        assert when_ms == self.now + DAY_MS
        self.now, self.wall = when_ms, self.wall + int(DAY_MS)
        callback()  # type: ignore[operator]


class Stage:
    """What the watch takes of a listener."""

    def __init__(self, file: Path | None) -> None:
        self.security = self
        self.tls = None
        if file is not None:
            keys = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)}
            self.tls = tls_settings(SecurityKeys(keys), is_server=True)


def write(file: Path, days: float) -> int:
    """A certificate of `days`; when it ends, in ms."""
    identity = Authority(days=days).identity("node-1")
    draft = file.with_suffix(".new")
    draft.write_text(identity.pem())
    draft.replace(file)
    return int(identity.certificate.not_valid_after_utc.timestamp() * 1000)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "node.pem"


def watch(world: World, file: Path) -> CertificateWatch:
    stages = {"CLIENTS": Stage(file), "PLAIN": Stage(None)}
    return CertificateWatch(world, stages)  # type: ignore[arg-type]


def test_a_metric_has_the_seconds_that_are_left(file: Path) -> None:
    ends_ms = write(file, 40)
    world = World(ends_ms - 5_000)
    assert watch(world, file).metrics() == {f"{CERTIFICATES}CLIENTS": 5}
    world.wall = ends_ms + 1_500
    assert watch(world, file).metrics() == {f"{CERTIFICATES}CLIENTS": -2}


def test_an_event_tells_each_day_of_the_last_month(file: Path) -> None:
    world = World(write(file, 40) - int(31.5 * DAY_MS))
    watch(world, file).begin()
    assert world.events == []
    world.pass_day()
    assert world.events == []
    for days in (29, 28):
        world.pass_day()
        event = ("warning", "tls.certificate_expires", {"listener": "CLIENTS", "days": days})
        assert world.events.pop() == event
    world.wall += int(40 * DAY_MS)
    world.pass_day()
    assert world.events[-1][0] == "error" and len(world.events) == 1


def test_a_replaced_certificate_counts_at_the_next_look(file: Path) -> None:
    world = World(write(file, 2) - int(DAY_MS))
    watched = watch(world, file)
    watched.begin()
    assert [event for _, event, _ in world.events] == ["tls.certificate_expires"]
    write(file, 90)
    world.pass_day()
    assert world.events[-1][1] == "tls.reloaded" and len(world.events) == 2
    assert watched.seconds_left()["CLIENTS"] > 80 * 86_400


def test_a_node_without_tls_looks_at_nothing(tmp_path: Path) -> None:
    world = World(0)
    CertificateWatch(world, {"PLAIN": Stage(None)}).begin()  # type: ignore[arg-type, dict-item]
    assert world.timers == []
