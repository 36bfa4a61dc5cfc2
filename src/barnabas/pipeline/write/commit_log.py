"""The ledger of one application, so that a micro-batch asked for again is not written again.

Files below ``<stagingLocation>/<application>/`` (the application of a stream is its query id):

* ``staged/``        rows that tasks have encoded and not handed over with their message;
* ``<n>.manifest``   batch n as it *will* be published: producer identity, first sequence and log
  end of every partition, and the encoded batches themselves or where they are staged;
* ``committed.json`` the last batch that was published whole, the query and the run that planned it,
  and the identity and sequences that the next batch of the same run continues with.

Sequences are valid within one run only. A checkpoint may be restored, rolled back or copied with the
ledger in it; its sequences were then used already, and brokers would take new rows for duplicates.
So the first batch of each run takes a new producer id (``by_manifest.plan``), and what a query asks for is
compared with what the ledger has (:mod:`barnabas.pipeline.write.admission`) before anything is skipped.

The promise rests on one order: the manifest is durable before the first produce request. From
then on batch n *is* what the manifest says, whatever a repeated run of it computes; publishing it
again finds what has landed (``publisher.landed``) and sends the rest under the same sequences, which
brokers recognise. If two drivers prepare the same batch, the first manifest wins, and both drivers
publish it.

Where a file shows before it is whole (``hdfs:``), a kill may leave a part of one. A part of a manifest
is none: nothing of it was sent yet. A part of ``committed.json`` says that the newest manifest, which
is cleared behind it, was published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from struct import Struct
from struct import error as StructError
from typing import Any

from barnabas.client.producers.transaction_coordinator import ProducerIdentity
from barnabas.pipeline.errors import LedgerError, StagingError
from barnabas.pipeline.offsets import PartitionOffsets, from_json, to_json
from barnabas.pipeline.places.stores import StagingStore
from barnabas.pipeline.write.publisher import Outgoing, next_sequence
from barnabas.types import TopicPartition

COMMITTED = "committed.json"
MANIFEST = ".manifest"
STAGED = "staged"
VERSION = 2
"""1 has neither query nor run, nor what the batch was planned from."""
MOVED_VERSION = 3
"""Version of ``committed.json`` that says that the query commits in transactions."""
NOTHING = -1
"""The number before the first batch."""
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
        """The end of its last batch."""
        return self.position + sum(chunk.size for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class Origin:
    """Who planned a batch. Empty where it is not known: outside of streams, or in a ledger of version 1."""

    query: str = ""
    """The query id, which the checkpoint keeps over restarts and copies."""
    run: str = ""
    """The run id, which each start of the query has of its own."""
    planned: str = ""
    """Digest of the checkpoint's entry for the batch (:mod:`barnabas.pipeline.checkpoint`)."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One batch as it will be published."""

    batch: int
    identity: ProducerIdentity
    sequences: PartitionOffsets
    """The sequence of the first record per partition."""
    log_ends: PartitionOffsets
    """The end of each log before anything of this was sent."""
    sources: tuple[ManifestSource, ...]
    origin: Origin = Origin()

    def partitions(self) -> list[TopicPartition]:
        return sorted({chunk.partition for source in self.sources for chunk in source.chunks})

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

    def describe(self) -> dict[str, Any]:
        """How much of what it names, and where the logs ended before it."""
        chunks = [chunk for source in self.sources for chunk in source.chunks]
        return {
            "batch": self.batch,
            "query": self.origin.query,
            "rows": sum(chunk.records for chunk in chunks),
            "bytes": sum(chunk.size for chunk in chunks),
            "producer_id": self.identity.producer_id,
            "log_ends": to_json(self.log_ends),
        }

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
        try:
            data = bytearray(store.read_at(file, position, size))
        except FileNotFoundError as error:
            raise StagingError(f"{file} is gone from {store!r}: rows were staged there") from error
        if len(data) != size:
            raise StagingError(f"{file} has {len(data)} bytes at {position}, {size} were staged")
        return data

    return load


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """The last batch that was published whole."""

    batch: int = NOTHING
    identity: ProducerIdentity | None = None
    sequences: PartitionOffsets = field(default_factory=dict)
    origin: Origin = Origin()
    is_there: bool = True
    """False where the application has no ``committed.json``: it is new, or its ledger is lost."""


