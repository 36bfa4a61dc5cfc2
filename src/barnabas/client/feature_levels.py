"""Feature levels and registrations: what an administrator changes about the cluster as a whole.

Like `admin`: each function is one coroutine over `Client` and gives plain values; a refusal is a
`KafkaError`. Source: KIP-584, KIP-778 (UpdateFeatures), KIP-631 (UnregisterBroker).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from barnabas import __version__
from barnabas.client.client import Client, raise_for
from barnabas.metadata.features import METADATA_VERSION, metadata_version_name
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class Feature(NamedTuple):
    """One feature as a broker knows it; its level is 0 where none is finalized."""

    name: str
    lowest: int
    highest: int
    level: int

    def level_name(self, level: int) -> str:
        """For people: a metadata.version has a name."""
        if self.name == METADATA_VERSION and level:
            return f"{metadata_version_name(level)} ({level})"
        return str(level)


class FeatureLevels(NamedTuple):
    """By name; `epoch` is the offset of the metadata that say so, -1 where that is not known."""

    features: dict[str, Feature]
    epoch: int


async def describe_features(client: Client) -> FeatureLevels:
    """What some broker supports, and which levels are finalized."""
    response = await client.ask_any(
        lambda: ApiVersionsRequest(
            client_software_name="barnabas", client_software_version=__version__
        ),
        _check,
    )
    finalized = {f.name: f.max_version_level for f in response.finalized_features}
    supported = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
    for name, level in finalized.items():
        supported.setdefault(name, (level, level))
    found = {
        name: Feature(name, *supported[name], finalized.get(name, 0)) for name in sorted(supported)
    }
    return FeatureLevels(found, response.finalized_features_epoch)


async def update_features(
    client: Client, levels: Mapping[str, int], kind: int, *, validate_only: bool = False
) -> None:
    """Move all of them, or none. With `validate_only` the controller only says whether it would."""

    def request() -> UpdateFeaturesRequest:
        updates = [
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level in levels.items()
        ]
        return UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)

    await client.ask_any(request, _check_update)


async def unregister_broker(client: Client, broker_id: int) -> None:
    """Have the cluster forget a broker that is gone for good."""
    await client.ask_any(lambda: UnregisterBrokerRequest(broker_id=broker_id), _check)


def _check(response: Any) -> None:
    raise_for(response.error_code, getattr(response, "error_message", None))


def _check_update(response: Any) -> None:
    _check(response)
    for result in response.results:
        raise_for(result.error_code, result.error_message)
