"""Compile the pipeline's loops ahead of the first task that needs them.

The compiler's work is kept on disk beside the code (or in the user's cache directory), so this costs some
seconds once per installation and little afterwards. A session's start runs it as a process of its own while
Spark's JVM starts (`in_background`). What plain reading needs is compiled first. A task that comes before
that part is done waits for it (`wait_for_loops`); otherwise each worker would compile the same once more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import metadata, util
from typing import IO

from barnabas.host.own_folder import own_folder

READING, ALL = "reading", "all"
NICENESS = 10
WAIT_S = 120.0
"""How long a task waits for another process that compiles, which takes up to half a minute."""
LOOK_AGAIN_S = 0.05


def warm_up() -> None:
    """Have every loop compiled, by encoding a row and decoding it again."""
    with _alone(READING):
        _read()
    with _alone(ALL):
        _read_all_and_write()
        _note_done()


def warm_up_reading() -> None:
    """Have the loops of plain reading compiled; where all have been compiled before, load all."""
    if is_done():
        warm_up()
        return
    with _alone(READING):
        _read()


def in_background() -> None:
    """Start `warm_up` as a process of its own, unless it has been done in this installation."""
    if is_done() or util.find_spec("numba") is None or own_folder() is None:
        return
    subprocess.Popen(
        [sys.executable, "-m", "barnabas.pipeline.warm_up"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def wait_for_loops(kind: str) -> None:
    """Wait while another process compiles the loops of this kind."""
    if not is_done():
        with _alone(kind):
            pass


def is_done() -> bool:
    """Whether `warm_up` has ended once with these packages and this place for machine code."""
    path = _path(ALL)
    try:
        with open(path or os.devnull) as file:
            return file.read() == _installation()
    except OSError:
        return False


def _note_done() -> None:
    path = _path(ALL)
    if path is not None:
        with contextlib.suppress(OSError), open(path, "w") as file:
            file.write(_installation())


def _installation() -> str:
    """The words on which machine code depends, but for those of the machine."""
    spec = util.find_spec("barnabas.record.columnar_kernels")
    source = spec.origin if spec is not None and spec.origin is not None else __file__
    words = [sys.executable, sys.version, source, str(os.stat(source).st_mtime_ns)]
    words.append(os.environ.get("NUMBA_CACHE_DIR", ""))
    with contextlib.suppress(metadata.PackageNotFoundError):
        words.append(metadata.version("numba"))
    return "\n".join(words)


def _path(kind: str) -> str | None:
    folder = own_folder()
    return None if folder is None else os.path.join(folder, f"loops-{kind}")


@contextlib.contextmanager
def _alone(kind: str) -> Iterator[None]:
    """Only one process of this user is in this block for a kind; a process that dies leaves it. Behind one
    that takes longer than `WAIT_S` (it is stopped, or hangs) the block begins all the same: the loops are
    compiled twice then."""
    path = _path(kind)
    if path is None:
        yield
        return
    with open(path, "a") as file:
        until = time.monotonic() + WAIT_S
        while not _locked(file) and time.monotonic() < until:
            time.sleep(LOOK_AGAIN_S)
        yield


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read() -> None:
    from barnabas.record.builder import build_batch
    from barnabas.record.columnar import ALL as COLUMNS
    from barnabas.record.columnar import HEADERS, decode_groups

    batch = bytes(build_batch([(b"key", b"value")], timestamp_ms=0))
    list(decode_groups(batch, 0, 1, wanted=COLUMNS - {HEADERS}))


def _read_all_and_write() -> None:
    import pyarrow as pa

    from barnabas.pipeline.options import ClusterOptions, SinkOptions
    from barnabas.pipeline.write.batch_encoder import BatchEncoder
    from barnabas.record.columnar import SMALL_RUN, decode, repeated_text

    columns = [repeated_text(name, 1) for name in ("key", "value")]
    rows = pa.RecordBatch.from_arrays(columns, names=["key", "value"])
    options = SinkOptions(ClusterOptions(()), topic="none")
    encoder = BatchEncoder(options, lambda _: 1, wall_ms=0, turn=0)
    for batch in encoder.encode(rows):
        decode(batch.data, 0, 1, include_headers=True)
        # Many small batches are decoded by a loop of their own.
        decode(bytes(batch.data) * (SMALL_RUN + 1), 0, 1)


def main() -> None:
    """`warm_up`, and out of the first query's way once plain reading is compiled."""
    with _alone(READING):
        _read()
    os.nice(NICENESS)
    warm_up()


if __name__ == "__main__":
    main()
