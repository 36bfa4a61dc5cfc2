"""``barnabas node start`` of a controller that dies, or kills a broker, at a point of the migration.

`Ambush` is a file of points, each with a process id, 0 for the controller that comes to the point. A
controller that comes to the first of them removes it and sends SIGKILL. Points are ``before EFFECT`` and
``after EVENT`` of the migration's machine (`barnabas.zookeeper.migration.driver`), and ``before write`` and
``after write``: of a decision's znodes in dual write.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from barnabas.zookeeper.migration.driver import MigrationPhase
from barnabas.zookeeper.migration.online_migration import OnlineMigration


class Ambush:
    """Who dies next, and where."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def lay(self, points: Iterable[tuple[str, int]]) -> None:
        draft = self.file.with_suffix(".new")
        draft.write_text(json.dumps(list(points)))
        draft.replace(self.file)

    def left(self) -> list[tuple[str, int]]:
        if not self.file.exists():
            return []
        return [(point, pid) for point, pid in json.loads(self.file.read_text())]

    def reach(self, point: str) -> None:
        """Whose turn it is dies."""
        left = self.left()
        if not left or left[0][0] != point:
            return
        self.lay(left[1:])
        os.kill(left[0][1] or os.getpid(), signal.SIGKILL)


def watch(ambush: Ambush) -> None:
    """Every migration of this process comes by its points."""

    def of(name: str, wrapped: Callable[..., Callable[..., None]]) -> None:
        setattr(OnlineMigration, name, wrapped(getattr(OnlineMigration, name)))

    def do(original: Callable[..., None]) -> Callable[..., None]:
        def before(self: OnlineMigration, effect: Any) -> None:
            ambush.reach(f"before {effect.value}")
            original(self, effect)

        return before

    def on(original: Callable[..., None]) -> Callable[..., None]:
        def after(self: OnlineMigration, event: Any) -> None:
            ambush.reach(f"after {type(event).__name__}")
            original(self, event)

        return after

    def write_all(original: Callable[..., None]) -> Callable[..., None]:
        def around(self: OnlineMigration, writes: Any, then: Callable[[], None]) -> None:
            def written() -> None:
                ambush.reach("after write")
                then()

            if self.migration.phase is MigrationPhase.DUAL_WRITE:
                ambush.reach("before write")
                original(self, writes, written)
            else:
                original(self, writes, then)

        return around

    of("_do", do)
    of("_on", on)
    of("_write_all", write_all)


if __name__ == "__main__":
    _, points, properties = sys.argv
    watch(Ambush(Path(points)))
    sys.argv = ["barnabas", "node", "start", properties]
    runpy.run_module("barnabas", run_name="__main__", alter_sys=True)
