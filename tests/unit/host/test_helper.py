"""The helper process: it does what the node's own would, may die, and never outlives its node."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from barnabas.host.disk import HostDisk
from barnabas.host.helper import HelperProcess
from barnabas.log.compaction import cleaning_pass
from barnabas.log.compaction.compactor import Compactor, HelpedCompactor, LocalCompactor
from barnabas.log.config import LogConfig
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.ports import HelperDied
from barnabas.record.builder import build_batch
from barnabas.record.compression import Codec
from barnabas.types import TopicPartition
from tests.process.launch import wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]
NOW = 1_750_000_000_000
CONFIG = LogConfig(segment_bytes=20_000, cleanup_policy=("compact",))
SERVICE = "waiting_service"
SERVICE_TEXT = """
import time

def serve(disk, secret):
    def wait(request):
        open(request, "x").close()
        time.sleep(1000)

    return wait
"""
"""It makes the file that the request names, and answers nothing."""


def open_at(path: Path) -> PartitionLog:
    disk, partition = HostDisk(), TopicPartition("t", 0)
    return open_log(FileCache(disk), str(path), partition, CONFIG, LogCheckpoints(clean=False)).log


def written(path: Path) -> PartitionLog:
    log = open_at(path)
    for number in range(60):
        records = [(b"key-%d" % (at % 40), b"%d" % number * 20) for at in range(20)]
        codec = list(Codec)[number % len(Codec)]
        batch = build_batch([*records, (b"%d" % number, None)], timestamp_ms=NOW, codec=codec)
        log.append_as_leader(batch, leader_epoch=1, wall_ms=NOW)
    log.roll()
    log.flush()
    log.durability.compactable_to = log.recovery_point
    log.high_watermark = log.log_end_offset
    return log


def compact(log: PartitionLog, compactor: Compactor) -> None:
    plan = cleaning_pass.make_plan(log, 0, NOW)
    end = compactor.begin(plan, 1000)
    for group in cleaning_pass.groups_of(plan, end):
        assert cleaning_pass.swap(log, plan, compactor.clean(group))
    for path in log.deleted_paths:
        os.unlink(path)
    log.close(clean=False)


def test_it_leaves_the_same_files(tmp_path: Path) -> None:
    written(tmp_path / "here").close()
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    helper = HelperProcess()
    for name, compactor in (("here", LocalCompactor()), ("there", HelpedCompactor(helper))):
        log = open_at(tmp_path / name)
        log.durability.compactable_to = log.high_watermark = log.log_end_offset
        compact(log, compactor)
    helper.close()
    left = [
        {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()}
        for name in ("here", "there")
    ]
    assert left[0] == left[1]
    assert helper.starts == 1 and helper.pid is None


def test_an_unreadable_batch_is_reported_as_in_process(tmp_path: Path) -> None:
    log = written(tmp_path / "t")
    plan = cleaning_pass.make_plan(log, 0, NOW)
    path = Path(log.segments[0].path)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    helper = HelperProcess()
    with pytest.raises(CorruptLogError) as here:
        LocalCompactor().begin(plan, 1000)
    with pytest.raises(CorruptLogError) as there:
        HelpedCompactor(helper).begin(plan, 1000)
    assert str(here.value) == str(there.value)
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        HelpedCompactor(helper).begin(plan, 1000)
    helper.close()


def test_a_helper_that_was_killed_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{SERVICE}.py").write_text(SERVICE_TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    helper, errors = HelperProcess(), list[str]()
    begun = tmp_path / "begun"

    def call() -> None:
        try:
            helper.call(SERVICE, os.fsencode(begun))
        except HelperDied as error:
            errors.append(str(error))

    caller = threading.Thread(target=call)
    caller.start()
    wait_until(begun.exists, "it works")
    os.kill(helper.pid or 0, signal.SIGKILL)
    caller.join(10)
    assert errors == ["it ended with status -9"]
    log = written(tmp_path / "t")
    compact(log, HelpedCompactor(helper))
    assert helper.starts == 2
    helper.close()
    compact(open_at(tmp_path / "t"), LocalCompactor())


def test_a_helper_that_is_ended_while_it_starts_answers_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node's end would wait for it."""
    (tmp_path / f"{SERVICE}.py").write_text(SERVICE_TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    helper, start, begun = HelperProcess(), subprocess.Popen, tmp_path / "begun"

    def end_meanwhile(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = start(*arguments, **options)
        helper.close()
        return process

    monkeypatch.setattr(subprocess, "Popen", end_meanwhile)
    with pytest.raises(HelperDied, match="it was ended"):
        helper.call(SERVICE, os.fsencode(begun))
    assert helper.pid is None and not begun.exists()


def test_it_ends_with_its_node_whatever_it_does(tmp_path: Path) -> None:
    (tmp_path / f"{SERVICE}.py").write_text(SERVICE_TEXT)
    begun = os.fsencode(tmp_path / "begun")
    script = (
        "import os, threading, time\n"
        "from barnabas.host.helper import HelperProcess\n"
        "helper = HelperProcess()\n"
        f"threading.Thread(target=helper.call, args=({SERVICE!r}, {begun!r})).start()\n"
        f"while not os.path.exists({begun!r}): time.sleep(0.01)\n"
        "print(helper.pid, flush=True)\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    node = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONPATH=path),
    )
    assert node.stdout is not None
    pid = int(node.stdout.readline())
    node.kill()
    node.wait()
    node.stdout.close()
    wait_until(lambda: not is_alive(pid), "the helper is gone")


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
