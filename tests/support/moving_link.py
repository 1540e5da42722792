"""A way to Redis over which a node seems to come from an address that a file names, and that may change at any time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from support.ports import free_port

_PIECE_BYTES = 1 << 16
_LOOK_S = 0.02


class MovingLink:
    """Forwards connections to a port of this machine, from the loopback address that stands in `file`.

    When the file names another address the connections that were made under the old one fall silent for good, as they
    do when a line is dialled anew: nobody resets them. With an empty file no connection is made at all.
    """

    def __init__(self, target_port: int, file: Path, *, address: str) -> None:
        self.port = free_port()
        self.file = file
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.address = address

    @property
    def address(self) -> str:
        """From where Redis sees new connections come."""
        return self.file.read_text().strip()

    @address.setter
    def address(self, address: str) -> None:
        self.file.write_text(address)

    def __enter__(self) -> Self:
        self._thread.start()
        serving = asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = self.address
        if not address:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port, local_addr=(address, 0))
        ways = [
            asyncio.create_task(self._pump(reader, far_writer, address)),
            asyncio.create_task(self._pump(far_reader, writer, address)),
        ]
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        for each in (writer, far_writer):
            each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE_BYTES):
                while self.address != address:
                    # What is sent under an address that is gone arrives nowhere; whoever waits, waits.
                    await asyncio.sleep(_LOOK_S)
                    if reader.at_eof():
                        return
                writer.write(piece)
                await writer.drain()
