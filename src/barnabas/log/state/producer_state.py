"""Producer state of a partition: each producer's epoch and last five batches, and open transactions.

It is rebuilt from batch headers and control records, or loaded from a ``.snapshot`` file, which has the state
before its offset. :meth:`ProducerStates.check` and :meth:`ProducerStates.check_marker` refuse batches;
:meth:`ProducerStates.update` records an appended batch and never refuses.

A leader appends the first batch of a transaction only if the transaction coordinator confirmed that the
partition belongs to the transaction. :class:`Verification` is the proof: it is created before the coordinator
is asked. A batch that is written meanwhile voids it if that batch may have opened or ended the transaction
(:meth:`Verification.is_voided_by`). The marker of the transaction before must not void it: a producer of
transaction.version 2 begins its next transaction while that marker is on its way (KIP-890).

Source: KIP-98, KIP-360, KIP-890; ``ProducerAppendInfo``, ``ProducerStateManager``,
``VerificationStateEntry`` and ``UnifiedLog`` for behaviour; file schema ``ProducerSnapshot``.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from barnabas.log.file_names import SNAPSHOT, file_name, offset_of
from barnabas.ports import Disk
from barnabas.record.batch import CONTROL, TRANSACTIONAL, BatchHeader
from barnabas.types import Buffer, new_tuple
from barnabas.wire.codec import MalformedError, decode, encode_bytes
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.producer_snapshot import ProducerEntry as EntryRecord
from barnabas.wire.messages.producer_snapshot import ProducerSnapshot

BATCHES_KEPT = 5
_HEAD = Struct(">hI")
_VERSION = 1
EPOCHS_BUMPED_SINCE = 2
"""The level of transaction.version at which every transaction ends with a new epoch."""


class WrittenBatch(NamedTuple):
    """One of a producer's last batches. Batches that a coordinator writes have no sequences (-1). `timestamp`
    in ms."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """State of one producer id."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "transaction_start")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_start: int | None = None
        """First offset of its open transaction; None if none is open."""
        self.batches: deque[WrittenBatch] = deque(maxlen=BATCHES_KEPT)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


class CompletedTransaction(NamedTuple):
    """A transaction whose marker is in the log."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker."""
    aborted: bool


