"""One host over SSH: one connection, opened when first needed and again when it broke, with many commands over it."""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections.abc import Callable, Iterator

from fabric import Connection
from paramiko import Channel, ChannelException, SSHException, Transport

from toolkit.model.errors import HostRefusedError, HostTimeoutError, HostUnreachableError
from toolkit.model.hosts import Host
from toolkit.provision import scripts
from toolkit.provision.by_shell import CHUNK_BYTES, ByShell, Call, Ended, Feed
from toolkit.provision.remote import CONNECT
from toolkit.provision.routes import Route
from toolkit.provision.ssh_connection import SILENT_S, Connector

LOOK_AFTER_S = 10.0
"""After so long without a byte, the host is asked whether it is still there."""
LINGER_S = 0.3
MOMENT_S = 0.02


class Ssh(ByShell):
    """Keeps the protocol `Remote` over SSH."""

    def __init__(self, host: Host, route: Callable[[], Route], connector: Connector) -> None:
        super().__init__(host)
        self._route = route
        self._connector = connector
        self._connection: Connection | None = None
        self._opening = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """End the connection, and with it what runs over it; twice is harmless."""
        self._is_closed = True
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(SSHException, OSError, EOFError):
                connection.close()

    def _ended(self, call: Call) -> Ended:
        transport = self._transport()
        with self._errors(call):
            channel = transport.open_session(timeout=self.host.ssh.timeout_s)
        try:
            with self._errors(call):
                channel.exec_command(scripts.line(call.words))
                running = _Running(self.host, channel, transport, call)
            return running.ended()
        except _BrokenError as error:
            raise self._broken(call, error) from error
        finally:
            # What still runs there sees its input end, and is ended over that.
            with contextlib.suppress(SSHException, OSError, EOFError):
                channel.close()

    def _transport(self) -> Transport:
        """Return the connection's transport, opened if there is none or it broke, but not after `close`."""
        with self._opening:
            if not self._is_closed and (self._connection is None or not self._connection.is_connected):
                self._connection = self._connector.open(self.host.name, self._route())
            if self._is_closed or self._connection is None:
                self.close()  # it came while we connected
                raise HostUnreachableError(self.host.name, CONNECT, "the connection was ended")
            return self._connection.transport

    @contextlib.contextmanager
    def _errors(self, call: Call) -> Iterator[None]:
        try:
            yield
        except ChannelException as error:
            raise HostRefusedError(self.host.name, call.doing, f"its SSH server opens no session: {error}") from error
        except (SSHException, OSError, EOFError) as error:
            raise self._broken(call, error) from error

    def _broken(self, call: Call, error: BaseException) -> HostUnreachableError:
        said = f": {error}" if str(error) else ""
        why = "the connection was ended" if self._is_closed else f"the connection broke{said}"
        return HostUnreachableError(self.host.name, call.doing, why)


class _BrokenError(Exception):
    """The connection ended before the command did."""


class _Running:
    """One command while it runs: reads both outputs, feeds it, and watches the time and the host."""

    def __init__(self, host: Host, channel: Channel, transport: Transport, call: Call) -> None:
        self._host = host
        self._channel = channel
        self._transport = transport
        self._call = call
        self._kept = (bytearray(), bytearray())
        self._takes = (call.on_out or self._kept[0].extend, call.on_err or self._kept[1].extend)
        self._fed = 0
        self._is_fed = False
        self._last_news = time.monotonic()
        self._start_feeding()

    def ended(self) -> Ended:
        """Return how it ended.

        Raises:
            HostUnreachableError: the host is silent, or the time is up.
            _BrokenError: the connection ended before it.

        """
        channel, begun = self._channel, time.monotonic()
        poll = select.poll()
        poll.register(channel.fileno(), select.POLLIN)
        told = 0
        while not self._is_over():
            self._wait(poll)
            had = self._take()
            if had or self._fed != told:
                self._last_news = time.monotonic()
            if self._fed != told:
                told = self._fed
                if self._call.feed is not None and self._call.feed.on_bytes is not None:
                    self._call.feed.on_bytes(told)
            self._check_time(begun)
        self._take()
        exit_code = channel.recv_exit_status() if channel.exit_status_ready() else -1
        if exit_code < 0:
            raise _BrokenError
        return Ended(exit_code, bytes(self._kept[0]), bytes(self._kept[1]))

    def _is_over(self) -> bool:
        """Tell whether it ended and all that it wrote is here; what it left behind may hold its outputs open."""
        channel = self._channel
        if channel.recv_ready() or channel.recv_stderr_ready():
            return False
        if channel.closed or not self._transport.is_active():
            return True
        return channel.exit_status_ready() and (channel.eof_received or time.monotonic() - self._last_news > LINGER_S)

    def _wait(self, poll: select.poll) -> None:
        if self._channel.eof_received:
            self._channel.status_event.wait(MOMENT_S)  # its pipe would say at once that there is news
        else:
            poll.poll(MOMENT_S * 1000 if self._channel.exit_status_ready() or not self._is_fed else 500)

    def _take(self) -> bool:
        """Hand on what came, and tell whether anything did."""
        had = False
        for ready, receive, take in (
            (self._channel.recv_ready, self._channel.recv, self._takes[0]),
            (self._channel.recv_stderr_ready, self._channel.recv_stderr, self._takes[1]),
        ):
            while ready():
                take(receive(CHUNK_BYTES))
                had = True
        return had

    def _start_feeding(self) -> None:
        """Feed it from a thread: a host that swallows no more must not keep us from looking at the time."""
        if self._call.feed is None:
            self._is_fed = True
            if self._call.first:
                self._channel.sendall(self._call.first)
            return
        threading.Thread(target=self._feed, daemon=True).start()

    def _feed(self) -> None:
        feed = self._call.feed or Feed.of(b"")
        # Where it does not read to the end, its exit code says why; where we were left, the source is closed.
        with contextlib.suppress(SSHException, OSError, EOFError, ValueError):
            self._channel.sendall(self._call.first)
            for part in feed.parts():
                self._channel.sendall(part)
                self._fed += len(part)
            self._channel.shutdown_write()
        self._is_fed = True

    def _check_time(self, begun: float) -> None:
        now = time.monotonic()
        if self._call.timeout_s is not None and now - begun > self._call.timeout_s:
            raise HostTimeoutError(self._host.name, self._call.doing, f"no end after {self._call.timeout_s:g} s")
        if now - self._last_news < LOOK_AFTER_S:
            return
        if self._is_fed:
            self._ask_whether_it_is_there()
            self._last_news = time.monotonic()
        elif now - self._last_news > SILENT_S:
            self._transport.close()
            raise self._unreachable(f"it has taken nothing for {SILENT_S:g} s")

    def _ask_whether_it_is_there(self) -> None:
        """Open a second session, which costs the host next to nothing; its refusal is an answer too."""
        try:
            self._transport.open_session(timeout=LOOK_AFTER_S).close()
        except ChannelException:
            return
        except (SSHException, OSError, EOFError) as error:
            self._transport.close()
            raise self._unreachable(f"it has been silent for {SILENT_S:g} s") from error

    def _unreachable(self, why: str) -> HostUnreachableError:
        return HostUnreachableError(self._host.name, self._call.doing, why)
