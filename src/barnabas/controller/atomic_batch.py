"""Decides many new partitions of one request in slices, and writes them in one batch.

As in Kafka all records of one CreateTopics or CreatePartitions are in one batch of the log: after a
failover either all of them exist or none, and no client ever sees half a topic. Deciding and
encoding the records, and reading them back into columns, may take many turns; the controller serves
other requests in between. Appending the batch and adding the columns to the image takes one turn.
If brokers, their configurations or features change meanwhile, the request is decided again; after a
few such changes it is decided in one turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from barnabas.controller.decision import Decision, Prepared
from barnabas.controller.decision_context import ControllerContext
from barnabas.metadata.image.codec import encode_records
from barnabas.metadata.image.image import BROKER, CLUSTER_DEFAULT
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.schema import Message

RECORDS_MAX = 10_000
"""Records that one request may cause, as in Kafka."""
ITEM_WEIGHT = 10
"""The number of records that cost as much as one topic's checks, configurations and answer."""
ATTEMPTS_MAX = 5

R = TypeVar("R", bound=Message)


class BatchItem(NamedTuple):
    """One topic of a request. `decide` gives its result and, lazily, its records, or raises
    `KafkaError`; then `refuse` makes its result."""

    size: int
    decide: Callable[[], tuple[Any, Iterator[Message]]]
    refuse: Callable[[KafkaError], Any]
    read_set: Callable[[], Any]
    """The state on which the decision depends, beside brokers, configurations and features."""


class AtomicBatchBuilder(Generic[R]):
    """Makes one decision out of the parts of a request."""

    def __init__(
        self,
        cluster: ControllerContext,
        parts: Sequence[BatchItem],
        respond: Callable[[list[Any]], R],
        *,
        validate_only: bool,
    ) -> None:
        """`respond` makes the response from the results of `parts`. A part may be decided more than
        once."""
        self._cluster = cluster
        self._parts = parts
        self._respond = respond
        self._validate_only = validate_only
        self._is_large = sum(part.size for part in parts) > cluster.bounds.inline_max
        self._results: list[Any] = []
        self._records: list[Message] = []
        self._prepared = Prepared([], [])

    def decision(self) -> Decision[R]:
        """The decision. It is made at once if it is small, else in slices. Raises POLICY_VIOLATION if it
        has more than 10,000 records."""
        attempts = self._attempts()
        if self._is_large:
            return Decision(self._respond([]), [], work=attempts, then=self._whole)
        for _ in attempts:
            pass
        return self._whole(self._cluster)

    def _attempts(self) -> Iterator[Decision[None]]:
        """Decide all parts. If the state on which they depend has changed between two slices, decide them
        again."""
        for attempt in range(ATTEMPTS_MAX):
            before = self._basis()
            for _ in self._gather():
                if attempt < ATTEMPTS_MAX - 1:
                    yield Decision(None)
            if self._basis() == before:
                return

    def _basis(self) -> tuple[Any, ...]:
        """The state on which the parts are decided."""
        cluster = self._cluster
        image = cluster.image
        brokers = [(b.id, b.epoch, b.active, b.cordoned) for b in image.brokers.values()]
        return (
            brokers,
            list(cluster.departing),
            image.config(BROKER, CLUSTER_DEFAULT),
            image.config(BROKER, str(cluster.node_id)),
            image.metadata_version,
            [part.read_set() for part in self._parts],
        )

    def _gather(self) -> Iterator[None]:
        """Decide all parts; stops between slices."""
        self._results, self._records, self._prepared = [], [], Prepared([], [])
        left = slice_max = self._cluster.bounds.slice_max
        for part in self._parts:
            left -= ITEM_WEIGHT
            try:
                result, records = part.decide()
            except KafkaError as error:
                result, records = part.refuse(error), iter(())
            while taken := list(islice(records, max(left, 1))):
                self._add(taken)
                left -= len(taken)
                if left <= 0:
                    left = slice_max
                    yield
            self._results.append(result)
            if left <= 0:
                left = slice_max
                yield

    def _add(self, records: list[Message]) -> None:
        values, staged = self._prepared
        if len(self._records) + len(values) + len(records) > RECORDS_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                "Unable to perform excessively large batch operation: more than"
                f" {RECORDS_MAX} records.",
            )
        if not self._is_large:
            self._records += records
            return
        image = self._cluster.image
        encoded = encode_records(records, image.metadata_version)
        image.stage(encoded, staged)
        values += encoded

    def _whole(self, cluster: ControllerContext) -> Decision[R]:
        response = self._respond(self._results)
        if self._validate_only:
            return Decision(response)
        if self._is_large:
            return Decision(response, prepared=self._prepared)
        return Decision(response, self._records)
