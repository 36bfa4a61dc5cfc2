"""ListConfigResources on a broker's listener (KIP-1142).

Behaviour: returns names of resources of the requested types that have, or may have, a dynamic
configuration.

Version notes: before 1 only client metrics could be asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller.handlers.list_config_resources import API
from barnabas.metadata.views.describe_configs import list_config_resources
from barnabas.wire.messages.list_config_resources_request import ListConfigResourcesRequest
from barnabas.wire.messages.list_config_resources_response import ListConfigResourcesResponse
from barnabas.wire.request import RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import HasImage

__all__ = ["API", "handle"]


def handle(
    request: ListConfigResourcesRequest, ctx: RequestContext, broker: HasImage
) -> ListConfigResourcesResponse:
    return list_config_resources(broker.image, request, ctx.api_version)
