"""The ports of a node on a real machine: :class:`HostPorts`.

Random generators, one per concern, are derived from a seed that the machine gives once per process.
"""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, NoReturn

from barnabas import limits
from barnabas.host.background import HostBackground
from barnabas.host.disk import HostDisk
from barnabas.host.helper import HelperProcess
from barnabas.host.loop import Loop
from barnabas.host.network import AS_THE_SYSTEM_SAYS, HostNetwork, SocketOptions
from barnabas.host.programs.program_ports import ProgramPorts
from barnabas.host.structured_log import StructuredLog

if TYPE_CHECKING:
    from barnabas.config.node import NodeConfig
    from barnabas.host.process.idle_share import IdleShare

HALT_STATUS = 70
"""Exit status of a node that can no longer trust its own state."""


def connections_that_fit() -> int:
    """The number of connections that leave enough descriptors for files: a log directory whose
    files cannot be opened counts as failed."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return limits.CONNECTIONS_MAX
    return max(descriptors - limits.DESCRIPTORS_KEPT, descriptors // 2)


def open_files_that_fit() -> int:
    """The number of files that the broker's logs may keep open: two thirds of the descriptors that
    connections leave. The quorum's log, connections to other nodes, and searches open files,
    too."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    usual = limits.LogBounds().open_files_max
    if descriptors == resource.RLIM_INFINITY:
        return usual
    return min(usual, max((descriptors - connections_that_fit()) * 2 // 3, 1))


def socket_options(config: NodeConfig) -> SocketOptions:
    """A listener's socket options. Buffer sizes are set only if the file has the key: the system's automatic
    sizes are better than Kafka's defaults."""
    sockets = config.sockets
    return SocketOptions(
        capacity=connections_that_fit(),
        backlog=sockets.listen_backlog,
        send_bytes=_if_set(config, "socket.send.buffer.bytes"),
        receive_bytes=_if_set(config, "socket.receive.buffer.bytes"),
        connect_timeout_ms=max(sockets.setup_timeout_ms, 1),
    )


def _if_set(config: NodeConfig, key: str) -> int:
    return AS_THE_SYSTEM_SAYS if config.text(key) is None else config.int_value(key)


class HostPorts(ProgramPorts):
    """``ports.Ports`` of one node. `config` has the socket limits; without it there are none."""

    def __init__(
        self,
        loop: Loop,
        journal: StructuredLog,
        config: NodeConfig | None = None,
    ) -> None:
        super().__init__(loop)
        files = open_files_that_fit()
        self.bounds = limits.NodeBounds(logs=limits.LogBounds(open_files_max=files))
        self.disk = HostDisk()
        self.background = HostBackground(loop)
        self._resolver_background = HostBackground(loop)
        """Looks up host names on its own threads: a name server that does not answer delays no sync."""
        self.helper = HelperProcess()
        self.export_helper = HelperProcess()
        self.journal = journal
        self.times = loop.times
        self._idle: IdleShare | None = None
        options = SocketOptions() if config is None else socket_options(config)
        self.network = HostNetwork(loop, self._resolver_background, self.log, options)

    def log(self, level: str, event: str, **fields: object) -> None:
        self.journal.write(level, event, fields)

    def halt(self, reason: str) -> NoReturn:
        self.log("error", "node.halted", reason=reason)
        os._exit(HALT_STATUS)

    def stop(self, *, wait: bool = True) -> None:
        """End the threads; with `wait` running jobs end first, except for name look-ups."""
        self._resolver_background.stop(wait=False)
        self.background.stop(wait=wait)

    def process_figures(self) -> dict[str, float]:
        """Figures of the process by the names that Prometheus' clients give them; those that the system does
        not tell are left out."""
        from barnabas.host.process import idle_share
        from barnabas.host.system.figures import process_figures

        times, now_s = self.times, self.clock.now_ms() / 1000
        self._idle = self._idle or idle_share.IdleShare(now_s, times.busy_s)
        idle = self._idle.share(now_s, times.busy_s)
        return {
            **process_figures(),
            **dict.fromkeys(idle_share.NAMES, idle),
            "barnabas_loop_turns_total": times.turns,
            "barnabas_loop_slow_turns_total": times.slow,
            "barnabas_loop_longest_turn_seconds": times.longest_s,
        }

    def describe(self) -> dict[str, object]:
        """Figures of the process: turns, network traffic, background work, log lines by level."""
        return {
            "loop": self.times.describe(),
            "network": self.network.describe(),
            "background": self.background.describe(),
            "log_lines": dict(self.journal.counts),
        }
