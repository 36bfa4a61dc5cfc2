"""Exactly once by a manifest beside the checkpoint: the way before transactions, which is deprecated.

The driver publishes what tasks have staged through its :class:`barnabas.pipeline.write.commit_log.CommitLog`
under the batch id, exactly once however often the batch is run. A reader may see a part of a batch before the
rest.

Decision record: docs/decisions on pipelines that write exactly once by manifest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.client.producers.transaction_coordinator import ProducerIdentity
from barnabas.pipeline.checkpoint import planned
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import (
    BatchRefusedTooLargeError,
    ClusterUnreachableError,
    OptionError,
    StagingError,
    WriteRefusedError,
)
from barnabas.pipeline.offsets import LATEST
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.patience import Patience
from barnabas.pipeline.places.stores import open_store
from barnabas.pipeline.write.admission import AdmissionRequest, admit
from barnabas.pipeline.write.commit_log import (
    Chunk,
    CommitEntry,
    CommitLog,
    Manifest,
    ManifestSource,
    Origin,
)
from barnabas.pipeline.write.delivery import BatchDelivery
from barnabas.pipeline.write.publisher import (
    IdentityLostError,
    Outgoing,
    Publisher,
    landed,
    too_large,
)
from barnabas.pipeline.write.staged_task import (
    StagedTask,
    check_staged,
    discard,
    outgoing_of,
    stage,
    way_out,
)
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)
_warned: set[str] = set()


class ByManifest(BatchDelivery):
    """The rows of a batch, published by what a ledger beside the checkpoint names."""

    def __init__(self, options: SinkOptions, why: str) -> None:
        """`why`: what the way is taken for, and the remedy, as a sentence."""
        super().__init__(options)
        self._why = why

    def write(self, rows: Iterator[pa.RecordBatch]) -> StagedTask:
        return stage(self.options, rows)

    def commit(self, tasks: Sequence[StagedTask], number: int | None) -> int:
        self._warn(tasks[0].application or "a batch write")
        if number is None:
            return publish_plainly(self.options, tasks)
        if self.options.staging is None:
            raise OptionError(
                "txnAppId needs stagingLocation without transactions, where it is kept what was written"
            )
        return publish_once(self.options, tasks, number)

    def _warn(self, application: str) -> None:
        """Once for each application of this process."""
        if application not in _warned:
            _warned.add(application)
            log.warning(
                "pipeline.manifest_deprecated: %s writes by a manifest, which is deprecated. %s",
                application,
                self._why,
            )


def publish_once(options: SinkOptions, messages: Sequence[StagedTask], number: int) -> int:
    """Publish batch `number` of the application, unless that is done; finish what an earlier run of it has
    begun. Returns how many record batches this run sent. Raises `LedgerError` if the ledger has another
    batch of that number."""
    assert options.staging is not None
    first = messages[0]
    ledger = CommitLog(open_store(options.staging), first.application)
    origin = Origin(first.query, first.run, planned(options, first.query, number))
    asked = AdmissionRequest(number, first.application, options.staging, origin, options.new_ledger)
    committed = ledger.committed()
    answer = admit(asked, committed, ledger.manifest(number))
    if not answer.is_new:
        if answer.warning:
            log.warning("pipeline.batch_skipped: %s", answer.warning)
        ledger.clear(committed.batch)
        return 0
    cluster = options.cluster.connect()
    for earlier in ledger.unfinished(committed.batch, number):
        # A part of it may be in the topic already; the rest has to be there before the next batch.
        before = replace(asked, batch=earlier.batch, origin=replace(origin, planned=""))
        admit(before, committed, earlier)
        finish(options, cluster, ledger, earlier, committed, before, look_first=True)
        committed = ledger.committed()
    try:
        return publish_next(options, cluster, ledger, committed, asked, messages)
    except StagingError:
        if ledger.committed().batch < number:
            raise
        return 0  # another driver has published it, and cleared what this one was to read


def publish_next(
    options: SinkOptions,
    cluster: ClusterClient,
    ledger: CommitLog,
    committed: CommitEntry,
    asked: AdmissionRequest,
    messages: Sequence[StagedTask],
) -> int:
    """Publish the batch `asked.batch`; all batches before it are published."""
    manifest = ledger.manifest(asked.batch)
    look_first = manifest is not None
    if manifest is None:
        if not any(message.chunks for message in messages):
            if not committed.is_there:
                ledger.begin(asked.origin.query)  # a later batch finds that this was the first
            return 0
        check_staged(ledger, messages, asked)
        plan_of_batch, inline = plan(cluster, committed, messages, asked.batch, asked.origin)
        manifest = ledger.prepare(plan_of_batch, inline)
        done = ledger.committed().batch
        if asked.batch <= done:
            # Another driver has published it, and cleared its manifest, since this one looked.
            ledger.clear(done)
            return 0
    return finish(options, cluster, ledger, manifest, committed, asked, look_first=look_first)


def finish(
    options: SinkOptions,
    cluster: ClusterClient,
    ledger: CommitLog,
    manifest: Manifest,
    committed: CommitEntry,
    asked: AdmissionRequest,
    *,
    look_first: bool,
) -> int:
    """Publish a manifest, and commit it in the ledger. Returns how many record batches this run sent."""
    patience: Patience | None = None
    try:
        while True:
            try:
                sent = send(options, cluster, ledger, manifest, look_first=look_first)
                break
            except BatchRefusedTooLargeError:
                left = not_landed(options, cluster, ledger, manifest)
                manifest = renew(cluster, ledger, manifest, *smaller(options, left))
                look_first, patience = False, None
            except IdentityLostError as error:
                outgoing = list(manifest.outgoing(ledger.store))
                there = landed(cluster, manifest.identity, manifest.log_ends, outgoing, options)
                look_first = error.refused <= there
                if look_first:
                    patience = (
                        None  # another driver has sent what was refused here: this went forward
                    )
                else:
                    patience = patience or Patience(cluster.patience_ms)
                    patience.wait(error)
                    left = [
                        batch
                        for batch in outgoing
                        if (batch.partition, batch.sequence) not in there
                    ]
                    manifest = renew(cluster, ledger, manifest, *as_they_are(left))
    except (WriteRefusedError, ClusterUnreachableError, StagingError) as error:
        raise type(error)(f"{asked}: {error}. {way_out(asked)}") from error
    ledger.commit(manifest, committed)
    return sent


def plan(
    cluster: ClusterClient,
    committed: CommitEntry,
    messages: Sequence[StagedTask],
    number: int,
    origin: Origin,
) -> tuple[Manifest, list[bytes]]:
    """The manifest of a batch that is run for the first time, and the data that the messages bring.

    Sequence numbers continue within a run of the query. Another run gets a new producer id: if the ledger
    was restored or copied, later sequence numbers may have been used, and brokers would take rows under
    them for duplicates.
    """
    identity, known = committed.identity, committed.sequences
    if identity is None or not origin.run or origin.run != committed.origin.run:
        identity, known = ProducerIdentity(*cluster.init_producer_id()), {}
    sources, inline, position = [], [], 0
    for message in messages:
        sources.append(
            ManifestSource(message.file or "", 0 if message.file else position, message.chunks)
        )
        if message.file is None:
            inline.append(message.data)
            position += len(message.data)
    partitions = sorted({chunk.partition for source in sources for chunk in source.chunks})
    manifest = Manifest(
        batch=number,
        identity=identity,
        sequences={partition: known.get(partition, 0) for partition in partitions},
        log_ends=log_ends(cluster, partitions),
        sources=tuple(sources),
        origin=origin,
    )
    return manifest, inline


def log_ends(
    cluster: ClusterClient, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    found = cluster.list_offsets(dict.fromkeys(partitions, LATEST))
    return {
        partition: found[partition].offset if partition in found else 0 for partition in partitions
    }


def send(
    options: SinkOptions,
    cluster: ClusterClient,
    ledger: CommitLog,
    manifest: Manifest,
    *,
    look_first: bool,
) -> int:
    """Publish a manifest. `look_first`: without the batches that are in the topics' logs already."""
    outgoing = list(manifest.outgoing(ledger.store))
    if look_first:
        there = landed(cluster, manifest.identity, manifest.log_ends, outgoing, options)
        outgoing = [batch for batch in outgoing if (batch.partition, batch.sequence) not in there]
    Publisher(cluster, manifest.identity, options).publish(outgoing)
    return len(outgoing)


