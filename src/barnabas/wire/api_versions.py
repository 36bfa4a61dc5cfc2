"""ApiVersions: the APIs and versions that a listener serves, from its table.

Behaviour: a request of any version is answered. An unknown version gets version 0 of the response with
UNSUPPORTED_VERSION and the supported versions of ApiVersions, so that the client can retry (KIP-511). The
connection keeps the client's software name and version. Features come from a callback: the
supported ranges of this program, and the finalized levels of the cluster's metadata with their epoch.
A client that means another cluster or another node was misrouted, and must begin again at its bootstrap
servers (KIP-1242). A listener without an `NodeIdentity`, that of controllers, does not check.

Version notes: requests have the client's software from version 3 on, and the ids of the cluster and the node,
both or neither, from version 5 on. Responses have features from version 3 on. Before version 4, features
whose lowest level is 0 are left out, as older clients refuse a zero (KAFKA-17492). The response header always
has version 0, as the client does not know yet what the node supports. Produce is advertised from version 0,
but refused below version 3 (KAFKA-18659).

Source: Kafka's ``ApiVersionManager``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.dispatch import ApiEntry, ApiTable, Header, decode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from barnabas.wire.request import Api, RequestContext

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SCHEMA = API_SCHEMAS[ApiKey.API_VERSIONS]


@dataclass(slots=True)
class Features:
    """The features in an ApiVersions response, by name. `supported` are (lowest, highest) levels."""

    supported: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    finalized: Mapping[str, int] = field(default_factory=dict)
    epoch: int = -1
    """Metadata offset of which `finalized` are the levels; -1 is unknown."""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """The node that a listener's clients reach."""

    cluster_id: str
    node_id: int


FeatureSource = Callable[[], Features]


def _error_response(request: object, code: int, message: str) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=code)


def _not_called(request: object, ctx: RequestContext, role: object) -> None:
    raise AssertionError("the connection answers ApiVersions itself")


API = Api(ApiKey.API_VERSIONS, ApiVersionsRequest, _error_response)
ENTRY = ApiEntry(
    API, _not_called, None,
    _SCHEMA.min_version, _SCHEMA.max_stable_version, _SCHEMA.first_flexible,
)  # fmt: skip


def serve(
    header: Header,
    frame: memoryview,
    ctx: RequestContext,
    table: ApiTable,
    features: FeatureSource,
    identity: NodeIdentity | None = None,
) -> tuple[ApiVersionsRequest | None, ApiVersionsResponse]:
    """The request and its response. The request is None where its version is not served here; its response
    then has version 0, which `ctx` says afterwards. Raises `MalformedError`."""
    if not ENTRY.min_version <= header.api_version <= ENTRY.max_version:
        ctx.api_version = 0
        return None, unsupported_version()
    request: Any = decode_request(ENTRY, header, frame)
    return request, answer(request, ctx, table, features(), identity)


def answer(
    request: ApiVersionsRequest,
    ctx: RequestContext,
    table: ApiTable,
    features: Features,
    identity: NodeIdentity | None = None,
) -> ApiVersionsResponse:
    """The response to a version that is served here."""
    if not _is_valid(request, ctx.api_version):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if identity is not None and request.cluster_id is not None:
        meant = NodeIdentity(request.cluster_id, request.node_id)
        if meant != identity:
            return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    return ApiVersionsResponse(
        api_keys=advertised(table),
        supported_features=_supported(features, ctx.api_version),
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in sorted(features.finalized.items())
            if level > 0
        ],
    )


def _is_valid(request: ApiVersionsRequest, version: int) -> bool:
    if (request.cluster_id is None) != (request.node_id == -1):
        return False
    return version < 3 or bool(
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    )


def unsupported_version() -> ApiVersionsResponse:
    """The response, in version 0, to a version that is not served here."""
    low, high = ENTRY.advertised
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high)],
    )


def advertised(table: ApiTable) -> list[ApiVersion]:
    """Every API of the listener with its versions, by ascending key."""
    if not table.advertised:
        entries = sorted([*table, ENTRY], key=lambda entry: entry.api.key)
        table.advertised = [
            ApiVersion(api_key=entry.api.key, min_version=low, max_version=high)
            for entry in entries
            for low, high in [entry.advertised]
        ]
    return list(table.advertised)


def _supported(features: Features, version: int) -> list[SupportedFeatureKey]:
    return [
        SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in sorted(features.supported.items())
        if high > 0 and (low > 0 or version >= 4)
    ]
