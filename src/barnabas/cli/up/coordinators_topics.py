"""Has the topics of a new cluster's coordinators made, which are otherwise made at their first use.

A client that looks for the coordinator of a group or a transaction makes a broker ask the controller for
``__consumer_offsets`` or ``__transaction_state``. Until they are there the client asks again, for which some
of them take a second.
"""

from __future__ import annotations

from functools import partial

from barnabas.client.network.channels import ChannelError, Channels
from barnabas.ports import Ports
from barnabas.security.client_security import ClientSecurity
from barnabas.types import Endpoint
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.schema import Message

GROUP, TRANSACTION = 0, 1
"""Kinds of keys of FindCoordinator."""
NAME = "barnabas-up"
"""The group and the transactional id that are asked for; nothing is kept under the name."""


class CoordinatorsTopics:
    """Asks one broker for a coordinator of each kind, once. What it answers is of no interest."""

    def __init__(self, ports: Ports, security: ClientSecurity) -> None:
        self._channels = Channels(ports, NAME, security=security, by_purpose=False)
        self._waiting = {GROUP, TRANSACTION}

    def ask(self, broker: Endpoint) -> None:
        for kind in sorted(self._waiting):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[NAME])
            self._channels.send(broker, request, partial(self._on_answer, kind))

    def close(self) -> None:
        self._channels.close()

    def _on_answer(self, kind: int, _: Message | ChannelError) -> None:
        self._waiting.discard(kind)
        if not self._waiting:
            self.close()