class Verification:
    """A pending question to the transaction coordinator about a producer's first batch. Compared by identity:
    a later one does not prove what an earlier one asked. It is of one epoch: the question of another epoch is
    another one."""

    __slots__ = ("bumps_epochs", "epoch", "lowest_sequence", "started_ms")

    def __init__(self, epoch: int, sequence: int, bumps_epochs: bool, started_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """Lowest sequence among the batches that wait; batches with higher sequences are appended after
        it."""
        self.bumps_epochs = bumps_epochs
        """The producer has a new epoch for each transaction (transaction.version 2)."""
        self.started_ms = started_ms

    def lower(self, sequence: int) -> None:
        """Another batch of this epoch waits for the same answer."""
        self.lowest_sequence = min(self.lowest_sequence, sequence)

    def is_voided_by(self, header: BatchHeader) -> bool:
        """Whether a transactional batch of the producer, or a marker, ends this proof.

        A batch of a lower epoch is of an earlier transaction, and one of a higher epoch is of a later one. A
        data batch of this epoch opens the transaction. A marker of this epoch ends the transaction before if
        the producer gets a new epoch with each end, as the marker then has the new epoch. Otherwise it may be
        the marker of this very transaction, and no record may follow it.
        """
        if header.producer_epoch != self.epoch:
            return header.producer_epoch > self.epoch
        return not (header.is_control and self.bumps_epochs)


TRUSTED = Verification(-1, -1, False, -1)
"""The proof for appends that need no verification."""


class TransactionalWriter(NamedTuple):
    """The producer for which a coordinator of this broker writes a transactional batch."""

    id: int
    epoch: int
    verification: Verification | None = TRUSTED
    """None if its transaction is open in the partition already."""


class ProducerStates:
    """All producers of one partition. `end_offset` is the end offset of the batches it covers."""

    __slots__ = (
        "end_offset",
        "entries",
        "loaded_to",
        "open_transactions",
        "unreplicated",
        "verifications",
    )

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.end_offset = 0
        self.open_transactions: dict[int, int] = {}
        """First offset of each open transaction, by producer id, in the order of the offsets."""
        self.unreplicated: list[CompletedTransaction] = []
        """Completed transactions whose marker is not below the high watermark yet."""
        self.verifications: dict[int, Verification] = {}
        """Pending verifications by producer id; only on a leader."""
        self.loaded_to = -1
        """Offset of the loaded snapshot. Transactions completed before it count as replicated, because the
        snapshot (as Kafka's) does not say. Their outcome is in the coordinator's log, so it cannot change."""

    # -- deciding --------------------------------------------------------------------------------

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, bumps_epochs: bool, wall_ms: int
    ) -> Verification | None:
        """Begin to verify a transactional batch. Returns what to pass to `check` once the coordinator has
        agreed; None if the transaction is open here, so that the coordinator need not be asked. Raises
        INVALID_PRODUCER_EPOCH if a later epoch of the producer is known."""
        entry = self.entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise _stale_epoch(producer_id, epoch, entry.epoch)
        if self.has_open_transaction(producer_id, epoch):
            return None
        known = self.verifications.get(producer_id)
        if known is None or known.epoch < epoch:
            known = Verification(epoch, sequence, bumps_epochs, wall_ms)
            self.verifications[producer_id] = known
        elif known.epoch > epoch:
            raise _stale_epoch(producer_id, epoch, known.epoch)
        else:
            known.lower(sequence)
        return known

    def check(
        self, header: BatchHeader, verification: Verification | None = TRUSTED
    ) -> WrittenBatch | None:
        """Check that a data batch may be appended. Returns the earlier batch if it is a duplicate. For
        batches without sequences (a coordinator's) only the epoch is checked. `verification` is the proof of
        a batch that begins a transaction. Raises INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH,
        OUT_OF_ORDER_SEQUENCE_NUMBER."""
        entry = self.entries.get(header.producer_id)
        first = header.base_sequence
        if entry is not None and header.producer_epoch == entry.epoch and first >= 0:
            last = header.last_sequence
            for batch in entry.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
        if header.is_transactional and verification is not TRUSTED:
            self._check_verified(header, verification)
        known = self.verifications.get(header.producer_id) if self.verifications else None
        if known is not None and known.epoch != header.producer_epoch:
            known = None  # another transaction's
        if entry is None:
            if first >= 0 and known is not None:
                _check_first_sequence(header, known, is_new=True)
            # Its state may have expired, or was deleted with segments: any sequence is accepted (KIP-360).
            return None
        _check_epoch(header, entry)
        if first >= 0:
            if known is not None:
                _check_first_sequence(header, known, is_new=False)
            _check_sequence(header, entry)
        if entry.transaction_start is not None and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction and wrote outside of it",
            )
        return None

    def _check_verified(self, header: BatchHeader, verification: Verification | None) -> None:
        """Raises INVALID_TXN_STATE unless the transaction is open here or the coordinator confirmed it."""
        producer_id = header.producer_id
        if self.has_open_transaction(producer_id, header.producer_epoch):
            return
        if verification is None or self.verifications.get(producer_id) is not verification:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
            )

    def check_marker(
        self, header: BatchHeader, coordinator_epoch: int, transaction_version: int = 0
    ) -> None:
        """Check that a transaction marker may be appended. From transaction.version 2 on its epoch is above
        that of the open transaction; the same epoch is accepted as a retry after the transaction ended.
        Raises INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return
        _check_epoch(header, entry)
        if (
            transaction_version >= EPOCHS_BUMPED_SINCE
            and header.producer_epoch == entry.epoch
            and entry.transaction_start is not None
        ):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"the marker has epoch {entry.epoch} of producer {header.producer_id}'s open transaction:"
                " it belongs to an earlier one",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the coordinator of producer {header.producer_id} has epoch"
                f" {entry.coordinator_epoch}, not {coordinator_epoch}",
            )

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self.entries.get(producer_id)
        return (
            entry is not None
            and entry.transaction_start is not None
            and entry.epoch == producer_epoch
        )

    # -- recording -------------------------------------------------------------------------------

    def update(
        self, header: BatchHeader, marker: tuple[bool, int] | None = None
    ) -> CompletedTransaction | None:
        """Record an appended batch; `marker` is (aborted, coordinator epoch) of a control batch. Returns the
        transaction that it completed, if any."""
        base_offset, last_offset = header.base_offset, header.last_offset
        self.end_offset = last_offset + 1
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        if self.verifications and header.attributes & TRANSACTIONAL:
            known = self.verifications.get(producer_id)
            if known is not None and known.is_voided_by(header):
                del self.verifications[producer_id]
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(header.producer_epoch)
        elif header.producer_epoch != entry.epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        entry.last_timestamp = header.max_timestamp
        attributes = header.attributes
        if attributes & CONTROL:
            return None if marker is None else self._complete(header, entry, *marker)
        first, last, stamp = header.base_sequence, header.last_sequence, header.max_timestamp
        entry.batches.append(
            new_tuple(WrittenBatch, (first, last, base_offset, last_offset, stamp))
        )
        if attributes & TRANSACTIONAL and entry.transaction_start is None:
            entry.transaction_start = base_offset
            self.open_transactions[producer_id] = base_offset
        return None

    def _complete(
        self, header: BatchHeader, entry: ProducerEntry, aborted: bool, coordinator_epoch: int
    ) -> CompletedTransaction | None:
        entry.coordinator_epoch = coordinator_epoch
        if entry.transaction_start is None:
            return None
        done = CompletedTransaction(
            header.producer_id, entry.transaction_start, header.last_offset, aborted
        )
        self.unreplicated.append(done)
        entry.transaction_start = None
        del self.open_transactions[header.producer_id]
        assert done.first_offset < done.last_offset, f"a marker before its transaction: {done}"
        return done

    def stable_behind(self, done: CompletedTransaction) -> int:
        """The last stable offset once `done` is replicated: the first open transaction's first offset, or the
        offset after the marker."""
        return next(iter(self.open_transactions.values()), done.last_offset + 1)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """First offset of a transaction that is open, or completed but not replicated."""
        first = next(iter(self.open_transactions.values()), None)
        if self.unreplicated:
            if self.unreplicated[0].last_offset < high_watermark:
                self.unreplicated = [
                    done for done in self.unreplicated if done.last_offset >= high_watermark
                ]
            for done in self.unreplicated:
                if first is None or done.first_offset < first:
                    first = done.first_offset
        return first

    def knows_of(self, offset: int) -> bool:
        """Whether anything here may come from a batch at `offset` or later."""
        if any(done.last_offset >= offset for done in self.unreplicated):
            return True
        return self.end_offset > offset and any(
            entry.coordinator_epoch >= 0  # a marker leaves no offset behind
            or not entry.batches
            or entry.batches[-1].last_offset >= offset
            for entry in self.entries.values()
        )

    def expire(self, wall_ms: int, expiration_ms: int) -> int:
        """Forget producers without an open transaction whose last timestamp is older than `expiration_ms`.
        Returns how many."""
        old = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.transaction_start is None and wall_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in old:
            del self.entries[producer_id]
        self.verifications = {
            producer_id: known
            for producer_id, known in self.verifications.items()
            if wall_ms - known.started_ms < expiration_ms
        }
        return len(old)

    def validate(self) -> None:
        """Check invariants 9 and 10 of docs/invariants.md in this state. Raises AssertionError."""
        starts = list(self.open_transactions.values())
        assert starts == sorted(starts), f"open transactions are out of order: {starts}"
        for producer_id, entry in self.entries.items():
            start = entry.transaction_start
            assert self.open_transactions.get(producer_id) == start, f"{producer_id}: {start}"
            assert len(entry.batches) <= BATCHES_KEPT
            for batch, following in pairwise(entry.batches):
                assert batch.last_offset < following.first_offset, f"{producer_id}: {entry.batches}"
            if entry.batches:
                assert entry.batches[-1].last_offset < self.end_offset, f"{producer_id}"

    def clear(self, end_offset: int) -> None:
        self.entries.clear()
        self.open_transactions.clear()
        self.unreplicated.clear()
        self.verifications.clear()
        self.end_offset, self.loaded_to = end_offset, -1

    # -- snapshots -------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Encode a ``.snapshot`` file."""
        rows = []
        for producer_id, entry in sorted(self.entries.items()):
            last = entry.batches[-1] if entry.batches else None
            rows.append(
                EntryRecord(
                    producer_id=producer_id,
                    epoch=entry.epoch,
                    last_sequence=-1 if last is None else last.last_sequence,
                    last_offset=-1 if last is None else last.last_offset,
                    offset_delta=0 if last is None else last.last_offset - last.first_offset,
                    timestamp=entry.last_timestamp,
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_first_offset=(
                        -1 if entry.transaction_start is None else entry.transaction_start
                    ),
                )
            )
        body = encode_bytes(ProducerSnapshot(crc=0, producer_entries=rows), _VERSION)[4:]
        return _HEAD.pack(_VERSION, crc32c(body)) + body

    def load(self, data: Buffer, end_offset: int) -> None:
        """Replace the state by that of a ``.snapshot`` file. Raises ``ValueError`` if it is corrupt."""
        if len(data) < _HEAD.size:
            raise ValueError("a producer snapshot is too short")
        version, crc = _HEAD.unpack_from(data)
        body = memoryview(data)[_HEAD.size :]
        if version != _VERSION or crc32c(body) != crc:
            raise ValueError("a producer snapshot has the wrong version or CRC")
        try:
            snapshot = decode(ProducerSnapshot, version, memoryview(data)[2:])
        except MalformedError as error:
            raise ValueError(str(error)) from error
        self.clear(end_offset)
        self.loaded_to = end_offset
        for row in snapshot.producer_entries:
            self.entries[row.producer_id] = _entry_of(row)
        starts = [
            (entry.transaction_start, producer_id)
            for producer_id, entry in self.entries.items()
            if entry.transaction_start is not None
        ]
        self.open_transactions = {producer_id: start for start, producer_id in sorted(starts)}


