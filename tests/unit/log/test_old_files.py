"""Files that nobody needs any more go, whatever became of others of them."""

from __future__ import annotations

from tests.unit.log.directories_world import PATHS, DirectoriesWorld
from tests.unit.log.test_directories import T0, T1, TOPIC_ID, fill


def test_what_a_deleted_log_took_along_keeps_no_other_files() -> None:
    """Both lose segments to retention; then the one's directory gets another name."""
    world = DirectoriesWorld()
    first = world.logs.directories[0]
    for partition in (T0, T1):
        log = world.logs.create(partition, TOPIC_ID, first.directory_id)
        fill(log, 40)
        log.move_high_watermark(40)
        log.advance_log_start(30)
    world.logs.apply_retention()
    world.logs.delete(T0)
    world.run_ms(20_000)
    names = world.process.disk.list_dir(f"{PATHS[0]}/{T1}")
    assert [name for name in names if name.endswith(".deleted")] == []
