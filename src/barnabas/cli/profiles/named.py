"""Profiles: several clusters or users in one file of a client's properties, of which a command takes one.

    ssl.truststore.type=PEM
    profile=test
    profile.test.bootstrap.servers=test1:9092
    profile.production.bootstrap.servers=one:9092,two:9092
    profile.production.security.protocol=SASL_SSL
    profile.production.sasl.jaas.config=... password="${file:/run/secrets/admin.properties:password}";
    config.providers=file
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider

A key behind ``profile.NAME.`` wins over the plain one, which holds for all profiles. ``--profile NAME`` or
``$BARNABAS_PROFILE`` chooses, else the key ``profile``. Variables are resolved in the chosen profile only.
Kafka's own tools ignore unknown keys: they use the plain keys of the same file.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.config.nearest import hint

KEY = "profile"
PREFIX = KEY + "."


class UnknownProfile(ValueError):
    """The file has no profile of this name; the text says which it has."""


def of_profile(properties: Mapping[str, str], wanted: str = "") -> dict[str, str]:
    """The properties of the profile `wanted`, or of the one that they choose themselves. Raises
    :class:`UnknownProfile`."""
    name = wanted or properties.get(KEY, "").strip()
    plain = {key: value for key, value in properties.items() if not _is_of_profiles(key)}
    if not name:
        return plain
    start = f"{PREFIX}{name}."
    own = {
        key.removeprefix(start): value for key, value in properties.items() if key.startswith(start)
    }
    if not own:
        known = names_of(properties)
        there = f"it has {', '.join(known)}" if known else "it has none"
        raise UnknownProfile(f"there is no profile {name!r}: {there}{hint(name, known)}")
    return plain | own


def names_of(properties: Mapping[str, str]) -> list[str]:
    """Sorted."""
    found = {key.removeprefix(PREFIX).split(".")[0] for key in properties if key.startswith(PREFIX)}
    return sorted(found)


def _is_of_profiles(key: str) -> bool:
    return key == KEY or key.startswith(PREFIX)