def not_landed(
    options: SinkOptions, cluster: ClusterClient, ledger: CommitLog, manifest: Manifest
) -> list[Outgoing]:
    outgoing = list(manifest.outgoing(ledger.store))
    there = landed(cluster, manifest.identity, manifest.log_ends, outgoing, options)
    return [batch for batch in outgoing if (batch.partition, batch.sequence) not in there]


def as_they_are(left: Sequence[Outgoing]) -> tuple[list[Chunk], list[bytes]]:
    chunks = [Chunk(batch.partition, batch.records, batch.size) for batch in left]
    return chunks, [bytes(batch.load()) for batch in left]


def smaller(options: SinkOptions, left: Sequence[Outgoing]) -> tuple[list[Chunk], list[bytes]]:
    """Batches that were too large for a topic, cut to the present ``kafka.batch.size``, which may be less
    than when the manifest was made. Raises `WriteRefusedError` if no batch of a partition gets smaller."""
    from barnabas.pipeline.write.recut import recut

    chunks: list[Chunk] = []
    data: list[bytes] = []
    stuck: set[TopicPartition] = {batch.partition for batch in left}
    for batch in left:
        for piece in recut(options, batch):
            chunks.append(Chunk(piece.partition, piece.records, len(piece.data)))
            data.append(bytes(piece.data))
            if len(piece.data) < batch.size:
                stuck.discard(batch.partition)
    if stuck:
        largest = max(
            (batch for batch in left if batch.partition in stuck), key=lambda batch: batch.size
        )
        raise WriteRefusedError(
            f"{largest.partition}: MESSAGE_TOO_LARGE: {too_large(largest, options)}"
        )
    return chunks, data


def renew(
    cluster: ClusterClient,
    ledger: CommitLog,
    manifest: Manifest,
    chunks: Sequence[Chunk],
    data: Sequence[bytes],
) -> Manifest:
    """Replace a manifest by one with a new producer id, for the batches that are not in the topics yet:
    brokers have forgotten the old producer id, or the batches were cut again."""
    partitions = sorted({chunk.partition for chunk in chunks})
    fresh = replace(
        manifest,
        identity=ProducerIdentity(*cluster.init_producer_id()),
        sequences=dict.fromkeys(partitions, 0),
        log_ends=log_ends(cluster, partitions),
        sources=(ManifestSource("", 0, tuple(chunks)),),
    )
    return ledger.replace(fresh, data)


def publish_plainly(options: SinkOptions, messages: Sequence[StagedTask]) -> int:
    """Publish a batch write that Spark will never repeat."""
    outgoing = outgoing_of(options, messages)
    if outgoing:
        cluster = options.cluster.connect()
        identity = ProducerIdentity(*cluster.init_producer_id())
        Publisher(cluster, identity, options).publish(outgoing)
    discard(options, messages)
    return len(outgoing)
