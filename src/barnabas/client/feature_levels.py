"""Describes and updates feature levels; unregisters brokers and controllers.

Like `admin`: each function is a coroutine over `Client`, returns plain values and raises `KafkaError`.
Source: KIP-584, KIP-778 (UpdateFeatures), KIP-631 (UnregisterBroker).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from barnabas import __version__
from barnabas.client.client import Client, raise_for
from barnabas.metadata.features import METADATA_VERSION, metadata_version_name
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.wire.messages.unregister_controller_request import UnregisterControllerRequest
from barnabas.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class Feature(NamedTuple):
    """One feature with the levels that a broker supports; `level` is the finalized one, 0 if there is
    none."""

    name: str
    lowest: int
    highest: int
    level: int

    def level_name(self, level: int) -> str:
        """A level as text; levels of metadata.version have a name."""
        if self.name == METADATA_VERSION and level:
            return f"{metadata_version_name(level)} ({level})"
        return str(level)


class FeatureLevels(NamedTuple):
    """Features by name; `epoch` is the offset of the finalized levels in the metadata log, -1 if unknown."""

    features: dict[str, Feature]
    epoch: int


async def describe_features(client: Client) -> FeatureLevels:
    """The finalized levels, and those that one broker supports. Raises `KafkaError`."""
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
    """Change all of these levels, or none. With `validate_only` nothing changes. Raises `KafkaError`."""

    def request() -> UpdateFeaturesRequest:
        updates = [
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level in levels.items()
        ]
        return UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)

    await client.ask_any(request, _check_update)


async def unregister_broker(client: Client, broker_id: int) -> None:
    """Unregister a broker that will not return. Raises `KafkaError`."""
    await client.ask_any(lambda: UnregisterBrokerRequest(broker_id=broker_id), _check)


async def unregister_controller(client: Client, controller_id: int) -> None:
    """Unregister a controller that will not return. Raises `KafkaError`."""
    await client.ask_any(lambda: UnregisterControllerRequest(controller_id=controller_id), _check)


def _check(response: Any) -> None:
    raise_for(response.error_code, getattr(response, "error_message", None))


def _check_update(response: Any) -> None:
    _check(response)
    for result in response.results:
        raise_for(result.error_code, result.error_message)
