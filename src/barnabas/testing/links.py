"""Links between the nodes of a cluster, and between clients and nodes: cut, delayed, limited.

A relay in this process forwards every connection: that of a node, which says who it is, and that of a client,
which comes to the port that the node advertises. Faults therefore need no rights. While a link is cut nothing
of it is forwarded either way: connections stay open and silent, new ones wait, and the end of a process stays
unseen, as where packets are dropped.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from barnabas.config.properties import parse_properties
from barnabas.testing.faults_file import LOOPBACK
from barnabas.testing.faulty_node.network import CONNECTED, REFUSED

CLIENT = 0
"""All clients, where a link is named by its two ends."""
CHUNK_BYTES = 65_536
CHUNKS_MAX = 256
"""The chunks that a delayed direction of a connection holds."""
INTRODUCTION_S = 10.0
ANSWER_S = 10.0
T = TypeVar("T")


class LinkFaults:
    """The faults of one link, in both directions."""

    def __init__(self) -> None:
        self.is_cut = False
        self.delay_s = 0.0
        self.bytes_per_s = 0.0
        """0: as fast as it goes."""
        self.free_at = 0.0
        """When a limited link has sent what it has taken."""
        self.whole = asyncio.Event()
        self.whole.set()
        self.healed = asyncio.Event()
        """Set by `heal` for those that wait; each time a new one."""

    def __repr__(self) -> str:
        state = "cut" if self.is_cut else "whole"
        return f"LinkFaults({state}, {self.delay_s} s, {self.bytes_per_s} bytes/s)"

    def take_time(self, size: int, now: float) -> float:
        """How long `size` more bytes have to wait on a limited link."""
        if not self.bytes_per_s:
            return 0.0
        self.free_at = max(self.free_at, now) + size / self.bytes_per_s
        return self.free_at - now


class Links:
    """All links of a cluster of `nodes`; use it through `Cluster.links`. Ends are node ids and `CLIENT`."""

    def __init__(self, nodes: Iterable[int], directory: Path) -> None:
        """`directory` is where the nodes have their folders: they say where they really listen."""
        self._directory = directory
        self._links: dict[frozenset[int], LinkFaults] = {}
        self._nodes_by_port: dict[int, int] = {}
        self._client_ports: dict[int, int] = {}
        self._ids = sorted(nodes)
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.advertised: dict[int, int] = {}
        """The ports at which clients find the nodes, by id."""
        self.relay_port = self._run(self._serve(self._on_node))
        for node in self._ids:
            self.advertised[node] = self._run(self._serve(self._client_handler(node)))

    # -- faults --------------------------------------------------------------------------------------

    def cut(self, one: int, other: int) -> None:
        """Nothing goes between these two any more, either way, until `heal`."""
        self._change([(one, other)], _cut)

    def isolate(self, node: int) -> None:
        """Cut `node` off from all other nodes; clients still reach it."""
        self._change([(node, other) for other in self._ids if other != node], _cut)

    def delay(self, one: int, other: int, delay_s: float) -> None:
        """Everything between these two comes `delay_s` later, each way."""
        self._change([(one, other)], lambda link: setattr(link, "delay_s", delay_s))

    def limit(self, one: int, other: int, bytes_per_s: float) -> None:
        """Not more than this goes between these two, both ways together; 0 is no limit."""
        self._change([(one, other)], lambda link: setattr(link, "bytes_per_s", bytes_per_s))

    def heal(self) -> None:
        """All links are whole again; what was held up arrives."""

        def mend() -> None:
            for link in self._links.values():
                link.is_cut, link.delay_s, link.bytes_per_s = False, 0.0, 0.0
                link.free_at = 0.0
                link.whole.set()
                link.healed.set()
                link.healed = asyncio.Event()

        self._do(mend)

    def close(self) -> None:
        """End every connection; can be called again."""
        if not self._loop.is_running():
            return

        async def cancel_all() -> None:
            for server in self._servers:
                server.close()
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self._run(cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_S)
        self._loop.close()

    def _change(
        self, pairs: Iterable[tuple[int, int]], change: Callable[[LinkFaults], None]
    ) -> None:
        wanted = list(pairs)
        for one, other in wanted:
            for end in (one, other):
                if end != CLIENT and end not in self._ids:
                    raise KeyError(end)

        def change_all() -> None:
            for one, other in wanted:
                change(self._between(one, other))

        self._do(change_all)

    def _do(self, change: Callable[[], object]) -> None:
        """On the relay's thread; it has happened when this returns."""

        async def done() -> None:
            change()

        self._run(done())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(ANSWER_S)

    # -- on the relay's thread -----------------------------------------------------------------------

    def _between(self, one: int, other: int) -> LinkFaults:
        return self._links.setdefault(frozenset((one, other)), LinkFaults())

    async def _serve(
        self,
        handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]],
    ) -> int:
        sock = socket.create_server((LOOPBACK, 0), backlog=256)
        self._servers.append(await asyncio.start_server(handler, sock=sock))
        return int(sock.getsockname()[1])

    def _client_handler(
        self, node: int
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                port = self._client_port(node)
                await self._forward(reader, writer, self._between(CLIENT, node), port, greet=False)
            except OSError:
                pass  # the cluster and its directory have gone
            finally:
                writer.transport.abort()

        return handle

    async def _on_node(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(INTRODUCTION_S):
                line = await reader.readline()
            source, _, port = line.split()
            target = self._node_at(int(port))
            link = self._between(int(source), target) if target is not None else None
            if link is not None and target is not None:
                real = self._client_port(target) if self._is_advertised(int(port)) else int(port)
                await self._forward(reader, writer, link, real, greet=True)
            else:
                writer.write(REFUSED)
                await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass  # no node, or one that ended before it said who it is
        finally:
            writer.transport.abort()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        link: LinkFaults,
        port: int,
        *,
        greet: bool,
    ) -> None:
        await link.whole.wait()
        try:
            to_server, from_server = await asyncio.open_connection(LOOPBACK, port)
        except OSError:
            if greet:
                writer.write(REFUSED)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
            return
        for end in (writer, from_server):
            end.transport.set_write_buffer_limits(0)  # `drain` waits until all is gone
        try:
            if greet:
                writer.write(CONNECTED)
            directions = [
                asyncio.ensure_future(self._pump(reader, from_server, link)),
                asyncio.ensure_future(self._pump(to_server, writer, link)),
            ]
            _, left = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            for direction in left:
                direction.cancel()
        finally:
            from_server.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: LinkFaults
    ) -> None:
        """Forward one direction until it ends; what was read before is sent first."""
        chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_MAX)
        sending = asyncio.ensure_future(self._send(chunks, writer, link))
        try:
            while True:
                try:
                    data = await reader.read(CHUNK_BYTES)
                except OSError:
                    data = b""
                await chunks.put((self._loop.time() + link.delay_s, data))
                if not data:
                    break
            await sending
        finally:
            sending.cancel()

    async def _send(
        self,
        chunks: asyncio.Queue[tuple[float, bytes]],
        writer: asyncio.StreamWriter,
        link: LinkFaults,
    ) -> None:
        try:
            while True:
                due, data = await chunks.get()
                wait_s = max(due - self._loop.time(), link.take_time(len(data), self._loop.time()))
                if wait_s > 0:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(link.healed.wait(), wait_s)
                while link.is_cut:
                    await link.whole.wait()
                if not data:
                    return
                writer.write(data)
                await writer.drain()
        except OSError:
            return

    # -- where nodes listen --------------------------------------------------------------------------

    def _is_advertised(self, port: int) -> bool:
        return port in self.advertised.values()

    def _client_port(self, node: int) -> int:
        if node not in self._client_ports:
            self._read_ports()
        return self._client_ports[node]

    def _node_at(self, port: int) -> int | None:
        """The node that has this port, or for which the relay has it."""
        if port not in self._nodes_by_port:
            self._read_ports()
        return self._nodes_by_port.get(port)

    def _read_ports(self) -> None:
        """The nodes' files are written when this is called: who connects runs, or knows who does."""
        for node in self._ids:
            ports = dict(_listeners(self._directory / f"node-{node}" / "server.properties"))
            for name, port in ports.items():
                self._nodes_by_port[port] = node
                if name != "CONTROLLER":
                    self._client_ports[node] = port
            self._nodes_by_port[self.advertised[node]] = node


def _cut(link: LinkFaults) -> None:
    link.is_cut = True
    link.whole.clear()


def _listeners(properties: Path) -> Iterator[tuple[str, int]]:
    """The listeners of a node's file: names and ports."""
    values: Mapping[str, str] = parse_properties(properties.read_text())
    for item in values["listeners"].split(","):
        name, _, address = item.partition("://")
        yield name, int(address.rpartition(":")[2])
