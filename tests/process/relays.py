"""Netsplits between processes of one machine: relays in front of their ports, which know who connects.

While a pair is split, the relay of either one forwards nothing of the other: connections stay open and
silent, as where packets are dropped. Linux only: who has a connection is read from /proc.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

CHUNK = 65_536
LOOPBACK = "127.0.0.1"


class Relays:
    """Relays on a thread of their own; `is_split(client, server)` decides, by names, what is forwarded."""

    def __init__(self, pid_of: Callable[[], dict[str, int]]) -> None:
        """`pid_of`: the processes by name, as they are now."""
        self._pid_of = pid_of
        self._split: frozenset[frozenset[str]] = frozenset()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._healed = asyncio.Event()
        self._healed.set()

    def add(self, port: int, target: int, server: str) -> None:
        """Forward what comes to `port` to `target`, where `server` listens."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._forward(reader, writer, target, server)

        started = asyncio.start_server(connected, LOOPBACK, port)
        asyncio.run_coroutine_threadsafe(started, self._loop).result(10)

    def split(self, *pairs: tuple[str, str]) -> None:
        """Between these, nothing goes either way from now on, until `heal`."""

        def change() -> None:
            self._split = frozenset(frozenset(pair) for pair in pairs)
            self._healed.clear()

        self._loop.call_soon_threadsafe(change)

    def heal(self) -> None:
        def change() -> None:
            self._split = frozenset()
            self._healed.set()

        self._loop.call_soon_threadsafe(change)

    def end(self) -> None:
        async def cancel_all() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(cancel_all(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        target: int,
        server: str,
    ) -> None:
        client = await asyncio.to_thread(self._name_of, writer.get_extra_info("peername")[1])
        pair = frozenset((client, server))
        try:
            await self._passes(pair)
            to_server, from_server = await asyncio.open_connection(LOOPBACK, target)
        except OSError:
            writer.close()
            return
        try:
            await asyncio.wait(
                [
                    asyncio.ensure_future(self._pump(reader, from_server, pair)),
                    asyncio.ensure_future(self._pump(to_server, writer, pair)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            writer.close()
            from_server.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pair: frozenset[str]
    ) -> None:
        try:
            while data := await reader.read(CHUNK):
                await self._passes(pair)
                writer.write(data)
                await writer.drain()
            await self._passes(pair)
        except OSError:
            return

    async def _passes(self, pair: frozenset[str]) -> None:
        """Until nothing splits these two."""
        while pair in self._split:
            await self._healed.wait()

    def _name_of(self, port: int) -> str:
        """The process whose connection has this local port; empty for any other."""
        inode = inode_of(port)
        for name, pid in self._pid_of().items():
            if inode and has_socket(pid, inode):
                return name
        return ""


def inode_of(port: int) -> str:
    """Of the socket with this local port on loopback that is connected."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port and fields[9] != "0":
            return fields[9]
    return ""


def has_socket(pid: int, inode: str) -> bool:
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    for descriptor in descriptors:
        try:
            if str(descriptor.readlink()) == f"socket:[{inode}]":
                return True
        except OSError:
            continue
    return False
