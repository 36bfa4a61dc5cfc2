"""DescribeClientQuotas (KIP-546).

Behaviour: the entities that match a filter, sorted, with their quotas in Kafka's order. A component of the
filter matches an exact name, the default entity, or any name of its entity type. A strict filter matches only
entities that have no other entity types.

Version notes: 1 is flexible.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from barnabas.security.quotas.quota_table import (
    CLIENT_ID,
    FETCHED,
    IP,
    MUTATIONS,
    PRODUCED,
    REQUEST_TIME,
    USER,
    Entity,
)
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from barnabas.wire.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from barnabas.wire.request import Api, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import HasImage

EXACT, DEFAULT, ANY = 0, 1, 2
ORDER_OF_FOUR = (PRODUCED, FETCHED, MUTATIONS, REQUEST_TIME)
ORDER_OF_FEWER = (FETCHED, MUTATIONS, REQUEST_TIME, PRODUCED)
"""Orders in which Kafka 4.3 lists an entity's quotas, all four or fewer: those of a ``HashMap`` of eight and
of four buckets. Clients' tests compare whole answers."""
Wanted = dict[str, tuple[int, str | None]]
"""The match type of each entity type, and the name that an EXACT match wants."""


API = Api(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    DescribeClientQuotasRequest,
    top_level_error(DescribeClientQuotasResponse, entries=None),
    "cluster",
    "describe-configs",
)


def handle(
    request: DescribeClientQuotasRequest, ctx: RequestContext, broker: HasImage
) -> DescribeClientQuotasResponse:
    wanted = _wanted(request)
    quotas = broker.image.client_quotas
    found = [entity for entity in quotas if _matches(entity, wanted, request.strict)]
    if request.strict and not wanted:
        found = []
    return DescribeClientQuotasResponse(
        error_message="",
        entries=[_entry(entity, quotas[entity]) for entity in sorted(found, key=_order)],
    )


def _wanted(request: DescribeClientQuotasRequest) -> Wanted:
    """The request's filter. Raises INVALID_REQUEST, UNSUPPORTED_VERSION."""
    wanted: Wanted = {}
    for component in request.components:
        kind = component.entity_type
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in wanted:
            text = f"Entity type {kind} cannot appear more than once in the filter."
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        if kind not in (IP, USER, CLIENT_ID):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        _check(component)
        wanted[kind] = (component.match_type, component.match)
    if IP in wanted and len(wanted) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used"
            " with user or clientId filter component.",
        )
    return wanted


def _check(component: ComponentData) -> None:
    match, kind = component.match, component.match_type
    problem = ""
    if kind == EXACT:
        if match is None:
            problem = "Request specified MATCH_TYPE_EXACT, but set match string to null."
    elif kind not in (DEFAULT, ANY):
        problem = f"Unknown match type {kind}"
    elif match is not None:
        said = "DEFAULT" if kind == DEFAULT else "SPECIFIED"
        problem = f"Request specified MATCH_TYPE_{said}, but also specified a match string."
    if problem:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _matches(entity: Entity, wanted: Wanted, strict: bool) -> bool:
    has = dict(entity)
    if strict and len(has) != len(wanted):
        return False
    return all(
        kind in has and (match == ANY or has[kind] == name)
        for kind, (match, name) in wanted.items()
    )


def _order(entity: Entity) -> tuple[tuple[str, str], ...]:
    return tuple((kind, name or "") for kind, name in entity)


def _entry(entity: Entity, limits: dict[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[ValueData(key=key, value=limits[key]) for key in _in_kafkas_order(limits)],
    )


def _in_kafkas_order(keys: Collection[str]) -> list[str]:
    order = ORDER_OF_FOUR if len(keys) >= len(ORDER_OF_FOUR) else ORDER_OF_FEWER
    return [key for key in order if key in keys] + sorted(set(keys).difference(order))
