"""Fetch.

Behaviour: see :mod:`barnabas.broker.fetch.fetch_service`. Consumers read to the high watermark, or with
read_committed to the last stable offset; followers read to the log end offset. With an authorizer, each read
pass checks that the consumer may read its partitions; a fetch that waits is checked again when it is
answered.

Version notes: 7 sessions, 9 leader epochs, 11 consumers may read from followers, 12 diverging epochs,
13 topics by id, 15 the replica's state, 16 endpoints of new leaders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.security.authorization.topic_reader import TopicReader
from barnabas.security.quotas.client_meter import is_follower
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.messages.fetch_response import (
    FetchResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import FetchRole


API = Api(
    ApiKey.FETCH,
    FetchRequest,
    mirrored_error(FetchRequest, FetchResponse, high_watermark=-1, records=b""),
    "topic",
    "read",
    waits=True,
)


def handle(
    request: FetchRequest, ctx: RequestContext, broker: FetchRole
) -> FetchResponse | Parked | None:
    quotas = broker.quotas
    if quotas.active and not is_follower(request):
        bytes_max = quotas.fetch_bytes_max(ctx.principal, ctx.client_id)
        if bytes_max is not None:
            request.max_bytes = min(request.max_bytes, int(bytes_max))
    authorizer = broker.authorizer
    if authorizer is None:
        return broker.fetches.fetch(request, ctx.api_version, ctx.listener)
    reader = TopicReader(authorizer, ctx)
    return broker.fetches.fetch(request, ctx.api_version, ctx.listener, reader)
