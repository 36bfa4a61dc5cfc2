"""The choice among the kinds of delivery, by option ``delivery``.

| option | kind |
|---|---|
| ``at-least-once`` | tasks send their rows themselves; a task that runs twice writes twice |
| ``exactly-once`` | transactions: the driver's, or those of tasks where the batch has begun so. A manifest |
| | where the query's ledger was begun by one, or the cluster has no transactions |
| ``transactions``, ``manifest`` | one of the two ways and no other |
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.options import ClusterOptions, SinkOptions
from barnabas.pipeline.places.bare_paths import options_in
from barnabas.pipeline.places.stores import open_store
from barnabas.pipeline.write.by_driver import ByDriver
from barnabas.pipeline.write.by_manifest import ByManifest
from barnabas.pipeline.write.commit_log import CommitLog
from barnabas.pipeline.write.delivery import BatchDelivery
from barnabas.pipeline.write.direct import AtLeastOnce
from barnabas.pipeline.write.prepared.by_tasks import ByTasks
from barnabas.pipeline.write.prepared.participants import BatchBegun
from barnabas.pipeline.write.staged_task import StagedTask
from barnabas.wire.api_table import ApiKey

AT_LEAST_ONCE, EXACTLY_ONCE, MANIFEST = "at-least-once", "exactly-once", "manifest"
ASKED_FOR = "Option delivery=transactions moves the query, with its ledger"
BEGUN_SO = "The query began so: option delivery=transactions moves it, with its ledger"
NONE_HERE = (
    "The cluster has no transactions, which every Kafka has since 0.11: move to one that has"
)
_with_transactions: set[ClusterOptions] = set()


def by_options(options: SinkOptions, begun: BatchBegun | None) -> BatchDelivery:
    """The kind as a task knows it, which asks no cluster: it stages its rows alike for the driver's
    transaction and for a manifest. `begun` where the batch has begun with transactions of tasks."""
    if options.delivery == AT_LEAST_ONCE:
        return AtLeastOnce(options)
    if options.delivery == MANIFEST:
        return ByManifest(options, ASKED_FOR)
    return ByDriver(options) if begun is None else ByTasks(options, begun)


def by_tasks(options: SinkOptions, tasks: Sequence[StagedTask]) -> BatchDelivery:
    """The kind for the driver, which has what tasks have written: by their options, and as the batch has
    begun."""
    begun = next((task.begun for task in tasks if task.begun is not None), None)
    return by_options(options_in(options, tasks[0].store) if tasks else options, begun)


def to_commit(
    options: SinkOptions, tasks: Sequence[StagedTask], number: int | None
) -> BatchDelivery:
    """The kind for the commit of batch `number`: where no transaction is possible, and none is demanded, the
    manifest. Raises `ClusterUnreachableError`."""
    found = by_tasks(options, tasks)
    if not isinstance(found, ByDriver) or found.options.delivery != EXACTLY_ONCE:
        return found
    if number is not None and _is_begun_by_manifest(found.options, tasks[0].application):
        return ByManifest(found.options, BEGUN_SO)
    if not _has_transactions(found.options.cluster):
        return ByManifest(found.options, NONE_HERE)
    return found


def _is_begun_by_manifest(options: SinkOptions, application: str) -> bool:
    if options.staging is None:
        return False
    return CommitLog(open_store(options.staging), application).is_in_use()


def _has_transactions(cluster: ClusterOptions) -> bool:
    """Whether brokers serve them. Raises `ClusterUnreachableError`."""
    if cluster not in _with_transactions:
        try:
            if not cluster.connect().serves(ApiKey.INIT_PRODUCER_ID):
                return False
        except ChannelError as error:
            if error.kind != "unsupported":
                raise
            return False
        _with_transactions.add(cluster)
    return True
