"""The logs of a partition's replicas as chains of batches, which makes two logs cheap to compare.

A :class:`Link` is one batch with everything before it. Two replicas have the same log up to an offset exactly
if their chains have the same link there. Equal bytes after the same link give the same link, so each batch of
a replica is read and compared once, when it is appended.

Bytes are read from the simulated device as they were written. The node cannot notice that, no injected fault
is used up, and bit rot does not make another log. A check reads on from the end of the last one. After a
restart or a truncation it compares from the offset that may have changed. :meth:`HeldLog.verify` reads
everything.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeAlias

from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.segments.segment import Segment
from barnabas.record.batch import HEADER_SIZE, BatchHeader, check_shape, read_header
from barnabas.sim.history import Violation
from barnabas.sim.world.disk import SimDisk

Place: TypeAlias = tuple[int, int]
"""(end offset, leader epoch) of a batch."""


class Link:
    """One batch and, through `previous_link`, everything before it."""

    __slots__ = ("data", "end", "epoch", "following", "header", "holders", "previous_link", "start")

    def __init__(
        self,
        start: int,
        end: int,
        epoch: int,
        previous_link: Link | None,
        header: BatchHeader | None = None,
        data: bytes = b"",
    ) -> None:
        self.start = start
        self.end = end
        """The offset after the batch's last record."""
        self.epoch = epoch
        self.previous_link = previous_link
        self.following: list[Link] = []
        """The links that follow this one in any replica's log: mostly one."""
        self.holders: set[int] = set()
        """Ids of nodes that have held it. Since then a power loss may have removed it."""
        self.header = header
        """None for the root of a log that does not begin at 0."""
        self.data = data
        """The bytes of the batch."""

    def found_in(self, data: bytes, position: int) -> Link | None:
        """The link of the batch at `position` in `data`, behind this one; None where no replica had it."""
        for link in self.following:
            if data.startswith(link.data, position):
                return link
        return None

    @property
    def digest(self) -> str:
        """A digest of the batch and everything before it: it differs from that of another link at the same
        offset."""
        chain = [self]
        while (previous := chain[-1].previous_link) is not None:
            chain.append(previous)
        digest = blake2b(b"root %d" % chain[-1].start, digest_size=4)
        for link in reversed(chain):
            digest.update(link.data)
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"[{self.start}, {self.end}) of epoch {self.epoch} ({self.digest})"


