"""One simulated file: its bytes as a process sees them, and what of them a power loss would leave.

Content is written in pages. Until a sync a changed page may reach the device or not, in any order, or
in part: :meth:`PagedFile.lose_power` draws for each one. A length that was not synced may be the
old one, the new one, or anything between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from posixpath import splitext

from barnabas.ports import Rng
from barnabas.types import Buffer

PAGE = 4096
SECTOR = 512
"""The bytes that a device writes whole."""


class PagedFile:
    """Bytes, and the last synced content of every page that changed since."""

    __slots__ = (
        "_dirty", "_synced_pages", "damage", "data", "is_cold", "synced_size", "to_misread",
    )  # fmt: skip

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced_size = 0
        self.damage: dict[int, tuple[int, int]] = {}
        """Position of a byte that rotted → (what it is now, what was written)."""
        self.is_cold = False
        """Nothing of it is in memory: the machine was restarted, and no blocking read has loaded it since."""
        self.to_misread: tuple[int, int, int] | None = None
        """Position and bit of a byte that the next reads of it get wrong, and how many."""
        self._dirty: set[int] = set()
        self._synced_pages: dict[int, bytes] = {}

    @property
    def is_dirty(self) -> bool:
        return bool(self._dirty) or len(self.data) != self.synced_size

    def rot(self, position: int, bit: int) -> None:
        """Flip one bit behind everybody's back."""
        now = self.data[position] ^ 1 << bit
        _, written = self.damage.get(position, (0, self.data[position]))
        self.damage[position] = (now, written)
        self.data[position] = now

    def read(self, position: int, size: int) -> bytes:
        """Read as the device does where one byte is `to_misread`."""
        assert self.to_misread is not None
        data = bytes(self.data[position : position + size])
        at, bit, times = self.to_misread
        if not position <= at < position + len(data):
            return data
        self.to_misread = (at, bit, times - 1) if times > 1 else None
        wrong = bytearray(data)
        wrong[at - position] ^= 1 << bit
        return bytes(wrong)

    def is_rotten(self) -> bool:
        """Whether a byte is not what was written there; a power loss may have put it back."""
        for position, (now, written) in list(self.damage.items()):
            if now == written or self.data[position : position + 1] != bytes([now]):
                del self.damage[position]
        return bool(self.damage)

    def written(self) -> bytearray:
        """The content as it would be without rot."""
        if not self.damage or not self.is_rotten():
            return self.data
        sound = bytearray(self.data)
        for position, (_, written) in self.damage.items():
            sound[position] = written
        return sound

    def _forget_damage(self, start: int, end: int) -> None:
        for position in [at for at in self.damage if start <= at < end]:
            del self.damage[position]

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        """Put `parts` one after the other at `position`; a gap before it becomes zeros."""
        data, end = self.data, position + sum(map(len, parts))
        length = len(data)
        start = position if position < length else length
        page = start // PAGE
        if page not in self._dirty or end > (page + 1) * PAGE:
            self._touch(start, end)
        if self.damage:
            self._forget_damage(start, end)
        if position >= length:
            if position > length:
                data.extend(bytes(position - length))
            for part in parts:
                data += part
            return
        for part in parts:
            data[position : position + len(part)] = part
            position += len(part)

    def truncate(self, size: int) -> None:
        self._touch(min(size, len(self.data)), max(size, len(self.data)))
        if self.damage:
            self._forget_damage(size, len(self.data))
        if size < len(self.data):
            del self.data[size:]
        else:
            self.data.extend(bytes(size - len(self.data)))

    def _touch(self, start: int, end: int) -> None:
        """Remember the synced content of the pages that [start, end) changes."""
        for page in range(start // PAGE, -(-end // PAGE)):
            if page not in self._dirty:
                self._dirty.add(page)
                if page * PAGE < self.synced_size:
                    self._synced_pages[page] = bytes(self.data[page * PAGE : (page + 1) * PAGE])

    def sync(self) -> None:
        self._dirty.clear()
        self._synced_pages.clear()
        self.synced_size = len(self.data)

    def unsynced_sectors(self) -> list[int]:
        """Numbers of the sectors that changed and have nothing synced."""
        first, end = -(-self.synced_size // SECTOR), -(-len(self.data) // SECTOR)
        return [n for n in range(first, end) if n * SECTOR // PAGE in self._dirty]

    def sector(self, number: int) -> bytes:
        return bytes(self.data[number * SECTOR : (number + 1) * SECTOR])

    def land(self, number: int, content: bytes) -> bool:
        """Take a sector that was meant for elsewhere; whether the file, as it is now, reaches so far."""
        start = number * SECTOR
        size = min(len(content), len(self.data) - start)
        if size <= 0:
            return False
        self.data[start : start + size] = content[:size]
        return True

    def lose_power(self, rng: Rng, totals: Counter[str]) -> None:
        """Become what the device has: synced content, and what chance let through of the rest."""
        if not self.is_dirty:
            return
        if rng.random() < 0.25:  # written back in time, as it usually is
            self.sync()
            return
        size = self._surviving_size(rng)
        totals["bytes_lost"] += max(len(self.data) - size, 0)
        after = bytearray(size)
        kept = min(size, len(self.data))
        after[:kept] = self.data[:kept]
        for page in sorted(self._dirty):
            start, end = page * PAGE, min((page + 1) * PAGE, size)
            if start >= size:
                continue
            old = self._synced_pages.get(page, b"")[: end - start].ljust(end - start, b"\0")
            fate = rng.random()
            if fate < 0.4:
                continue
            if fate < 0.8:
                after[start:end] = old
                totals["pages_lost"] += 1
            else:
                cut = min(SECTOR * rng.randrange(1, PAGE // SECTOR), end - start)
                after[start + cut : end] = old[cut:]
                totals["pages_torn"] += 1
        self.data = after
        self.sync()

    def _surviving_size(self, rng: Rng) -> int:
        low, high = sorted((self.synced_size, len(self.data)))
        fate = rng.random()
        if low == high or fate < 0.3:
            return self.synced_size
        if fate < 0.6:
            return len(self.data)
        return rng.randrange(low, high + 1)


def lose_power(names: Mapping[str, PagedFile | None], rng: Rng, totals: Counter[str]) -> None:
    """All files of a device become what it has of them; a sector may stand in another's place."""
    files = {path: file for path, file in sorted(names.items()) if file is not None}
    misdirected = _misdirected({p: file for p, file in files.items() if file.is_dirty}, rng)
    for file in files.values():
        file.lose_power(rng, totals)
        file.is_cold = True
    if misdirected is not None:
        target, number, content = misdirected
        totals["sectors_misdirected"] += target.land(number, content)


def _misdirected(files: dict[str, PagedFile], rng: Rng) -> tuple[PagedFile, int, bytes] | None:
    """A sector in whose place the device puts another one, and what that has; neither is synced. Never one of
    the same number of another file of its kind: a batch says which offset it has, but not of what."""
    sectors = [(path, number) for path, file in files.items() for number in file.unsynced_sectors()]
    if rng.random() < 0.5 or not sectors:
        return None
    path, number = rng.choice(sectors)
    kind = splitext(path)[1]
    sources = [(p, n) for p, n in sectors if n != number or splitext(p)[1] != kind]
    if not sources:
        return None
    source, other = rng.choice(sources)
    return files[path], number, files[source].sector(other)
