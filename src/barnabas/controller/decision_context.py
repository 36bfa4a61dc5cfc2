"""The state that deciders read: the image with its uncommitted part, and facts that the image does
not have.

These are the controller's own configuration (defaults of topics), and the brokers that leave or
arrive in the present decision, since their registrations do not say so yet. `departing` brokers are
being fenced or shut down: they may no longer lead or enter an ISR. Sessions and connections belong
to the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from barnabas.config.settings import ControllerSettings
from barnabas.config.topic import topic_default
from barnabas.limits import DecisionBounds
from barnabas.metadata import features as levels
from barnabas.metadata.image.image import BROKER, CLUSTER_DEFAULT, TOPIC, MetadataImage
from barnabas.metadata.image.topic import Topic
from barnabas.policy import NO_POLICIES, Policies
from barnabas.types import (
    DIRECTORIES_UNKNOWN,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    Uuid,
)

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"
STRATEGY = "unclean.recovery.strategy"


class TopicRules(NamedTuple):
    """The part of a topic's configuration that elections need."""

    min_isr: int
    """The configured value; `effective_min_isr` bounds it by the number of replicas."""
    recovery: str
    """The recovery strategy: none, balanced or aggressive (KIP-966)."""

    @property
    def unclean(self) -> bool:
        """Whether any live replica may lead rather than none."""
        return self.recovery == "aggressive"

    def effective_min_isr(self, replicas: int) -> int:
        return min(self.min_isr, replicas)


