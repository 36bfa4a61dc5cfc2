"""Bugs of ZooKeeper mode."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barnabas.sim.run import Plan
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.zookeeper.broker.control_requests import ControlRequests
from barnabas.zookeeper.broker.registration import ZookeeperRegistration
from barnabas.zookeeper.config_watch import ConfigWatch
from barnabas.zookeeper.controller.broker_orders import BrokerOrders
from barnabas.zookeeper.controller.journal import ZookeeperJournal
from barnabas.zookeeper.controller.metadata_reader import FoundCluster
from barnabas.zookeeper.controller.zookeeper_controller import ZookeeperController
from barnabas.zookeeper.election.states import Leadership
from barnabas.zookeeper.layout.cluster_state_znodes import CONTROLLER_EPOCH
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.operations import CheckVersion
from tests.sim.mutants.controller import answered_before_committed, leader_epoch_not_bumped
from tests.sim.mutants.planting import Mutant, Patch

ZOOKEEPER = Plan(zookeeper=True)


def writes_under_any_epoch() -> list[Patch]:
    return [(Leadership, "check", property(lambda self: CheckVersion(CONTROLLER_EPOCH, -1)))]


def obeys_older_controllers() -> list[Patch]:
    honest = ControlRequests._check

    def obeys(self: ControlRequests, request: Any) -> None:
        try:
            honest(self, request)
        except KafkaError as error:
            if error.code is not ErrorCode.STALE_CONTROLLER_EPOCH:
                raise

    return [(ControlRequests, "_check", obeys)]


def orders_before_written() -> list[Patch]:
    honest = ZookeeperJournal._submit

    def at_once(
        self: ZookeeperJournal, leadership: Any, operations: deque[Any], batches: list[Any]
    ) -> None:
        committed = list(batches)
        if committed:
            self._commit(committed)
        honest(self, leadership, operations, [])

    return [(ZookeeperJournal, "_submit", at_once)]


def lost_order_not_sent_again() -> list[Patch]:
    honest = BrokerOrders._on_failed

    def forgets(
        self: BrokerOrders, queue: Any, undo: Callable[[], None], answer: Any, code: ErrorCode
    ) -> None:
        honest(self, queue, lambda: None, answer, code)

    return [(BrokerOrders, "_on_failed", forgets)]


def configs_read_behind() -> list[Patch]:
    def unsynced(
        self: ConfigWatch, names: Sequence[str], then: Callable[[dict[str, Any]], None]
    ) -> None:
        found: dict[str, Mapping[str, str]] = {}

        def on_one(entity: str, values: Mapping[str, str]) -> None:
            found[entity.removeprefix("topics/")] = values
            if len(found) == len(wanted):
                then(found)

        wanted = dict.fromkeys(names)
        for name in wanted:
            self.read(f"topics/{name}", on_one)

    return [(ConfigWatch, "read_topics", unsynced)]


def deletion_forgotten_at_failover() -> list[Patch]:
    honest = FoundCluster.load

    def forgets(self: FoundCluster, znodes: Any, new_id: Any) -> None:
        honest(self, znodes, new_id)
        self.going = {}

    return [(FoundCluster, "load", forgets)]


def producer_ids_given_twice() -> list[Patch]:
    honest = ClusterLayout._apply_znode

    def without_ids(self: ClusterLayout, *arguments: Any) -> None:
        honest(self, *arguments)
        self.producer_ids = None

    return [(ClusterLayout, "_apply_znode", without_ids)]


def broker_ids_watched_once() -> list[Patch]:
    honest = ZookeeperController._look_at

    def without_ids(self: ZookeeperController, path: str) -> None:
        if path != "/brokers/ids" or not self._registered:
            honest(self, path)

    return [(ZookeeperController, "_look_at", without_ids)]


def expired_broker_stays_away() -> list[Patch]:
    def keeps_its_epoch(self: ZookeeperRegistration) -> None:
        return

    return [(ZookeeperRegistration, "on_expired", keeps_its_epoch)]


MUTANTS = (
    Mutant("zk-any-epoch", "a controller's writes are conditional on no controller epoch",
           writes_under_any_epoch, ZOOKEEPER),
    Mutant("zk-older-controller-obeyed", "a broker follows orders of a controller that was replaced",
           obeys_older_controllers, ZOOKEEPER),
    Mutant("zk-ordered-before-written", "brokers learn what is not written yet",
           orders_before_written, ZOOKEEPER),
    Mutant("zk-answered-before-written", "a request is answered before its records are in znodes",
           answered_before_committed, ZOOKEEPER),
    Mutant("zk-order-lost", "an order that failed is not sent again", lost_order_not_sent_again,
           ZOOKEEPER),
    Mutant("zk-leader-epoch-kept", "a new leader's state znode has the old leader epoch",
           leader_epoch_not_bumped, ZOOKEEPER),
    Mutant("zk-configs-behind", "a new replica's configuration is read from a server that lags",
           configs_read_behind, ZOOKEEPER),
    Mutant("zk-deletion-forgotten", "a new controller does not continue deletions",
           deletion_forgotten_at_failover, ZOOKEEPER),
    Mutant("zk-producer-ids-twice", "a new controller does not know which producer ids were given out",
           producer_ids_given_twice, ZOOKEEPER),
    Mutant("zk-ids-watched-once", "the controller does not watch registrations again",
           broker_ids_watched_once, ZOOKEEPER),
    Mutant("zk-expired-stays-away", "a broker whose session has expired does not register again",
           expired_broker_stays_away, ZOOKEEPER),
)  # fmt: skip
