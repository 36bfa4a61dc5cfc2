"""What one application has written, so that a micro-batch asked for again is not written again.

Files below ``<stagingLocation>/<application>/`` (the application of a stream is its query id):

* ``staged/``        rows that tasks have encoded and not handed over with their message;
* ``<n>.manifest``   batch n as it *will* be published: producer identity, first sequence and log
  end of every partition, and the encoded batches themselves or where they are staged;
* ``committed.json`` the last batch that was published whole, with the identity and sequences that
  the next one goes on with.

The promise rests on one order: the manifest stands durably before the first produce request. From
then on batch n *is* what the manifest says, whatever a repeated run of it computes; publishing it
again finds what has landed (``publisher.landed``) and sends the rest under the same sequences, which
brokers recognise. Of two drivers that prepare the same batch one manifest stands, and both publish
that one.

Where a file shows before it is whole (``hdfs:``), a kill may leave a part of one. A part of a manifest
is none: nothing of it was sent yet. A part of ``committed.json`` says that the newest manifest, which
is cleared behind it, was published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError
from typing import Any

from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.offsets import PartitionOffsets, from_json, to_json
from barnabas.pipeline.write.publisher import Outgoing, ProducerIdentity, next_sequence
from barnabas.pipeline.write.staging import StagingStore
from barnabas.types import TopicPartition

COMMITTED = "committed.json"
MANIFEST = ".manifest"
STAGED = "staged"
VERSION = 1
_SIZE = Struct(">q")


@dataclass(frozen=True, slots=True)
class Chunk:
    """One encoded batch: where it belongs and how long it is."""

    partition: TopicPartition
    records: int
    size: int


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """Encoded batches end to end, in `file` (below the application) from `position` on."""

    file: str
    position: int
    chunks: tuple[Chunk, ...]

    @property
    def end(self) -> int:
        """Where its last batch ends."""
        return self.position + sum(each.size for each in self.chunks)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One batch as it will be published."""

    batch: int
    identity: ProducerIdentity
    sequences: PartitionOffsets
    """The sequence of the first record per partition."""
    log_ends: PartitionOffsets
    """Where each log ended before anything of this was sent."""
    sources: tuple[ManifestSource, ...]

    def partitions(self) -> list[TopicPartition]:
        return sorted({chunk.partition for each in self.sources for chunk in each.chunks})

    def outgoing(self, store: StagingStore) -> Iterator[Outgoing]:
        """All batches with their sequences, in the order of the sources."""
        sequences = dict(self.sequences)
        for source in self.sources:
            position = source.position
            for chunk in source.chunks:
                yield Outgoing(
                    partition=chunk.partition,
                    sequence=sequences[chunk.partition],
                    records=chunk.records,
                    size=chunk.size,
                    load=_loader(store, source.file, position, chunk.size),
                )
                sequences[chunk.partition] = next_sequence(
                    sequences[chunk.partition], chunk.records
                )
                position += chunk.size

    def next_sequences(self) -> PartitionOffsets:
        """Sequences behind the last record of this batch."""
        sequences = dict(self.sequences)
        for source in self.sources:
            for chunk in source.chunks:
                at = sequences[chunk.partition]
                sequences[chunk.partition] = next_sequence(at, chunk.records)
        return sequences


def _loader(store: StagingStore, file: str, position: int, size: int) -> Any:
    def load() -> bytearray:
        data = bytearray(store.read_at(file, position, size))
        if len(data) != size:
            raise StagingError(f"{file} has {len(data)} bytes at {position}, {size} were staged")
        return data

    return load


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """The last batch that was published whole."""

    batch: int = -1
    identity: ProducerIdentity | None = None
    sequences: PartitionOffsets = field(default_factory=dict)