class LogVersions:
    """Every link that any replica of one log was seen to hold."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._roots: dict[int, Link] = {}
        self.by_place: dict[Place, Link] = {}
        self.committed: dict[int, Link] = {}
        """End offset → the link that was committed there."""
        self.high_watermark = -1
        """The largest end offset that any replica called committed."""
        self.committed_by: dict[int, Link] = {}
        """Leader epoch → the last link that its leader called committed."""

    def root(self, offset: int) -> Link:
        """The first link of a log whose content before `offset` is not known."""
        found = self._roots.get(offset)
        if found is None:
            found = self._roots[offset] = Link(offset, offset, -1, None)
        return found

    def add(self, previous: Link, header: BatchHeader, data: bytes) -> Link:
        """Add a batch after `previous` that no replica had there before.

        Raises:
            Violation: Log matching fails. In the same leader epoch another batch ends at the same offset, or
                the batches before it differ.
        """
        end, epoch = header.next_offset, header.leader_epoch
        made = Link(header.base_offset, end, epoch, previous, header, data)
        previous.following.append(made)
        known = self.by_place.setdefault((end, epoch), made)
        if known is not made and _comparable(known, made):
            raise Violation(
                f"{self.name}: two logs have different batches that end at offset {made.end} in leader"
                f" epoch {made.epoch}, or different ones before: {known!r} and {made!r}"
                f" {_parting(known, made)}"
            )
        return made


def _comparable(one: Link, other: Link) -> bool:
    """Whether both chains were read from the same first offset on."""
    return _first(one) == _first(other)


def _first(link: Link) -> int:
    while link.previous_link is not None:
        link = link.previous_link
    return link.start


def _parting(one: Link, other: Link) -> str:
    """In words, the end offset of the last link that both chains have."""
    seen = set()
    at: Link | None = one
    while at is not None:
        seen.add(at)
        at = at.previous_link
    at = other
    while at is not None and at not in seen:
        at = at.previous_link
    return f"(equal up to {at.end})" if at is not None else "(nothing in common)"


class HeldLog:
    """One replica's chain as of the last check, and how to bring it up to date."""

    __slots__ = (
        "_log",
        "_positions",
        "_segments",
        "_start",
        "_was_empty",
        "chain",
        "node",
        "versions",
    )

    def __init__(self, versions: LogVersions, node: int) -> None:
        self.versions = versions
        self.node = node
        self.chain: list[Link] = [versions.root(0)]
        self._positions: list[int] = [0]
        """Behind each link: the position in the file of its segment."""
        self._segments: list[int] = [-1]
        """Base offset of that segment."""
        self._log: PartitionLog | None = None
        self._start = 0
        self._was_empty = True
        """Whether its files held no batch at the last check, not even one before the log start offset."""

    @property
    def last(self) -> Link:
        return self.chain[-1]

    @property
    def end(self) -> int:
        return self.chain[-1].end

    def at(self, offset: int) -> Link | None:
        """The link that ends at `offset`; the last one before it where batches were compacted away;
        None where `offset` lies before this chain or behind it."""
        chain = self.chain
        if offset > chain[-1].end or offset < chain[0].end:
            return None
        low, high = 0, len(chain) - 1
        while low < high:  # the last link whose end is <= offset
            middle = (low + high + 1) // 2
            if chain[middle].end <= offset:
                low = middle
            else:
                high = middle - 1
        return chain[low]

    def holds(self, link: Link) -> bool:
        """Whether `link` is in the chain, or is before the chain's first link."""
        first = self.chain[0]
        if first.previous_link is None and first.start > 0:
            return True  # the content before the first link is not known
        return link.end < first.end or self.at(link.end) is link

    # -- following the log -----------------------------------------------------------------------

    def follow(self, disk: SimDisk, log: PartitionLog) -> tuple[list[Link], list[Link], list[Link]]:
        """Update the chain to `log`. Returns (links dropped, links added, those that no replica had)."""
        chain = self.chain
        if (
            log is self._log
            and log.log_end_offset == chain[-1].end
            and log.log_start_offset == self._start
            and len(chain) > 1
        ):
            return [], [], []
        dropped: list[Link] = []
        if log is not self._log:
            # A new process: the log that it recovered may end earlier, and is compared again.
            self._log = log
            while len(self.chain) > 1 and self.chain[-1].end > log.log_end_offset:
                dropped.append(self._drop())
            self._forget_positions()
        if log.log_start_offset != self._start:
            dropped += self._move_start(log)
        elif self._was_empty and log.segments[0].base_offset < self.end:
            # DeleteRecords: the log now begins inside its first batch.
            self._restart(self._known_at(log.segments[0].base_offset))
        while len(self.chain) > 1 and self.chain[-1].end > log.log_end_offset:
            dropped.append(self._drop())
        if self.chain[-1].end > log.log_end_offset:
            self._restart(self.versions.root(log.log_end_offset))
        added, new = self._read(disk, log)
        self._was_empty = len(self.chain) == 1 and not any(s.size for s in log.segments)
        return dropped, added, new

    def verify(
        self, disk: SimDisk, log: PartitionLog, *, lost_power: bool = False
    ) -> tuple[list[Link], list[Link]]:
        """Read the whole log again and compare it with the chain. Returns (links gone, links that returned).

        Only a power loss may make either of them: it may undo a truncation that was not synced, and the
        appends after it (seed 415). In the same event a leader of a later epoch may append after the links
        that are left.

        Raises:
            Violation: The log differs from the chain, and no power loss explains it.
        """
        if any(s.path not in disk.names for s in log.segments):
            # The device was replaced by an empty one; the process has not noticed yet.
            return [], []
        before = self.chain
        first = next((link for link in before if link.end >= log.log_start_offset), before[-1])
        self._restart(first)
        _, new = self._read(disk, log)
        if lost_power and all(link.epoch > before[-1].epoch for link in new):
            gone = [link for link in before if link.end > first.end and link not in self.chain]
            return gone, [link for link in self.chain if link not in before]
        if self.chain[-1] is not before[-1]:
            raise Violation(
                f"{self.versions.name} on node {self.node}: reading the log again gives"
                f" {self.chain[-1]!r}, it was {before[-1]!r}"
            )
        return [], []

    def _drop(self) -> Link:
        self._positions.pop()
        self._segments.pop()
        return self.chain.pop()

    def _restart(self, link: Link) -> None:
        link.holders.add(self.node)
        self.chain, self._positions, self._segments = [link], [0], [-1]

    def _forget_positions(self) -> None:
        """Files may have been replaced: the next read finds its position in them again."""
        self._segments[-1] = -2

    def _move_start(self, log: PartitionLog) -> list[Link]:
        """The log start offset moved: old batches are gone, or the log was emptied and begins further on."""
        start = self._start = log.log_start_offset
        known = self.versions.committed.get(start)
        held = self.at(start)
        restarted = known is None and log.segments[0].base_offset >= start
        if held is not None and held.end == start and known in (None, held) and not restarted:
            return []
        if held is not None and held.end != start and known is None:
            return []  # in the middle of a batch
        dropped = self.chain
        if restarted:
            self._restart(self.versions.root(start))
        elif known is not None and held is not None and held.end == start:
            # Batches before it may be of a deposed leader: they are neither compared nor read.
            self._restart(known)
        else:
            self._restart(self._known_at(min(start, log.segments[0].base_offset)))
        return dropped

    def _known_at(self, offset: int) -> Link:
        """The first link of a chain that begins at `offset`: the committed one where it is known."""
        return self.versions.committed.get(offset) or self.versions.root(offset)

    def _read(self, disk: SimDisk, log: PartitionLog) -> tuple[list[Link], list[Link]]:
        added: list[Link] = []
        new: list[Link] = []
        end = log.log_end_offset
        if self.chain[-1].end < end:
            for segment in log.segments[self._segment_at(log) :]:
                self._read_segment(disk, segment, added, new)
                if self.chain[-1].end >= end:
                    break
        return added, new

    def _segment_at(self, log: PartitionLog) -> int:
        """Index of the segment with the batch that follows the chain's last link."""
        last = log.segments[-1].base_offset
        if self._segments[-1] == last:
            return -1
        end = self.chain[-1].end
        at = log.segment_index(end)
        return at - 1 if at > 0 and log.segments[at].base_offset > end else at

    def _read_segment(
        self, disk: SimDisk, segment: Segment, added: list[Link], new: list[Link]
    ) -> None:
        base, size = segment.base_offset, segment.size
        start = self._positions[-1] if self._segments[-1] == base else 0
        if segment.path not in disk.names or start >= size:
            return
        data = disk.written(segment.path, size)[start:]
        position, last = 0, self.chain[-1]
        while position < len(data):
            link = last.found_in(data, position)
            if link is None:
                header = _header_at(data, position)
                if header is None:
                    break
                batch = data[position : position + header.size]
                if header.base_offset < last.end:
                    position += len(batch)
                    self._pass_over(header, start + position, base)
                    continue
                if last.header is None and header.base_offset > last.end:
                    # Batches before it were deleted, and repair of the segment did not restore them; a crash
                    # lost the log start offset. (The check at the end finds a log that deleted too much.)
                    self._restart(self._known_at(header.base_offset))
                    last = self.chain[-1]
                    continue
                link = self.versions.add(last, header, batch)
                new.append(link)
            position += len(link.data)
            link.holders.add(self.node)
            self.chain.append(link)
            self._positions.append(start + position)
            self._segments.append(base)
            added.append(link)
            last = link

    def _pass_over(self, header: BatchHeader, position: int, segment: int) -> None:
        """Skip a batch that the log had before the restart. Raises :class:`Violation` if it differs."""
        self._positions[-1], self._segments[-1] = position, segment
        last = self.chain[-1]
        known = last.header
        if known is None or header.next_offset != last.end or last.end <= self._start:
            return
        if (header.crc, header.leader_epoch) != (known.crc, known.leader_epoch):
            raise Violation(
                f"{self.versions.name} on node {self.node}: a restart put another batch before offset"
                f" {last.end}, of leader epoch {header.leader_epoch} instead of {known.leader_epoch}"
            )


def _header_at(data: bytes, position: int) -> BatchHeader | None:
    """The header of the batch at `position`; None if the batch is incomplete. Raises
    :class:`~barnabas.record.batch.CorruptBatchError`."""
    if len(data) - position < HEADER_SIZE:
        return None
    header = read_header(data, position)
    check_shape(header, position)
    return header if position + header.size <= len(data) else None
