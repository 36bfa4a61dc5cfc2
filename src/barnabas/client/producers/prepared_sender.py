"""Sends batches that are encoded already, under the identity and the sequences that they carry.

A batch follows the one before it of its partition only once that is acknowledged: where one fails, the rest
of its partition is dropped, and the other partitions continue. None is given up while any makes progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.client.client import Client
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.batch_sender import B, BatchSender, Lane, SendOptions

LOAD_MS_MIN = 10.0
"""A shorter time is not worth to be added to every deadline."""


class PreparedSender(BatchSender[B]):
    """Sends one lot of batches and is done."""

    def __init__(
        self,
        client: Client,
        options: SendOptions,
        on_failed: Callable[[B, Exception], None],
        *,
        patience_ms: float,
        at_most: int | None = None,
    ) -> None:
        """`on_failed` gets the batch with which a partition ends, and why; what it raises ends the delivery.
        After `patience_ms` without an acknowledgement the batches that wait fail. `at_most` is the newest
        version of Produce to speak."""
        super().__init__(client, options)
        self._report = on_failed
        self._patience_ms = patience_ms
        self._at_most = at_most
        self._give_up_at_ms = 0.0
        self._ended: TaskOutcome[None] = TaskOutcome()

    async def deliver(self, batches: Iterable[B]) -> None:
        """Return when each partition's batches are acknowledged, or one of them has failed; then nothing is
        under way. Where `on_failed` raises, something may be; it is not sent again."""
        for batch in batches:
            self._lanes.setdefault(batch.partition, Lane()).batches.append(batch)
        self._renew()
        self._end_if_idle()
        self.wakeup()
        try:
            await self._ended
        finally:
            self._ended.resolve(None)
            if self._wakeup is not None:
                self._wakeup.cancel()

    def _renew(self) -> None:
        self._give_up_at_ms = self._client.now_ms() + self._patience_ms

    def _end_if_idle(self) -> None:
        if self._is_idle():
            self._ended.resolve(None)

    def _start_request(self, leader: int, batches: list[B]) -> None:
        """Loading takes time in which no answer is read: it makes no request late."""
        began_ms = self._client.now_ms()
        super()._start_request(leader, batches)
        took_ms = self._client.now_ms() - began_ms
        if took_ms > LOAD_MS_MIN:
            self._give_up_at_ms += took_ms
            self._client.channels.postpone(took_ms)

    def _is_idle(self) -> bool:
        return self._ended.done or super()._is_idle()

    def _produce_at_most(self) -> int | None:
        return self._at_most

    def _deadline_ms(self, batch: B) -> float:
        return self._give_up_at_ms

    def _on_accepted(self, batch: B, base_offset: int, append_time_ms: int) -> None:
        self._renew()
        self._end_if_idle()

    def _on_failed(self, lane: Lane[B], batch: B, error: Exception) -> None:
        lane.batches.clear()
        try:
            self._report(batch, error)
        except Exception as end:  # noqa: BLE001 - it is the end of the delivery
            self._ended.reject(end)
        else:
            self._end_if_idle()