def _entry_of(row: EntryRecord) -> ProducerEntry:
    entry = ProducerEntry(row.epoch)
    entry.coordinator_epoch = row.coordinator_epoch
    entry.last_timestamp = row.timestamp
    if row.current_txn_first_offset >= 0:
        entry.transaction_start = row.current_txn_first_offset
    if row.last_offset >= 0:
        first = row.last_offset - row.offset_delta
        sequence = (
            -1 if row.last_sequence < 0 else (row.last_sequence - row.offset_delta) & 0x7FFFFFFF
        )
        entry.batches.append(
            WrittenBatch(sequence, row.last_sequence, first, row.last_offset, row.timestamp)
        )
    return entry


def _check_epoch(header: BatchHeader, entry: ProducerEntry) -> None:
    if header.producer_epoch < entry.epoch:
        raise _stale_epoch(header.producer_id, header.producer_epoch, entry.epoch)


def _stale_epoch(producer_id: int, epoch: int, known: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH, f"producer {producer_id} has epoch {known}, not {epoch}"
    )


def _check_sequence(header: BatchHeader, entry: ProducerEntry) -> None:
    first = header.base_sequence
    if header.producer_epoch != entry.epoch:
        if first != 0 and entry.epoch >= 0:
            raise _out_of_order(header, "a new epoch begins with sequence 0")
        return
    expected = (entry.last_sequence + 1) & 0x7FFFFFFF
    if first != expected:
        raise _out_of_order(header, f"{expected} is next")


def _check_first_sequence(header: BatchHeader, known: Verification, *, is_new: bool) -> None:
    """Check that the lowest sequence of a producer's batches that wait for a verification is appended
    first. Raises OUT_OF_ORDER_SEQUENCE_NUMBER."""
    first = header.base_sequence
    if is_new and known.bumps_epochs and first != 0:
        raise _out_of_order(header, "an unknown producer begins with sequence 0")
    if first > known.lowest_sequence:
        raise _out_of_order(header, f"{known.lowest_sequence} waits to be appended first")


def _out_of_order(header: BatchHeader, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence}: {why}",
    )


def snapshot_offsets(disk: Disk, directory: str) -> list[int]:
    """Offsets of the ``.snapshot`` files, ascending."""
    found = []
    for name in disk.list_dir(directory):
        offset = offset_of(name) if name.endswith(SNAPSHOT) else None
        if offset is not None and name == file_name(offset, SNAPSHOT):
            found.append(offset)
    return found


def write_snapshot(disk: Disk, directory: str, states: ProducerStates, *, durable: bool) -> None:
    path = f"{directory}/{file_name(states.end_offset, SNAPSHOT)}"
    disk.write_atomic(path, states.to_bytes(), durable=durable)
