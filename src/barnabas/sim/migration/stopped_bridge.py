"""The bridge of a stopped cluster: what ``barnabas migrate copy`` and ``revert`` do while no node is up.

Clients continue to ask meanwhile, and faults hit the ensemble; nodes are shut down cleanly or killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.config.meta_properties import (
    FILE_NAME,
    read_owner,
    zookeeper_owner_text,
)
from barnabas.ports import Disk
from barnabas.raft.storage.replica_log import DIRECTORY
from barnabas.sim.history import Violation
from barnabas.sim.migration import stopped_log
from barnabas.sim.migration.cluster import MigratingSimNode, MigrationCluster, Mode
from barnabas.sim.migration.operator_steps import OperatorSteps
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.layout.broker_znodes import IDS
from barnabas.zookeeper.layout.cluster_state_znodes import CONTROLLER
from barnabas.zookeeper.layout.request_znodes import PREFERRED_ELECTION, REASSIGN
from barnabas.zookeeper.migration import claim, comparison, copying, findings
from barnabas.zookeeper.migration.findings import MigrationState
from barnabas.zookeeper.migration.znode_walk import Znodes

RETRY_MS = 200.0


async def to_kraft(operator: OperatorSteps) -> None:
    """Stop the brokers, copy the znodes into a quorum, start the brokers under it."""
    cluster = operator.cluster
    operator.note("the brokers are stopped for a copy")
    while (znodes := await _claimed(operator)) is None:
        await _start(operator, cluster.migrating_brokers, Mode.ZOOKEEPER)
        await operator.pause()
    controllers = cluster.begin_attempt(copying.records_of(znodes))
    cluster.world.totals["stopped copies"] += 1
    await _start(operator, controllers, Mode.KRAFT)
    operator.wait_for("znodes and the log of a copy to say the same")
    while cluster.committed_image is None or comparison.differences(
        znodes, cluster.committed_image
    ):
        await operator.sleep(RETRY_MS)
    cluster.is_copied = True
    await _start(operator, cluster.migrating_brokers, Mode.KRAFT)
    await operator.until(lambda: _serve(cluster), "brokers under KRaft")


async def back_to_zookeeper(operator: OperatorSteps) -> None:
    """Stop all nodes, write into the znodes what the log says, start the brokers on ZooKeeper."""
    cluster = operator.cluster
    operator.note("all nodes are stopped for the way back")
    controllers, brokers = cluster.controllers, cluster.migrating_brokers
    await _stop(operator, [*brokers, *controllers])
    image = stopped_log.longest(controllers)
    is_released = False
    while not is_released:
        operator.wait_for("the znodes to say what the log says")
        try:
            znodes = await operator.znodes.read()
            if findings.state_of(znodes) is not MigrationState.NONE:
                await operator.znodes.write(copying.way_back(znodes, image))
                znodes = await operator.znodes.read()
                found = comparison.differences(znodes, image)
                if found:
                    raise Violation(f"after the way back of a stopped cluster: {found[0]}")
                _give_back(brokers)
                await operator.znodes.write([claim.release(znodes)])
            _forget_quorum(brokers)
            is_released = True
        except (ZooKeeperError, OSError):  # the command is repeated
            await operator.sleep(RETRY_MS)
    cluster.world.totals["stopped ways back"] += 1
    cluster.end_attempt()
    await _start(operator, brokers, Mode.ZOOKEEPER)
    await operator.until(lambda: cluster.active_controller() is not None, "a controller")


def _serve(cluster: MigrationCluster) -> bool:
    log = cluster.committed_image
    known = () if log is None else log.brokers.values()
    return {broker.id for broker in known if not broker.fenced} == set(cluster.topology.broker_ids)


async def _claimed(operator: OperatorSteps) -> Znodes | None:
    """The znodes, once no broker is up and `/controller` is claimed; None where the brokers have to finish
    something first."""
    await _stop(operator, operator.cluster.migrating_brokers)
    while True:
        operator.wait_for("the copy to be possible")
        try:
            znodes = await operator.znodes.read()
            if findings.is_claimed(znodes):
                if not findings.find(znodes).preventing:
                    return znodes
                await operator.znodes.write([claim.release(znodes)])
                return None
            if not findings.find(znodes).preventing:
                wall_ms = int(operator.cluster.world.now_ms)
                first = operator.cluster.quorum_ids[0]
                await operator.znodes.write([claim.take(znodes, first, 0, wall_ms)[0]])
            elif not _have_sessions(znodes):
                return None
        except ZooKeeperError:
            pass
        await operator.sleep(RETRY_MS)


def _have_sessions(znodes: Znodes) -> bool:
    """Whether brokers are only waited for: their sessions have not ended yet."""
    if REASSIGN in znodes or PREFERRED_ELECTION in znodes:
        return False
    return CONTROLLER in znodes or any(path.startswith(f"{IDS}/") for path in znodes)


async def _stop(operator: OperatorSteps, nodes: list[MigratingSimNode]) -> None:
    for node in nodes:
        node.is_wanted = False
    for node in operator.shuffled(nodes):
        await operator.stop(node)


async def _start(operator: OperatorSteps, nodes: list[MigratingSimNode], mode: Mode) -> None:
    """In any order, and one soon after the other."""
    for node in nodes:
        node.mode, node.is_wanted = mode, True
    for node in operator.shuffled(nodes):
        node.start()
        await operator.pause(0.2)


def _give_back(nodes: list[MigratingSimNode]) -> None:
    """The `meta.properties` of brokers on ZooKeeper. Raises ``OSError``."""
    for node in nodes:
        with _disk_of(node) as disk:
            owner = read_owner(disk, "/data")
            if owner is not None and not owner.is_in_zookeeper_mode:
                text = zookeeper_owner_text(owner.cluster_id, owner.node_id)
                disk.write_atomic(f"/data/{FILE_NAME}", text.encode())


def _forget_quorum(nodes: list[MigratingSimNode]) -> None:
    """Raises ``OSError``."""
    for node in nodes:
        with _disk_of(node) as disk:
            if disk.exists(f"/data/{DIRECTORY}"):
                disk.remove_tree(f"/data/{DIRECTORY}")
            disk.sync_dir("/data")


@contextmanager
def _disk_of(node: MigratingSimNode) -> Iterator[Disk]:
    """The disk of a node that is down, for a command."""
    process = node.machine.start_process()
    try:
        yield process.disk
    finally:
        process.kill()