class CommitLog:
    """The ledger of one application in `store`."""

    def __init__(self, store: StagingStore, application: str) -> None:
        if not application or "/" in application or application.startswith("."):
            raise StagingError(f"an application's name is a file name, not {application!r}")
        self.store = store
        self.application = application

    def __repr__(self) -> str:
        return f"CommitLog({self.application} in {self.store!r})"

    def _name(self, *parts: str) -> str:
        return "/".join((self.application, *parts))

    def committed(self) -> CommitEntry:
        try:
            raw = json.loads(self.store.read(self._name(COMMITTED)))
        except FileNotFoundError:
            return CommitEntry(is_there=False)
        except ValueError as error:
            return self._committed_again(error)
        if isinstance(raw, dict) and raw.get("version") == MOVED_VERSION:
            raise LedgerError(
                f"{self._name(COMMITTED)} in {self.store!r}: {self.application} commits in transactions, its"
                f" token is that of {raw.get('token')} in topic __barnabas_pipelines. It continues with"
                " delivery=exactly-once; `barnabas pipeline ledger` finds it by --bootstrap-server"
            )
        self._check_version(raw, COMMITTED)
        origin = _origin_from(raw)
        if raw["producer_id"] is None:
            return CommitEntry(raw["batch"], origin=origin)
        identity = ProducerIdentity(raw["producer_id"], raw["producer_epoch"])
        return CommitEntry(raw["batch"], identity, from_json(raw["sequences"]), origin)

    def _committed_again(self, error: ValueError) -> CommitEntry:
        """Sequences of partitions that the newest batch did not have are lost with the rest of the
        file: the next batch takes a new identity."""
        whole = [
            manifest for manifest in map(self.manifest, self.numbers()) if manifest is not None
        ]
        if not whole:
            raise StagingError(f"{self._name(COMMITTED)} cannot be read: {error}") from error
        found = CommitEntry(whole[-1].batch, origin=whole[-1].origin)
        self.write(found)
        return found

    def write(self, committed: CommitEntry) -> None:
        """Put `committed` in the place of what is there, durably."""
        self.store.write(self._name(COMMITTED), [_committed_json(committed)])

    def token_since(self, key: str) -> int | None:
        """An offset that the token of `key` is not before, for a query that commits in transactions;
        None for one that does not, or not yet."""
        try:
            raw = json.loads(self.store.read(self._name(COMMITTED)))
            return (
                int(raw["since"])
                if raw["version"] == MOVED_VERSION and raw["token"] == key
                else None
            )
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def move_to_token(self, key: str, since: int) -> None:
        """Say that the query commits in transactions: its token is that of `key`, not before offset
        `since`. What a ledger had is replaced, so that no later run goes by it."""
        document = {"version": MOVED_VERSION, "token": key, "since": since}
        self.store.write(self._name(COMMITTED), [json.dumps(document).encode()])

    def is_in_use(self) -> bool:
        """Whether a manifest or what follows from one is here."""
        try:
            raw = json.loads(self.store.read(self._name(COMMITTED)))
        except FileNotFoundError:
            return bool(self.numbers())
        except ValueError:
            return True
        return not (isinstance(raw, dict) and raw.get("version") == MOVED_VERSION)

    def begin(self, query: str) -> None:
        """Say that the ledger of a new application is here, though nothing is published yet."""
        first = CommitEntry(origin=Origin(query=query))
        self.store.write_new(self._name(COMMITTED), [_committed_json(first)])

    def _check_version(self, raw: dict[str, Any], name: str) -> None:
        version = raw.get("version")
        if not isinstance(version, int) or not 1 <= version <= VERSION:
            raise LedgerError(
                f"{self._name(name)} in {self.store!r} has version {version}, this Barnabas reads up to"
                f" version {VERSION}: a later one wrote it. Run the query with that one, on driver and"
                " executors"
            )

    def numbers(self) -> list[int]:
        """Batches that a manifest is there of, whole or not."""
        names = self.store.names(self._name())
        numbers = [name.removesuffix(MANIFEST) for name in names if name.endswith(MANIFEST)]
        return sorted(int(number) for number in numbers if number.isdigit())

    def manifest(self, batch: int) -> Manifest | None:
        """The manifest of batch `batch`, or None where there is none, or not to the end."""
        name = self._name(f"{batch}{MANIFEST}")
        try:
            (size,) = _SIZE.unpack(self.store.read_at(name, 0, _SIZE.size))
            raw = json.loads(self.store.read_at(name, _SIZE.size, size))
        except (FileNotFoundError, StructError, ValueError):
            return None
        self._check_version(raw, f"{batch}{MANIFEST}")
        manifest = _manifest_from(raw, inline=name, inline_at=_SIZE.size + size)
        end = max((source.end for source in manifest.sources if source.file == name), default=0)
        if end and not self.store.read_at(name, end - 1, 1):
            return None
        return manifest

    def unfinished(self, after: int, before: int) -> list[Manifest]:
        """Manifests of the batches between the two, in order: their writer ended and no query asked
        for them again. Looks only if batch numbers were skipped."""
        if before <= after + 1:
            return []
        found = (self.manifest(number) for number in self.numbers() if after < number < before)
        return [manifest for manifest in found if manifest is not None]

    def prepare(self, manifest: Manifest, inline: Sequence[bytes]) -> Manifest:
        """Write the batch's manifest durably, before any record of the batch is sent.

        `inline` are the contents of the sources that have no file. Returns the manifest that
        holds: another driver's if that driver was first.
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
        sequences = {**known, **manifest.next_sequences()}
        self.write(CommitEntry(manifest.batch, manifest.identity, sequences, manifest.origin))
        self.clear(manifest.batch)

    def skip(self, batch: int) -> None:
        """Take `batch` for published, whatever of it is: what has not been sent never will be. The next
        batch takes a new identity, as sequences of this one may have been used."""
        before = self.committed()
        if batch <= before.batch:
            raise LedgerError(f"batch {batch} of {self.application} is published already")
        begun = self.manifest(batch)
        if begun is not None:
            origin = replace(begun.origin, run="")
        else:
            origin = Origin(query=before.origin.query)
        self.write(CommitEntry(batch, origin=origin))
        self.clear(batch)

    def forget(self, first: int = 0) -> None:
        """Take nothing from batch `first` on for published or begun: who asks for these batches writes
        them, and any query may. What of them is in topics stays there."""
        self.write(CommitEntry(min(first - 1, self.committed().batch)))
        for number in self.numbers():
            if number >= first:
                self.store.delete(self._name(f"{number}{MANIFEST}"))

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

    def describe(self) -> dict[str, Any]:
        """The content of the ledger, for people and programs."""
        committed = self.committed()
        begun = [
            manifest for manifest in map(self.manifest, self.numbers()) if manifest is not None
        ]
        return {
            "application": self.application,
            "is_there": committed.is_there,
            "batch": committed.batch,
            "query": committed.origin.query,
            "run": committed.origin.run,
            "producer_id": None if committed.identity is None else committed.identity.producer_id,
            "begun": [
                manifest.describe() for manifest in begun if manifest.batch > committed.batch
            ],
            "staged_files": len(self.store.names(self._name(STAGED))),
        }

    def staged_name(self, batch: int, task: str) -> str:
        """A file for one task attempt's rows of a batch."""
        return self._name(STAGED, f"{batch}-{task}")