class CommitLog:
    """The ledger of one application in `store`."""

    def __init__(self, store: StagingStore, application: str) -> None:
        if not application or "/" in application or application.startswith("."):
            raise StagingError(f"an application's name is a file name, not {application!r}")
        self.store = store
        self.application = application

    def __repr__(self) -> str:
        return f"Ledger({self.application} in {self.store!r})"

    def _name(self, *parts: str) -> str:
        return "/".join((self.application, *parts))

    def committed(self) -> CommitEntry:
        try:
            raw = json.loads(self.store.read(self._name(COMMITTED)))
        except FileNotFoundError:
            return CommitEntry()
        except ValueError as error:
            return self._committed_again(error)
        if raw["producer_id"] is None:
            return CommitEntry(raw["batch"])
        identity = ProducerIdentity(raw["producer_id"], raw["producer_epoch"])
        return CommitEntry(raw["batch"], identity, from_json(raw["sequences"]))

    def _committed_again(self, error: ValueError) -> CommitEntry:
        """Sequences of partitions that the newest batch did not have are lost with the rest of the
        file: the next batch takes a new identity."""
        whole = [each for each in self._numbers() if self.manifest(each) is not None]
        if not whole:
            raise StagingError(f"{self._name(COMMITTED)} cannot be read: {error}") from error
        document: dict[str, Any] = {
            "version": VERSION,
            "batch": max(whole),
            "producer_id": None,
            "producer_epoch": None,
            "sequences": {},
        }
        self.store.write(self._name(COMMITTED), [json.dumps(document).encode()])
        return CommitEntry(max(whole))

    def _numbers(self) -> list[int]:
        """Batches that a manifest is there of, whole or not."""
        names = self.store.names(self._name())
        numbers = [each.removesuffix(MANIFEST) for each in names if each.endswith(MANIFEST)]
        return sorted(int(each) for each in numbers if each.isdigit())

    def manifest(self, batch: int) -> Manifest | None:
        """What batch `batch` was once said to be, or None where it was not, or not to the end."""
        name = self._name(f"{batch}{MANIFEST}")
        try:
            (size,) = _SIZE.unpack(self.store.read_at(name, 0, _SIZE.size))
            raw = json.loads(self.store.read_at(name, _SIZE.size, size))
        except (FileNotFoundError, StructError, ValueError):
            return None
        manifest = _manifest_from(raw, inline=name, inline_at=_SIZE.size + size)
        end = max((each.end for each in manifest.sources if each.file == name), default=0)
        if end and not self.store.read_at(name, end - 1, 1):
            return None
        return manifest

    def unfinished(self, after: int, before: int) -> list[Manifest]:
        """Manifests of batches between the two, in order: their writer ended and nobody asked for
        them again. Only where numbers were left out is anything looked for."""
        if before <= after + 1:
            return []
        found = (self.manifest(each) for each in self._numbers() if after < each < before)
        return [each for each in found if each is not None]

    def prepare(self, manifest: Manifest, inline: Sequence[bytes]) -> Manifest:
        """Say durably what the batch is, before anything of it is sent.

        `inline` are the contents of the sources that have no file. Returns the manifest that
        stands, which is another driver's where that was first.
        """
        name = self._name(f"{manifest.batch}{MANIFEST}")
        parts = _manifest_parts(manifest, inline)
        if not self.store.write_new(name, parts) and self.manifest(manifest.batch) is None:
            self.store.write(name, parts)
        standing = self.manifest(manifest.batch)
        if standing is None:
            raise StagingError(f"{name} was just written and is gone")
        return standing

    def replace(self, manifest: Manifest, inline: Sequence[bytes]) -> Manifest:
        """Put a manifest with a new identity in the place of one whose identity is lost."""
        name = self._name(f"{manifest.batch}{MANIFEST}")
        self.store.write(name, _manifest_parts(manifest, inline))
        standing = self.manifest(manifest.batch)
        assert standing is not None
        return standing

    def commit(self, manifest: Manifest, before: CommitEntry) -> None:
        """The batch is published whole: say so, then clear what it needed.

        Nothing is taken back: a driver that was thought dead may come to its end long after another
        has gone on from here with the batches that follow.
        """
        if self.committed().batch >= manifest.batch:
            self.clear(manifest.batch)
            return
        same = before.identity == manifest.identity
        known = before.sequences if same else {}
        document = {
            "version": VERSION,
            "batch": manifest.batch,
            "producer_id": manifest.identity.producer_id,
            "producer_epoch": manifest.identity.producer_epoch,
            "sequences": to_json({**known, **manifest.next_sequences()}),
        }
        self.store.write(self._name(COMMITTED), [json.dumps(document).encode()])
        self.clear(manifest.batch)

    def clear(self, up_to: int) -> None:
        """Remove manifests and staged files of batches up to and with `up_to`, also where the driver
        that was writing one was killed."""
        for name in self.store.names(self._name()):
            number, _, rest = name.partition(".")
            if number.isdigit() and int(number) <= up_to and f".{rest}".startswith(MANIFEST):
                self.store.delete(self._name(name))
        for name in self.store.names(self._name(STAGED)):
            number = name.partition("-")[0]
            if number.isdigit() and int(number) <= up_to:
                self.store.delete(self._name(STAGED, name))

    def discard(self, files: Iterable[str]) -> None:
        """Remove staged files that no manifest names."""
        for name in files:
            self.store.delete(name)

    def staged_name(self, batch: int, task: str) -> str:
        """A file for one task attempt's rows of a batch."""
        return self._name(STAGED, f"{batch}-{task}")


def _manifest_parts(manifest: Manifest, inline: Sequence[bytes]) -> list[bytes]:
    """Size of the JSON, the JSON, then the inline contents end to end.

    Sources with an empty file name are inline, in order; their positions count from the end of
    the JSON.
    """
    raw = json.dumps(
        {
            "version": VERSION,
            "batch": manifest.batch,
            "producer_id": manifest.identity.producer_id,
            "producer_epoch": manifest.identity.producer_epoch,
            "sequences": to_json(manifest.sequences),
            "log_ends": to_json(manifest.log_ends),
            "sources": [
                {
                    "file": each.file,
                    "position": each.position,
                    "chunks": [
                        [*chunk.partition, chunk.records, chunk.size] for chunk in each.chunks
                    ],
                }
                for each in manifest.sources
            ],
        }
    ).encode()
    return [_SIZE.pack(len(raw)), raw, *inline]


def _manifest_from(raw: dict[str, Any], *, inline: str, inline_at: int) -> Manifest:
    sources = []
    for each in raw["sources"]:
        chunks = tuple(Chunk(TopicPartition(t, p), n, size) for t, p, n, size in each["chunks"])
        in_manifest = not each["file"]
        sources.append(
            ManifestSource(
                file=inline if in_manifest else each["file"],
                position=each["position"] + (inline_at if in_manifest else 0),
                chunks=chunks,
            )
        )
    return Manifest(
        batch=raw["batch"],
        identity=ProducerIdentity(raw["producer_id"], raw["producer_epoch"]),
        sequences=from_json(raw["sequences"]),
        log_ends=from_json(raw["log_ends"]),
        sources=tuple(sources),
    )
