"""Asks the leaders of partitions, this broker among them, for end offsets and for records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.broker.broker import Broker
from barnabas.broker.handlers.fetch import API as FETCH
from barnabas.wire.api_table import API_SCHEMAS
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.messages.list_offsets_request import ListOffsetsRequest
from barnabas.wire.request import Parked

PURPOSE = "lag"
FETCH_VERSION = API_SCHEMAS[FETCH.key].max_stable_version

OnDone = Callable[[object], None]


class Leaders:
    """Sends one broker's questions to leaders: `rounds.Asks`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def ends(self, leader: int, request: ListOffsetsRequest, on_done: OnDone) -> None:
        self._broker.transactions.peers.send(leader, request, on_done, purpose=PURPOSE)

    def reads(self, leader: int, request: FetchRequest, on_done: OnDone) -> None:
        """Ask for records. This broker reads its own logs without a client's checks: ACLs and
        quotas are for clients."""
        broker = self._broker
        if leader != broker.node_id:
            broker.transactions.peers.send(leader, request, on_done, purpose=PURPOSE)
            return
        broker.ports.wakeups.call_soon(partial(self._read_here, request, on_done))

    def _read_here(self, request: FetchRequest, on_done: OnDone) -> None:
        try:
            answer = self._broker.fetches.fetch(request, FETCH_VERSION)
        except KafkaError as error:
            on_done(error)
            return
        if isinstance(answer, Parked):
            answer.attach(on_done)
        else:
            on_done(answer)
