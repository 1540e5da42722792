"""Links that can be cut: between each node and Redis lies a proxy of its own, and all proxies share one thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from support.ports import free_port

_PIECE_BYTES = 1 << 16


class Link:
    """One way to a port of this machine. Reached at `port`; whole until `cut`."""

    def __init__(self, target_port: int) -> None:
        self.port = free_port()
        self._target_port = target_port
        self._is_whole = asyncio.Event()
        self._is_whole.set()
        self._is_silent = False
        self._loses_answers_to: tuple[bytes, ...] = ()
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self) -> None:
        """Listen and forward, until the task is cancelled."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        async with server:
            await server.serve_forever()

    def cut(self, *, is_silent: bool) -> None:
        """Let nothing through: connections break, or with `is_silent` nobody hears anything any more.

        What was sent into the silence arrives when it is over, as on a real network, also when its sender has given up.
        """
        self._is_silent = is_silent
        self._is_whole.clear()
        if not is_silent:
            for writer in self._writers:
                writer.transport.abort()

    def lead_to(self, target_port: int) -> None:
        """Lead to another port from now on; connections break."""
        self._target_port = target_port
        for writer in self._writers:
            writer.transport.abort()

    def lose_answers(self, *, to: tuple[bytes, ...]) -> None:
        """Let everything through but the answers to commands with one of these words: they break the connection."""
        self._loses_answers_to = to

    def heal(self) -> None:
        """Let everything through again."""
        self._loses_answers_to = ()
        self._is_whole.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_whole.is_set() and not self._is_silent:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._writers |= pair
        is_lost = asyncio.Event()

        def looked_at(piece: bytes) -> bytes:
            if any(word in piece for word in self._loses_answers_to):
                is_lost.set()
            return piece

        def answered(piece: bytes) -> bytes:
            return b"" if is_lost.is_set() else piece

        try:
            await asyncio.gather(self._pump(reader, far_writer, looked_at), self._pump(far_reader, writer, answered))
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, look: Callable[[bytes], bytes]
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := look(await reader.read(_PIECE_BYTES)):
                await self._is_whole.wait()
                writer.write(piece)
                await writer.drain()
        await self._is_whole.wait()
        with contextlib.suppress(OSError, RuntimeError):
            writer.close()


class Links:
    """The thread in which links live; gone with the context."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def lay(self, target_port: int) -> Link:
        """Return a new link to a port."""
        link = Link(target_port)
        asyncio.run_coroutine_threadsafe(link.serve(), self._loop)
        return link

    def cut(self, link: Link, *, is_silent: bool) -> None:
        """Cut a link of this thread."""
        self._loop.call_soon_threadsafe(lambda: link.cut(is_silent=is_silent))

    def heal(self, link: Link) -> None:
        """Heal a link of this thread."""
        self._loop.call_soon_threadsafe(link.heal)

    def lead_to(self, link: Link, target_port: int) -> None:
        """Lead a link of this thread to another port."""
        self._loop.call_soon_threadsafe(lambda: link.lead_to(target_port))

    def lose_answers(self, link: Link, *, to: tuple[bytes, ...]) -> None:
        """Lose answers on a link of this thread."""
        self._loop.call_soon_threadsafe(lambda: link.lose_answers(to=to))

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