class ControllerContext:
    """The state on which a decision is made."""

    __slots__ = (
        "_online_directories",
        "_online_directories_at",
        "_rules",
        "_rules_at",
        "arriving",
        "bounds",
        "departing",
        "elr_elections",
        "image",
        "kraft_version",
        "next_offset",
        "node_id",
        "offline_replicas",
        "orders_by_epoch",
        "policies",
        "properties",
        "settings",
        "to_recover",
        "unclean_elections",
        "voters",
    )

    def __init__(  # noqa: PLR0913 - the facts beside the image
        self,
        image: MetadataImage,
        settings: ControllerSettings,
        properties: Mapping[str, str] | None = None,
        node_id: int = -1,
        next_offset: Callable[[], int] = lambda: 0,
        policies: Policies = NO_POLICIES,
        voters: Sequence[int] = (),
        kraft_version: Callable[[], int] = lambda: 0,
        bounds: DecisionBounds = DecisionBounds(),
    ) -> None:
        self.image = image
        self.bounds = bounds
        """The bounds of the work in one turn."""
        self.node_id = node_id
        """This controller's own id."""
        self.settings = settings
        self.properties: Mapping[str, str] = properties or {}
        """The controller's own properties as text: the defaults behind dynamic configuration."""
        self.voters = voters
        """The voters of a static quorum, by the settings."""
        self.kraft_version = kraft_version
        """The level that the quorum keeps itself (kraft.version)."""
        self.policies = policies
        """The operator's policies. They check requests that have passed all other checks."""
        self.next_offset = next_offset
        """Returns the offset of this decision's first record."""
        self.departing: dict[int, str] = {}
        """The brokers that are being fenced or shut down, with the reason; an ordered set."""
        self.to_recover: dict[int, None] = {}
        """The keys of partitions that need an unclean recovery; the runtime takes them when the
        decision is applied."""
        self.arriving: int | None = None
        """The broker that this decision unfences."""
        self.offline_replicas: dict[tuple[Uuid, int], set[int]] = {}
        """The brokers, by topic id and index, that answered that the log directory of their replica has
        failed. They are counted where the metadata has no directories (ZooKeeper)."""
        self.orders_by_epoch = False
        """Whether brokers receive changes by LeaderAndIsr (ZooKeeper). Brokers of Apache Kafka follow one
        only if its leader epoch is higher than the partition's."""
        self.elr_elections = 0
        self.unclean_elections = 0
        """The number of leaders that were elected here since the process began: from the ELR, and
        from outside of ISR and ELR."""
        self._rules: dict[str, TopicRules] = {}
        self._rules_at = -2
        self._online_directories: dict[int, frozenset[Uuid]] = {}
        self._online_directories_at: tuple[int | None, ...] = ()

    @contextmanager
    def leaving(self, brokers: Iterable[int], reason: str) -> Iterator[None]:
        """A context, of perhaps many turns, in which `brokers` are departing. A broker that gets
        another reason meanwhile stays departing: who set that reason ends it."""
        added = [broker for broker in brokers if broker not in self.departing]
        self.departing.update(dict.fromkeys(added, reason))
        try:
            yield
        finally:
            for broker in added:
                if self.departing.get(broker) is reason:
                    del self.departing[broker]

    # -- brokers ---------------------------------------------------------------------------------

    def is_active(self, broker: int) -> bool:
        """Whether the broker may lead and may be in an ISR."""
        if broker in self.departing:
            return False
        if broker == self.arriving:
            return True
        known = self.image.brokers.get(broker)
        return known is not None and not known.fenced and not known.in_controlled_shutdown

    def active_brokers(self) -> dict[int, None]:
        """All brokers for which `is_active` holds, ascending."""
        return {b: None for b in sorted(self.image.brokers) if self.is_active(b)}

    def may_lead(self, broker: int, directory: Uuid) -> bool:
        """Whether the broker is active and the replica's log directory is online."""
        if not self.is_active(broker):
            return False
        known = self.image.brokers.get(broker)
        return known is not None and known.has_directory(directory)

    def online_directories(self) -> Mapping[int, frozenset[Uuid]]:
        """The online log directories of the active brokers that have named theirs."""
        now = (self.image.broker_version, self.arriving, *self.departing)
        if now != self._online_directories_at:
            brokers = self.image.brokers
            self._online_directories_at = now
            self._online_directories = {
                broker: frozenset((*brokers[broker].directories, *DIRECTORIES_UNKNOWN))
                for broker in self.active_brokers()
                if brokers[broker].directories
            }
        return self._online_directories

    def default_directory(self, broker: int) -> Uuid:
        """The directory of a new replica: the broker's only one, else unassigned; ``MIGRATING`` if
        the broker never named its directories (KIP-858)."""
        known = self.image.brokers.get(broker)
        if known is None or not known.directories:
            return DIRECTORY_MIGRATING
        return known.directories[0] if len(known.directories) == 1 else DIRECTORY_UNASSIGNED

    # -- levels and configuration ----------------------------------------------------------------

    @property
    def elr_enabled(self) -> bool:
        """Whether eligible leader replicas are kept (KIP-966)."""
        return self.image.elr_enabled and self.image.metadata_version >= levels.ELR_SINCE

    def rules(self, topic: Topic) -> TopicRules:
        """The topic's rules, cached until the image changes."""
        if self._rules_at != self.image.config_version:
            self._rules.clear()
            self._rules_at = self.image.config_version
        found = self._rules.get(topic.name)
        if found is None:
            found = self._rules[topic.name] = self._read_rules(topic.name)
        return found

    def _read_rules(self, name: str) -> TopicRules:
        setting = self._lookup(name)
        min_isr = setting(MIN_ISR)
        return TopicRules(
            int(min_isr) if min_isr else self.settings.min_insync_replicas,
            self._recovery(setting),
        )

    def _lookup(self, topic: str) -> Callable[[str], str | None]:
        """The topic's own value, else the cluster's dynamic default, else the value in the properties."""
        own = self.image.config(TOPIC, topic)
        cluster = self.image.config(BROKER, CLUSTER_DEFAULT)

        def setting(key: str) -> str | None:
            return own.get(key) or cluster.get(key) or self.properties.get(key)

        return setting

    def _recovery(self, setting: Callable[[str], str | None]) -> str:
        """The recovery strategy that is set. If none is set it follows from unclean.leader.election.enable
        (KIP-966)."""
        strategy = (setting(STRATEGY) or "").lower()
        if strategy in ("none", "balanced", "aggressive"):
            return strategy
        unclean = setting(UNCLEAN)
        if unclean is None:
            return "aggressive" if self.settings.unclean_leader_election else "balanced"
        return "aggressive" if unclean.strip().lower() == "true" else "balanced"

    def topic_default(self, key: str) -> object:
        """The typed default of a topic's key in this cluster."""
        texts = {**self.properties, **self.image.config(BROKER, CLUSTER_DEFAULT)}
        return topic_default(key, texts)
