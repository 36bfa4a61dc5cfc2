"""A simulated device with a file system: it forgets, tears, fills up, fails and rots, from one Rng.

:class:`SimDisk` is the device of a machine; it outlives processes. :meth:`SimDisk.open_for_process`
gives one process its view (a :class:`barnabas.ports.Disk`). A process that dies takes its open files
and locks along and loses nothing that it wrote; a machine that loses power also loses what was not
synced, in part and out of order (:mod:`barnabas.sim.world.disk_pages`).

Names are kept in a journal, as file systems do: a power loss keeps some prefix of the operations on names
since the last one that :meth:`ProcessDisk.sync_dir` made durable. Syncing a *file* makes no name durable.

Faults: :meth:`SimDisk.fail_call` makes the n-th call from now fail, once or for good;
`capacity_bytes` fills the disk; :meth:`SimDisk.rot` flips a stored bit silently, and
:meth:`SimDisk.misread` flips one in what a read returns; `hooks` let a process die between two of its
calls; `cold_read_rate` makes reads that may not block return nothing, as those of a file do after a power
loss until a blocking read has loaded it. What happened is in `totals`.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Sequence

from barnabas.ports import Rng
from barnabas.sim.world.disk_hooks import DiskHooks
from barnabas.sim.world.disk_names import Names, Node, parent
from barnabas.sim.world.disk_pages import PagedFile, lose_power
from barnabas.types import Buffer

UNBOUNDED = 1 << 40
COLD_READ_RATES = (0.0, 0.0, 0.0, 0.02, 0.3)
"""How often what is read is not in memory, in one life of a process or another."""
JOURNAL_MAX = 256
"""Operations on names that a power loss may undo."""


class SimDisk:
    """The device: names, files, faults."""

    def __init__(self, rng: Rng, *, capacity_bytes: int = UNBOUNDED) -> None:
        self.rng = rng
        self.lives_rng: Rng | None = None
        """Draws what differs between lives of its processes; without it nothing is cold by itself."""
        self.usual_cold_read_rate = 0.0
        self.capacity_bytes = capacity_bytes
        self.cold_read_rate = 0.0
        self.totals: Counter[str] = Counter()
        self.calls = 0
        """Calls that can fail, so far."""
        self.is_troubled = False
        """Whether a call failed since this was last set to False."""
        self.hooks = DiskHooks()
        self.names = Names()
        self.locks: dict[str, ProcessDisk] = {}
        self._lost: dict[str, bytes] = {}
        """The content of files that were lost."""
        self._journal: list[tuple[set[str], Callable[[], None]]] = []
        self._fail_at = 0
        self._fail_until = 0
        self._fail_prefix = "/"
        self._fail_errno = errno.EIO
        self._process: ProcessDisk | None = None
        self.rotted: set[str] = set()
        """Paths of files in which a bit has flipped. What a process writes there later may have read it."""

    # -- life ------------------------------------------------------------------------------------

    def open_for_process(self) -> ProcessDisk:
        """The view of a process that starts now."""
        if self.lives_rng is not None:
            self.usual_cold_read_rate = self.lives_rng.choice(COLD_READ_RATES)
            self.cold_read_rate = self.usual_cold_read_rate
        self._process = ProcessDisk(self)
        return self._process

    def process_died(self, *, power_loss: bool = False) -> None:
        """kill -9 of the process; with `power_loss` unsynced bytes and names are at risk."""
        if self._process is not None:
            self._process.alive = False
        self.locks.clear()
        self.totals["power_losses" if power_loss else "kills"] += 1
        for node in self.names.values():
            if node is not None:
                node.to_misread = None
        if power_loss:
            self._lose_names()
            lose_power(self.names, self.rng, self.totals)

    def _lose_names(self) -> None:
        if self._journal:
            keep = self.rng.randrange(0, len(self._journal) + 1)
            self.totals["names_lost"] += len(self._journal) - keep
            while len(self._journal) > keep:
                self._journal.pop()[1]()
            self._journal.clear()

    # -- faults ----------------------------------------------------------------------------------

    def fail_call(
        self, nth: int, *, for_good: bool = False, prefix: str = "/", error: int = errno.EIO
    ) -> None:
        """Let the `nth` call from now (1 is the next) on a path below `prefix` fail with `error`; with
        `for_good` all later ones as well. 0 heals."""
        self._fail_at = self.calls + nth if nth else 0
        self._fail_until = 1 << 62 if for_good else self._fail_at
        self._fail_prefix = prefix
        self._fail_errno = error

    @property
    def fault_was_hit(self) -> bool:
        """Whether the call that `fail_call` named has come by."""
        return 0 < self._fail_at <= self.calls

    def content(self, path: str) -> bytes:
        """The content of a file; nothing where it is not there."""
        node = self.names.get(path)
        return bytes(node.data) if node is not None else b""

    def is_rotten(self, path: str) -> bool:
        """Whether a file holds a byte that no process wrote."""
        node = self.names.get(path)
        return node is not None and (
            node.is_rotten() or (path in self._lost and len(node.data) < 2)
        )

    def written(self, path: str, size: int) -> bytes:
        """The first `size` bytes of a file as they would be without damage; all of one that was lost, in
        whose place a node has put one byte."""
        if path in self._lost and len(self.content(path)) < 2:
            return self._lost[path]
        return bytes(memoryview(self.file(path).written())[:size])

    def rot(self, path: str, position: int, bit: int = 0) -> None:
        """Flip one bit of a file, on the device and in memory. The file keeps it under any name."""
        node = self.names[path]
        assert node is not None
        node.rot(position, bit)
        self.rotted.add(path)
        self.totals["bits_rotted"] += 1

    def misread(self, path: str, position: int, bit: int = 0, times: int = 1) -> None:
        """Let the next `times` that this byte is read, while the process lives, get it wrong."""
        self.file(path).to_misread = (position, bit, times)

    def lose(self, paths: Sequence[str]) -> None:
        """These files are gone, though no process removed them."""
        self._journal.clear()
        for path in paths:
            self._lost[path] = bytes(self.file(path).written())
            del self.names[path]
        self.totals["files_lost"] += len(paths)

    def wipe(self, directory: str) -> None:
        """Put an empty device in the place of `directory`: nothing of it is left."""
        self._journal.clear()
        for path in [*self.below(directory), directory]:
            if path in self.names:
                del self.names[path]
        self.totals["directories_replaced"] += 1

    def check_call(self, path: str) -> None:
        """Count a call on `path`; fail where a fault is due."""
        self.calls += 1
        if self._fail_at:
            self._maybe_fail(path)

    def announce(self, path: str) -> None:
        """Something at `path` is about to change, or to be synced."""
        if self.hooks.on_change is not None:
            self.hooks.on_change(path)

    def _maybe_fail(self, path: str) -> None:
        if self._fail_at <= self.calls <= self._fail_until:
            if path.startswith(self._fail_prefix):
                self.totals["calls_failed"] += 1
                self.is_troubled = True
                raise OSError(self._fail_errno, os.strerror(self._fail_errno), path)
            if self._fail_until == self._fail_at:
                self._fail_at = self._fail_until = self.calls + 1

    def used_bytes(self) -> int:
        return sum(len(node.data) for node in self.names.values() if node is not None)

    def room_for(self, grows: int, path: str) -> int:
        """How many of `grows` further bytes fit."""
        if self.capacity_bytes >= UNBOUNDED:
            return grows
        return max(0, min(grows, self.capacity_bytes - self.used_bytes()))

    # -- names -----------------------------------------------------------------------------------

    def file(self, path: str) -> PagedFile:
        node = self.names.get(path)
        if node is None:
            if path not in self.names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def need_dir(self, path: str) -> None:
        node = self.names.get(path, self)
        if node is self:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if node is not None:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)

    def add(self, path: str, node: Node) -> None:
        directory = parent(path)
        self.need_dir(directory)
        self.announce(path)
        self.names[path] = node
        self._record({directory}, lambda: self._take(path))

    def _take(self, path: str) -> None:
        del self.names[path]

    def move(self, source: str, target: str) -> None:
        """Rename a file or a whole directory."""
        directory = parent(target)
        self.need_dir(directory)
        if source not in self.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        is_directory = self.names[source] is None
        if is_directory and self.below(target):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        self.announce(source)
        replaced = self.names.get(target, self)
        sources = [source, *self.below(source)] if is_directory else [source]
        moved = {path: self.names.take(path) for path in sources}
        for path, node in moved.items():
            self.names[target + path[len(source) :]] = node

        def undo() -> None:
            for path in moved:
                del self.names[target + path[len(source) :]]
            self.names.put_back(moved)
            if not isinstance(replaced, SimDisk):
                self.names[target] = replaced

        self._record({parent(source), directory}, undo)

    def drop(self, paths: Sequence[str]) -> None:
        self.announce(paths[0])
        dropped = {path: self.names.take(path) for path in paths}
        self._record({parent(paths[0])}, lambda: self.names.put_back(dropped))

    def _record(self, directories: set[str], undo: Callable[[], None]) -> None:
        """Journal one operation on names; the oldest become durable by themselves in time."""
        self._journal.append((directories, undo))
        if len(self._journal) > JOURNAL_MAX:
            del self._journal[: JOURNAL_MAX // 2]

    def below(self, path: str) -> list[str]:
        """Every path below a directory, at any depth."""
        return list(self.names.below(path.rstrip("/") or "/"))

    def commit_names(self, directory: str) -> None:
        """Make durable what the journal has up to its last operation in `directory`."""
        for at in range(len(self._journal) - 1, -1, -1):
            if directory in self._journal[at][0]:
                del self._journal[: at + 1]
                return


def dead(path: str) -> OSError:
    """The error of a call that comes after the end of its process."""
    return OSError(errno.ESHUTDOWN, "this process is dead", path)


class SimFile:
    """``ports.File`` of one process."""

    __slots__ = ("_disk", "_paged", "_open", "_process_disk", "_path")

    def __init__(self, disk: ProcessDisk, path: str, paged: PagedFile) -> None:
        self._process_disk = disk
        self._disk = disk.device
        self._path = path
        self._paged = paged
        self._open = True

    @property
    def path(self) -> str:
        return self._path

    def _check(self) -> None:
        if self._disk.hooks.on_call is not None:
            self._disk.hooks.on_call()
        if not self._open:
            raise ValueError(f"{self._path} is closed")
        if not self._process_disk.alive:
            raise dead(self._path)
        self._disk.check_call(self._path)

    def size(self) -> int:
        return len(self._paged.data)

    def append(self, parts: Sequence[Buffer]) -> int:
        try:
            self._check()
        except OSError:
            size = self._disk.rng.randrange(0, _total(parts) + 1)
            self._write_part(len(self._paged.data), parts, size)
            raise
        position = len(self._paged.data)
        disk = self._disk
        if disk.hooks.on_change is not None:
            disk.hooks.on_change(self._path)
        if disk.capacity_bytes < UNBOUNDED:
            self._check_room(position, parts)
        self._paged.write(position, parts)
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        self._check()
        self._disk.announce(self._path)
        if self._disk.capacity_bytes < UNBOUNDED:
            self._check_room(position, [data])
        self._paged.write(position, [data])

    def _check_room(self, position: int, parts: Sequence[Buffer]) -> None:
        """Check the room. Where `parts` do not fit a first part of them is written, and the call fails."""
        disk = self._disk
        grows = position + _total(parts) - len(self._paged.data)
        fits = disk.room_for(grows, self._path) if grows > 0 else grows
        if fits < grows:
            self._write_part(position, parts, max(_total(parts) - (grows - fits), 0))
            disk.totals["writes_without_room"] += 1
            disk.is_troubled = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def _write_part(self, position: int, parts: Sequence[Buffer], size: int) -> None:
        """Write what a failed write leaves behind: some first part of it."""
        if self._process_disk.alive:
            self._paged.write(position, [b"".join(parts)[:size]])

    def read_at(self, position: int, size: int) -> bytes:
        self._check()
        self._paged.is_cold = False
        return self._read(position, size)

    def _read(self, position: int, size: int) -> bytes:
        if position < 0:
            raise OSError(errno.EINVAL, "Invalid argument", self._path)
        if self._paged.to_misread is None:
            return bytes(self._paged.data[position : position + size])
        before, data = self._paged.to_misread, self._paged.read(position, size)
        self._disk.totals["bits_misread"] += self._paged.to_misread != before
        return data

    def try_read_at(self, position: int, size: int) -> bytes | None:
        rate = self._disk.cold_read_rate
        if self._paged.is_cold or (rate and self._disk.rng.random() < rate):
            self._disk.totals["cold_reads"] += 1
            return None
        self._check()
        return self._read(position, size)

    def truncate(self, size: int) -> None:
        self._check()
        self._disk.announce(self._path)
        if self._disk.rng.random() < 0.3:
            self._paged.sync()  # what is cut may have been written back before
        self._paged.truncate(size)

    def sync(self) -> None:
        self._check()
        if self._disk.hooks.on_change is not None:
            self._disk.hooks.on_change(self._path)
        self._paged.sync()
        self._disk.totals["syncs"] += 1

    def close(self) -> None:
        self._open = False


def _total(parts: Sequence[Buffer]) -> int:
    return sum(map(len, parts))


class ProcessDisk:
    """``ports.Disk`` of one life of a process."""

    def __init__(self, device: SimDisk) -> None:
        self.device = device
        self.alive = True

    def check(self, path: str) -> None:
        """Every call passes here: a dead process does nothing, and faults are due here."""
        if self.device.hooks.on_call is not None:
            self.device.hooks.on_call()
        if not self.alive:
            raise dead(path)
        self.device.check_call(path)

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.check(path)
        if create and path not in self.device.names:
            self.device.add(path, PagedFile())
        return SimFile(self, path, self.device.file(path))

    def read_file(self, path: str) -> bytes:
        self.check(path)
        return bytes(self.device.file(path).data)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        device, temporary = self.device, path + ".tmp"
        self.check(path)
        node = PagedFile()
        if temporary in device.names:
            device.drop([temporary])
        device.add(temporary, node)
        if device.room_for(len(data), path) < len(data):
            device.totals["writes_without_room"] += 1
            device.is_troubled = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        node.write(0, [data])
        if durable:
            self.check(path)
            device.announce(temporary)
            node.sync()
        self.check(path)
        device.move(temporary, path)
        if durable:
            self.sync_dir(parent(path))

    def exists(self, path: str) -> bool:
        return path in self.device.names

    def is_dir(self, path: str) -> bool:
        return self.device.names.get(path, self) is None

    def list_dir(self, path: str) -> list[str]:
        self.check(path)
        self.device.need_dir(path)
        directory = path.rstrip("/") or "/"
        start = len(directory.rstrip("/")) + 1
        return sorted([name[start:] for name in self.device.names.entries(directory)])

    def make_dirs(self, path: str) -> None:
        self.check(path)
        made = ""
        for part in path.strip("/").split("/"):
            made += "/" + part
            if made not in self.device.names:
                self.device.add(made, None)
            self.device.need_dir(made)

    def rename(self, source: str, target: str) -> None:
        self.check(source)
        self.device.move(source, target)

    def remove(self, path: str) -> None:
        self.check(path)
        self.device.file(path)
        self.device.drop([path])

    def remove_tree(self, path: str) -> None:
        self.check(path)
        self.device.need_dir(path)
        self.device.drop([path, *self.device.below(path)])

    def size(self, path: str) -> int:
        self.check(path)
        return len(self.device.file(path).data)

    def sync_dir(self, path: str) -> None:
        self.check(path)
        self.device.need_dir(path)
        self.device.announce(path)
        self.device.commit_names(path)
        self.device.totals["syncs"] += 1

    def try_lock(self, path: str) -> bool:
        self.check(path)
        if path not in self.device.names:
            self.device.add(path, PagedFile())
        return self.device.locks.setdefault(path, self) is self

    def free_bytes(self, path: str) -> tuple[int, int]:
        self.check(path)
        used = self.device.used_bytes()
        return self.device.capacity_bytes, max(self.device.capacity_bytes - used, 0)
