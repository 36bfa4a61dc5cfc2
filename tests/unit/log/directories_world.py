"""Log directories on a simulated machine: one process after another, and time that jumps."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence

from barnabas.config.meta_properties import MetaProperties
from barnabas.config.node import NodeConfig
from barnabas.log.config import LogConfig
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine
from barnabas.sim.world.world import World
from barnabas.types import NodeId, TopicPartition, Uuid
from tests.unit.log.refusing_disk import RefusingDisk

PATHS = ("/disk1/logs", "/disk2/logs")


class DirectoriesWorld:
    """`logs` are the directories of the process that runs now."""

    def __init__(self, seed: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self.world = World(seed)
        self.disk = SimDisk(random.Random(seed))
        self.machine = SimMachine(self.world, SimNetwork(self.world), "a", self.disk)
        self.config = LogConfig(segment_bytes=2000, file_delete_delay_ms=5000)
        self.settings = NodeConfig.from_properties(
            {
                "node.id": "1",
                "process.roles": "broker",
                "controller.listener.names": "C",
                "controller.quorum.voters": "2@localhost:9093",
                "listeners": "PLAINTEXT://localhost:9092",
                "listener.security.protocol.map": "C:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "log.initial.task.delay.ms": "1000",
                **(settings or {}),
            }
        ).logs
        self.offline: list[tuple[str, list[TopicPartition]]] = []
        self.start()

    def start(
        self,
        *,
        writing: bool = True,
        unreadable: Sequence[str] = (),
        refused: Collection[str] = (),
    ) -> None:
        """A new process opens them; `writing`: it is in the cluster and takes up roles."""
        self.process = self.machine.start_process()
        if refused:
            self.refuse_removal().refused.update(refused)
        disk = self.process.disk
        identities = dict[str, MetaProperties | None].fromkeys(unreadable)
        for number, path in enumerate(PATHS):
            if path in identities:
                continue
            disk.make_dirs(path)
            identities[path] = MetaProperties("c", NodeId(1), Uuid(bytes(15) + bytes([number + 7])))
        self.logs = LogDirectories(
            self.process, self.settings, identities, lambda topic: self.config, self._went_offline
        )
        self.logs.lock()
        self.logs.open()
        if writing:
            self.logs.begin_writing()

    def refuse_removal(self) -> RefusingDisk:
        """The process's disk from now on, which removes what it does not refuse."""
        disk: object = self.process.disk
        if not isinstance(disk, RefusingDisk):
            disk = RefusingDisk(disk)
            self.process.disk = disk  # type: ignore[assignment]
        return disk

    def _went_offline(self, directory: LogDirectory, gone: list[TopicPartition]) -> None:
        self.offline.append((directory.path, gone))

    def stop(self, broker_epoch: int = 5) -> None:
        self.shut_down(broker_epoch)
        self.process.kill()

    def shut_down(self, broker_epoch: int = 5) -> None:
        done: list[bool] = []
        self.logs.shutdown(broker_epoch, lambda: done.append(True))
        for _ in range(600):
            if done:
                break
            self.run_ms(100)
        assert done == [True]

    def kill(self, *, power_loss: bool = False) -> None:
        self.process.kill(power_loss=power_loss)

    def run_ms(self, duration_ms: float) -> None:
        self.world.run(self.world.now_ms + duration_ms)
