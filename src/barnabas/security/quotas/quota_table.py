"""The limits that the metadata set, and which of them holds for a client.

A limit is set on an entity: a user, a client id, or both, each by name or as the default. The first of eight
that is set holds: user and client id, user and default client id, user, default user and client id, default
user and default client id, default user, client id, default client id. Clients share what is set on a user,
or on a client id; where the entity has both, each client id of each user has a share of its own.

Source: KIP-55, KIP-546; Kafka's ``ClientQuotaManager.DefaultQuotaCallback``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCED, FETCHED = "producer_byte_rate", "consumer_byte_rate"
REQUEST_TIME, MUTATIONS = "request_percentage", "controller_mutation_rate"
CONNECTIONS = "connection_creation_rate"

Entity = tuple[tuple[str, str | None], ...]
"""(type, name) sorted by type; the name None is the default."""
REMEMBERED_MAX = 20_000
"""Clients whose limits are kept; all are dropped when there are more."""


class Share(NamedTuple):
    """A limit, and whose use counts together."""

    limit: float
    user: str
    client_id: str


class QuotaTable:
    """The limits of one metadata image, by key."""

    def __init__(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        self._by_key: dict[str, dict[Entity, float]] = {}
        for entity, limits in quotas.items():
            for key, limit in limits.items():
                if limit > 0:  # what another program wrote may be no limit
                    self._by_key.setdefault(key, {})[entity] = limit
        self._found: dict[tuple[str, str, str], Share | None] = {}

    def has(self, key: str) -> bool:
        """Whether anything is limited by `key`."""
        return key in self._by_key

    def share(self, key: str, user: str, client_id: str) -> Share | None:
        """The share of a client; None where no quota holds for it."""
        limits = self._by_key.get(key)
        if limits is None:
            return None
        asked = (key, user, client_id)
        if asked not in self._found:
            if len(self._found) >= REMEMBERED_MAX:
                self._found.clear()
            self._found[asked] = _first_of(limits, user, client_id)
        return self._found[asked]

    def of_address(self, host: str) -> float | None:
        """How many connections an address may make in a second."""
        limits = self._by_key.get(CONNECTIONS, {})
        own = limits.get(((IP, host),))
        return limits.get(((IP, None),)) if own is None else own


def _first_of(limits: Mapping[Entity, float], user: str, client_id: str) -> Share | None:
    for of_user, of_client, whose in (
        (user, client_id, (user, client_id)),
        (user, None, (user, client_id)),
        (user, "", (user, "")),
        (None, client_id, (user, client_id)),
        (None, None, (user, client_id)),
        (None, "", (user, "")),
        ("", client_id, ("", client_id)),
        ("", None, ("", client_id)),
    ):
        parts = ((CLIENT_ID, of_client), (USER, of_user))
        limit = limits.get(tuple(part for part in parts if part[1] != ""))
        if limit is not None:
            return Share(limit, *whose)
    return None
