"""Client quotas by the wire: describe and alter. Each function is one coroutine over `Client`.

Source: KIP-546.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from barnabas.client.client import Client, raise_for
from barnabas.wire.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.wire.messages.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)

EXACT, DEFAULT, ANY = 0, 1, 2
Entity = tuple[tuple[str, str | None], ...]
"""(type, name) sorted by type; the name None is the default."""


class QuotaFilter(NamedTuple):
    """Which entities: for a type `ANY` name, the default (None), or a name. `strict`: no other types."""

    components: Mapping[str, str | int | None]
    strict: bool = False


async def describe_quotas(client: Client, wanted: QuotaFilter) -> dict[Entity, dict[str, float]]:
    """Limits by entity, sorted as the broker does. Raises `KafkaError`."""
    components = [_component(kind, name) for kind, name in wanted.components.items()]
    response = await client.ask_any(
        lambda: DescribeClientQuotasRequest(components=components, strict=wanted.strict),
        lambda r: raise_for(r.error_code, r.error_message),
    )
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries or ()
    }


def _component(kind: str, name: str | int | None) -> ComponentData:
    if name == ANY:
        return ComponentData(entity_type=kind, match_type=ANY, match=None)
    exact = isinstance(name, str)
    match = name if isinstance(name, str) else None
    return ComponentData(entity_type=kind, match_type=EXACT if exact else DEFAULT, match=match)


async def alter_quotas(
    client: Client,
    entity: Entity,
    changes: Mapping[str, float | None],
    *,
    validate_only: bool = False,
) -> None:
    """Set limits of one entity; None removes one. Raises `KafkaError`."""

    def request() -> AlterClientQuotasRequest:
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        ops = [
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in changes.items()
        ]
        entry = EntryData(entity=parts, ops=ops)
        return AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)

    def check(response: Any) -> None:
        for entry in response.entries:
            raise_for(entry.error_code, entry.error_message)

    await client.ask_any(request, check)
