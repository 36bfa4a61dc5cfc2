"""Registered brokers and controllers as the metadata log has them.

Source: RegisterBrokerRecord, BrokerRegistrationChangeRecord, RegisterControllerRecord; KIP-631,
KIP-841 (controlled shutdown), KIP-858 (log directories), KIP-919 (controllers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.types import DIRECTORIES_UNKNOWN, DIRECTORY_LOST, Endpoint, Uuid

DAYS_OF_400_YEARS, DAYS_TO_1970 = 146_097, 719_468
"""The second one counts from the first of March of the year 0."""
DATES_END_MS = 253_402_300_800_000
"""The year 10000: what a record of another system says may be any number."""


class ListenerEndpoint(NamedTuple):
    """One advertised listener. `protocol` is Kafka's number (0 PLAINTEXT, 1 SSL, 2 and 3 SASL)."""

    host: str
    port: int
    protocol: int = 0

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.host, self.port)


class VersionRange(NamedTuple):
    """Levels of one feature that a node supports, inclusive."""

    lowest: int
    highest: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.lowest <= level <= self.highest


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One broker's present incarnation. `epoch` is the offset of the record that registered it."""

    id: int
    epoch: int
    incarnation: Uuid
    listeners: dict[str, ListenerEndpoint] = field(default_factory=dict)
    features: dict[str, VersionRange] = field(default_factory=dict)
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[Uuid, ...] = ()
    cordoned: tuple[Uuid, ...] = ()
    """Directories that take no new replicas (KIP-1066)."""
    registered_ms: int = -1
    """When this incarnation was registered; -1 where another system wrote the record."""
    is_on_zookeeper: bool = False
    """A broker in ZooKeeper mode whose cluster migrates to KRaft (``isMigratingZkBroker``)."""

    @property
    def active(self) -> bool:
        """May lead and join an ISR: neither fenced nor on its way out."""
        return not (self.fenced or self.in_controlled_shutdown)

    def endpoint(self, listener: str) -> Endpoint | None:
        """The address at which clients of `listener` reach this broker."""
        found = self.listeners.get(listener)
        return found.endpoint if found else None

    def has_directory(self, directory: Uuid) -> bool:
        """Whether a replica there is online: the directory is registered, or nothing is known of
        it (unassigned, migrating; not lost), or the broker never named its directories."""
        if directory == DIRECTORY_LOST:
            return False
        return (
            directory in self.directories
            or not self.directories
            or directory in DIRECTORIES_UNKNOWN
        )


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """One controller's present incarnation."""

    id: int
    incarnation: Uuid
    zk_migration_ready: bool = False
    listeners: dict[str, ListenerEndpoint] = field(default_factory=dict)
    features: dict[str, VersionRange] = field(default_factory=dict)
    registered_ms: int = -1
    """The time of registration, as `BrokerRegistration` has it."""


def holder_of_broker_id(known: BrokerRegistration | None) -> str:
    """The process that has this broker's id, where and since when, for people; empty where none has."""
    if known is None:
        return ""
    rack = f" in rack {known.rack}" if known.rack else ""
    since = _since(known.registered_ms) or f" since offset {known.epoch} of the metadata log"
    return f"the broker at {_places(known.listeners)}{rack}, registered{since}"


def holder_of_controller_id(known: ControllerRegistration) -> str:
    """The process that has this controller's id, where and since when, for people; empty where none has."""
    return f"the controller at {_places(known.listeners)}, registered{_since(known.registered_ms)}"


def _places(listeners: Mapping[str, ListenerEndpoint]) -> str:
    return ", ".join(
        f"{name}://{Endpoint(x.host, x.port)}" for name, x in sorted(listeners.items())
    )


def _since(ms: int) -> str:
    """In UTC; empty where it is not known, or no date."""
    if not 0 <= ms < DATES_END_MS:
        return ""
    days, rest = divmod(ms // 1000, 86_400)
    year, month, day = _date(days)
    minutes, second = divmod(rest, 60)
    hour, minute = divmod(minutes, 60)
    return f" since {year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC"


def _date(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days after 1970-01-01; a year begins in March, so that the leap day
    is its last."""
    century, in_centuries = divmod(days + DAYS_TO_1970, DAYS_OF_400_YEARS)
    year = (
        in_centuries - in_centuries // 1_460 + in_centuries // 36_524 - in_centuries // 146_096
    ) // 365
    in_year = in_centuries - (365 * year + year // 4 - year // 100)
    since_march = (5 * in_year + 2) // 153
    month = since_march + 3 if since_march < 10 else since_march - 9
    day = in_year - (153 * since_march + 2) // 5 + 1
    return 400 * century + year + (month <= 2), month, day
