"""Names in a log directory that only look like those of logs and segments."""

from __future__ import annotations

import pytest

from barnabas.log.directories.entry_names import is_foreign, partition_of
from barnabas.log.file_names import offset_of
from barnabas.types import TopicPartition
from tests.unit.log.directories.test_directories import T0, TOPIC_ID, fill
from tests.unit.log.directories_world import PATHS, DirectoriesWorld

UNIQUE = "0123456789abcdef" * 2
FOREIGN = [
    "backup-do-not-delete",
    "t-0-delete",
    "t-0.-delete",
    "t-0.old-delete",
    f"t-0.{UNIQUE[1:]}-delete",
    f"t-0.{UNIQUE.upper()}-delete",
    f"t.{UNIQUE}-delete",
    f"my notes-0.{UNIQUE}-delete",
    f"t-0.{UNIQUE}-deleted",
    "t-0.copy-future",
    "t-0.old-stray",
    "lost+found",
    "my backup-3",
    "t-007",
    "caf\udce9-1",
]


@pytest.mark.parametrize(
    "name", ["t-²", "t-٣", "t-", "-1", "t", f"t-{'9' * 200}", "t-007", "a b-1"]
)
def test_a_folder_without_a_partitions_number_is_no_log(name: str) -> None:
    """``str.isdigit`` accepts ``²``, at which ``int`` raises: a broker with such a folder did not start."""
    assert partition_of(name) is None
    assert partition_of("t-3") == TopicPartition("t", 3)


def test_a_file_without_an_offset_is_no_segment() -> None:
    assert offset_of("²" * 20 + ".log") is None
    assert offset_of(f"{7:020}.log") == 7


@pytest.mark.parametrize("kind", ["folder", "file"])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_entry_of_a_log_directory_is_left_and_said(name: str, kind: str) -> None:
    """Folders whose name ended in ``-delete`` were erased at the start, and such a file ended the node."""
    world = DirectoriesWorld()
    fill(world.logs.create(T0, TOPIC_ID, world.logs.directories[0].directory_id), 3)
    world.stop()
    path = f"{PATHS[0]}/{name}"
    at = f"{path}/precious.tmp" if kind == "folder" else path
    world.start()
    if kind == "folder":
        world.process.disk.make_dirs(path)
    world.process.disk.write_atomic(at, b"precious")
    for _ in range(2):
        world.stop()
        world.start()
        world.run_ms(100_000)
        assert world.process.disk.read_file(at) == b"precious"
    assert not world.offline and list(world.logs.logs) == [T0] and not world.logs.futures.logs
    told = [line for line in world.process.log_lines if "log.foreign_entries" in line]
    assert len(told) == 1 and repr(name) in told[0]


def test_a_foreign_folder_with_a_partitions_name_is_left() -> None:
    """``photos-2024`` is a partition's name; what is in the folder is no log's."""
    world = DirectoriesWorld()
    path = f"{PATHS[0]}/photos-2024"
    world.process.disk.make_dirs(path)
    for name in ("one.jpg", "two.jpg.tmp", "notes.deleted"):
        world.process.disk.write_atomic(f"{path}/{name}", b"precious")
    world.stop()
    world.start()
    assert world.process.disk.list_dir(path) == ["notes.deleted", "one.jpg", "two.jpg.tmp"]
    assert not world.logs.logs and world.logs.directories[0].foreign == ["photos-2024"]


def test_a_file_with_a_partitions_name_is_left() -> None:
    world = DirectoriesWorld()
    world.process.disk.write_atomic(f"{PATHS[0]}/t-5", b"precious")
    world.stop()
    world.start()
    assert world.process.disk.read_file(f"{PATHS[0]}/t-5") == b"precious"
    assert world.logs.directories[0].foreign == ["t-5"]


def test_an_entry_that_a_broker_makes_is_not_foreign() -> None:
    """The directory has a log, a copy of one, a deleted and a stray one."""
    world = DirectoriesWorld()
    first, second = (directory.directory_id for directory in world.logs.directories)
    for number in range(4):
        fill(world.logs.create(TopicPartition("t", number), TOPIC_ID, first), 30)
    target = world.logs.by_id(second)
    assert target is not None
    world.logs.futures.create(T0, target, world.logs.logs[T0])
    world.logs.delete(TopicPartition("t", 1))
    world.logs.delete(TopicPartition("t", 2), is_stray=True)
    world.run_ms(2000)
    names = [name for path in PATHS for name in world.process.disk.list_dir(path)]
    assert sum(name.endswith(("-delete", "-stray", "-future")) for name in names) == 3
    world.run_ms(70_000)
    names += [name for path in PATHS for name in world.process.disk.list_dir(path)]
    world.stop()
    world.start()
    names += [name for path in PATHS for name in world.process.disk.list_dir(path)]
    names += ["recovery-point-offset-checkpoint.next", "recovery-point-offset-checkpoint.next.tmp"]
    assert not [name for name in names if is_foreign(name)]
