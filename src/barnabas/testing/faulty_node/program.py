"""The process of a node that a test can make fail: the usual one on ports that have faults."""

from __future__ import annotations

from pathlib import Path

from barnabas.config.coordination import QUORUM
from barnabas.config.node import NodeConfig
from barnabas.config.properties import FAULTS_KEY, format_properties, parse_properties
from barnabas.host.loop import Loop
from barnabas.host.main import NodeProcess, StartError, run_node
from barnabas.host.ports import HostPorts, socket_options
from barnabas.host.process.end_request import EndRequest
from barnabas.host.secrets.config_files import node_config
from barnabas.host.structured_log import StructuredLog
from barnabas.node.node import Node
from barnabas.testing.faults_file import LOOPBACK, FaultsFile, read_faults_file
from barnabas.testing.faulty_node.clock import SteppedClock
from barnabas.testing.faulty_node.commands import NodeCommands
from barnabas.testing.faulty_node.control import Control
from barnabas.testing.faulty_node.disk import DiskFaults, FaultyDisk
from barnabas.testing.faulty_node.network import LinkedNetwork
from barnabas.testing.faulty_node.requests import RequestFaults
from barnabas.types import Endpoint


class FaultyPorts(HostPorts):
    """The ports of a node whose disk, clock and connections can fail."""

    def __init__(
        self, loop: Loop, journal: StructuredLog, config: NodeConfig, given: FaultsFile
    ) -> None:
        super().__init__(loop, journal, config)
        self.stepped_clock = SteppedClock()
        self.clock = self.stepped_clock
        self.disk_faults = DiskFaults()
        self.disk = FaultyDisk(self.disk_faults)
        linked = LinkedNetwork(loop, self._resolver_background, self.log, socket_options(config))
        linked.introduce(config.node_id, Endpoint(LOOPBACK, given.relay_port), self)
        self.network = linked


class FaultyNodeProcess(NodeProcess):
    """One node that a test can make fail, from start to exit status."""

    def __init__(self, config: NodeConfig, journal: StructuredLog) -> None:
        self._given = read_faults_file(config.properties[FAULTS_KEY])
        super().__init__(config, journal)

    @classmethod
    def load(cls, path: str) -> NodeConfig:
        """The configuration in `path`, with the log directories that the cluster gives its nodes. Raises
        `StartError`."""
        try:
            values = parse_properties(Path(path).read_text(encoding="utf-8"))
            given = read_faults_file(values[FAULTS_KEY])
            first = values["log.dirs"]
            names = [first, *(f"{first}-{n}" for n in range(2, given.directories + 1))]
            values |= {"log.dirs": ",".join(names), "metadata.log.dir": first}
            config = node_config(format_properties(values))
        except (OSError, ValueError, KeyError) as error:
            raise StartError(f"{path} is not of a node with faults: {error!r}") from error
        if config.coordination is not QUORUM:
            raise StartError(f"{path}: nodes with faults need a cluster without ZooKeeper")
        return config

    def new_ports(self, loop: Loop, journal: StructuredLog, config: NodeConfig) -> HostPorts:
        self._faulty_ports = FaultyPorts(loop, journal, config, self._given)
        return self._faulty_ports

    def _start(self) -> None:
        super()._start()
        node, ports = self._node, self._faulty_ports
        assert isinstance(node, Node)
        requests = RequestFaults(ports)
        for server in node.servers.values():
            server.table.guard(requests.guard)
        commands = NodeCommands(node, requests, ports.disk_faults, ports.stepped_clock)
        control = Control(commands, self._given.token)
        listener = ports.network.listen(Endpoint(LOOPBACK, 0), control.accept)
        control.announce(self._given.control_file(self.config.node_id), listener.endpoint.port)


def run_faulty_node(
    path: str, format_as: str | None = None, *, end_request: EndRequest | None = None
) -> int:
    """`run_node`, for a node that a test can make fail."""
    return run_node(path, format_as, end_request=end_request, process=FaultyNodeProcess)