def _committed_json(committed: CommitEntry) -> bytes:
    identity = committed.identity
    document = {
        "version": VERSION,
        "batch": committed.batch,
        "producer_id": None if identity is None else identity.producer_id,
        "producer_epoch": None if identity is None else identity.producer_epoch,
        "sequences": to_json(committed.sequences),
        **_origin_json(committed.origin),
    }
    return json.dumps(document).encode()


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
                    "file": source.file,
                    "position": source.position,
                    "chunks": [
                        [*chunk.partition, chunk.records, chunk.size] for chunk in source.chunks
                    ],
                }
                for source in manifest.sources
            ],
            **_origin_json(manifest.origin),
        }
    ).encode()
    return [_SIZE.pack(len(raw)), raw, *inline]


def _manifest_from(raw: dict[str, Any], *, inline: str, inline_at: int) -> Manifest:
    sources = []
    for source in raw["sources"]:
        chunks = tuple(Chunk(TopicPartition(t, p), n, size) for t, p, n, size in source["chunks"])
        in_manifest = not source["file"]
        sources.append(
            ManifestSource(
                file=inline if in_manifest else source["file"],
                position=source["position"] + (inline_at if in_manifest else 0),
                chunks=chunks,
            )
        )
    return Manifest(
        batch=raw["batch"],
        identity=ProducerIdentity(raw["producer_id"], raw["producer_epoch"]),
        sequences=from_json(raw["sequences"]),
        log_ends=from_json(raw["log_ends"]),
        sources=tuple(sources),
        origin=_origin_from(raw),
    )


def _origin_json(origin: Origin) -> dict[str, str]:
    return {"query": origin.query, "run": origin.run, "planned": origin.planned}


def _origin_from(raw: dict[str, Any]) -> Origin:
    return Origin(raw.get("query") or "", raw.get("run") or "", raw.get("planned") or "")
