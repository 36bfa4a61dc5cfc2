"""DescribeConfigs on a broker's listener.

Behaviour: topics, groups and the cluster's defaults from the committed metadata; a broker's own
configuration only from that broker. See :mod:`barnabas.metadata.views.describe_configs`.

Version notes: 1 synonyms, 3 documentation and types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller.handlers.describe_configs import API
from barnabas.metadata.views.describe_configs import Configuration, describe_configs
from barnabas.wire.messages.describe_configs_request import DescribeConfigsRequest
from barnabas.wire.messages.describe_configs_response import DescribeConfigsResponse
from barnabas.wire.request import RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import DescribeConfigsRole

__all__ = ["API", "handle"]


def handle(
    request: DescribeConfigsRequest, ctx: RequestContext, broker: DescribeConfigsRole
) -> DescribeConfigsResponse:
    at = Configuration(broker.image, broker.node_id, broker.config.properties)
    return describe_configs(at, request)
