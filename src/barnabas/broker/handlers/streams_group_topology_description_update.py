"""StreamsGroupTopologyDescriptionUpdate.

Behaviour: a member pushes the description of its topology where an answer to its heartbeat asks for it
(KIP-1331). No answer asks for it here, since a plug-in in Java keeps descriptions in Kafka. A description
that is pushed all the same gets the answer of an Apache Kafka broker without that plug-in:
UNSUPPORTED_VERSION with a message.

Version notes: there is one version.
"""

from __future__ import annotations

from barnabas.broker.roles import StreamsGroupRole
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from barnabas.wire.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from barnabas.wire.request import Api, RequestContext
from barnabas.wire.schema import Message

NO_PLUGIN = "The broker has no streams group topology description plugin configured."
error_response = top_level_error(StreamsGroupTopologyDescriptionUpdateResponse)

API = Api(
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    StreamsGroupTopologyDescriptionUpdateRequest,
    error_response,
    "group",
    "read",
)


def handle(
    request: StreamsGroupTopologyDescriptionUpdateRequest,
    ctx: RequestContext,
    role: StreamsGroupRole,
) -> Message | None:
    why = NO_PLUGIN if role.groups.serves_streams_groups else ""
    return error_response(request, ErrorCode.UNSUPPORTED_VERSION, why)
