"""A remote in terms of one thing: running words and feeding them. What SSH and this machine have in common."""

from __future__ import annotations

import codecs
import os
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from toolkit.model.errors import HostRefusedError, HostUnauthorizedError
from toolkit.model.hosts import Host, Secret
from toolkit.provision import scripts
from toolkit.provision.remote import STEP_TIMEOUT_S, Ran
from toolkit.provision.scripts import Becoming
from toolkit.provision.sudo import refusal

CHUNK_BYTES = 32_768
MAX_LINE = 65_536
SMALL_STEP_S = 30.0
_SUDO_SAYS = (b"sudo: ", b"Sorry, ")
_FULL = ("No space left on device", "Disk quota exceeded")

OnLine = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Feed:
    """What goes into a command: all of `parts`, then the end; `on_bytes` hears how many are there."""

    parts: Callable[[], Iterator[bytes]]
    on_bytes: Callable[[int], object] | None = None

    @classmethod
    def of(cls, content: bytes) -> Feed:
        """Return the feed of some bytes."""
        return cls(lambda: (content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES)))


@dataclass(frozen=True, slots=True)
class Call:
    """One command on a host. Without a `feed` its stdin stays open until it ends; then it is watched over that.

    `first` is sent before all else: the password that sudo reads. `timeout_s` bounds the whole.
    """

    words: Sequence[str]
    doing: str
    feed: Feed | None = None
    first: bytes = b""
    timeout_s: float | None = SMALL_STEP_S
    on_out: Callable[[bytes], object] | None = None
    on_err: Callable[[bytes], object] | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended, in bytes."""

    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def ran(self) -> Ran:
        """The same as text."""
        return Ran(self.exit_code, self.stdout.decode(errors="replace"), self.stderr.decode(errors="replace"))


class ByShell(ABC):
    """Keeps the protocol `Remote` by running the few scripts of `scripts.py`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._becoming: Becoming | None = None
        self._login = ""
        self._asking = threading.Lock()

    @property
    def host(self) -> Host:
        """The host of the inventory."""
        return self._host

    @abstractmethod
    def _ended(self, call: Call) -> Ended:
        """Run the words as our login and return how they ended.

        Raises:
            HostUnreachableError: the connection broke, or the time was up; the command was ended where it could be.

        """

    @abstractmethod
    def close(self) -> None:
        """End the connection; twice is harmless."""

    def run(
        self,
        words: Sequence[str],
        *,
        doing: str,
        as_root: bool = False,
        as_user: str | None = None,
        stdin: bytes = b"",
        timeout_s: float = STEP_TIMEOUT_S,
    ) -> Ran:
        """Run a command and return how it ended, also when badly."""
        feed = Feed.of(stdin) if stdin else None
        call = Call(scripts.fed(words) if stdin else scripts.watched(words), doing, feed, timeout_s=timeout_s)
        return self._as(call, as_root=as_root, as_user=as_user).ran

    def check(
        self,
        words: Sequence[str],
        *,
        doing: str,
        as_root: bool = False,
        as_user: str | None = None,
        stdin: bytes = b"",
        timeout_s: float = STEP_TIMEOUT_S,
    ) -> str:
        """Run a command that must end well, and return what it printed."""
        ran = self.run(words, doing=doing, as_root=as_root, as_user=as_user, stdin=stdin, timeout_s=timeout_s)
        if not ran.ok:
            raise self._refused(doing, ran)
        return ran.stdout

    def follow(self, words: Sequence[str], *, doing: str, on_line: OnLine, as_root: bool = False) -> int:
        """Run a command for as long as it takes, hand on each line of both its outputs, and return its exit code."""
        return self.watch(words, doing=doing, on_out=on_line, on_err=on_line, as_root=as_root)

    def watch(
        self,
        words: Sequence[str],
        *,
        doing: str,
        on_out: OnLine,
        on_err: OnLine,
        as_root: bool = False,
        timeout_s: float | None = None,
    ) -> int:
        """Follow a command with its two outputs apart; the lines come in the caller's thread."""
        out, err = _Lines(on_out), _Lines(on_err)
        call = Call(scripts.watched(words), doing, timeout_s=timeout_s, on_out=out.take, on_err=err.take)
        ended = self._as(call, as_root=as_root)
        out.finish()
        err.finish()
        return ended.exit_code

    def read(self, path: str, *, as_root: bool = False, max_bytes: int = 1_000_000) -> bytes | None:
        """Return a file's content, `None` when there is none."""
        doing = f"read {path}"
        ended = self._as(Call(scripts.watched(scripts.reading(path, max_bytes)), doing), as_root=as_root)
        if ended.exit_code == scripts.NOT_THERE:
            return None
        if ended.exit_code == scripts.TOO_LARGE:
            raise HostRefusedError(self.host.name, doing, f"it is larger than {max_bytes} bytes")
        if ended.exit_code != 0:
            raise self._refused(doing, ended.ran, path)
        return ended.stdout

    def write(self, path: str, content: bytes, *, mode: int, owner: str | None = None, as_root: bool = False) -> None:
        """Put a file in place whole: other processes see the old content or the new, and no other mode or owner."""
        words = scripts.writing(path, size=len(content), mode=mode, owner=owner)
        self._put(path, Call(words, f"write {path}", Feed.of(content), timeout_s=STEP_TIMEOUT_S), as_root=as_root)

    def send(self, source: Path, path: str, *, on_bytes: Callable[[int], object] | None = None) -> None:
        """Copy a large file of this machine, its mode too, to a path that our login may write; whole or not at all."""
        try:
            with source.open("rb") as file:
                status = os.fstat(file.fileno())
                words = scripts.writing(path, size=status.st_size, mode=stat.S_IMODE(status.st_mode), owner=None)
                feed = Feed(lambda: iter(lambda: file.read(CHUNK_BYTES), b""), on_bytes)
                self._put(path, Call(words, f"send {source.name} to {path}", feed, timeout_s=None), as_root=False)
        except OSError as error:
            raise HostRefusedError(
                self.host.name, f"send {source.name}", f"cannot read {source} here: {error.strerror or error}"
            ) from error

    def _put(self, path: str, call: Call, *, as_root: bool) -> None:
        ended = self._as(call, as_root=as_root)
        if ended.exit_code != 0:
            raise self._refused(call.doing, ended.ran, path)

    def _as(self, call: Call, *, as_root: bool = False, as_user: str | None = None) -> Ended:
        """Run the call as whom it is meant to run."""
        if not as_root and as_user is None:
            return self._without_chatter(call)
        how = self._how(call.doing)
        if as_user == self._login and not as_root:
            return self._without_chatter(call)
        words = scripts.become(call.words, how, user=None if as_root else as_user)
        ended = self._without_chatter(replace(call, words=words, first=self._password() if how.asks_password else b""))
        if not how.is_root and ended.exit_code == 1 and not ended.stdout and ended.stderr.startswith(_SUDO_SAYS):
            raise self._not_root(call.doing, ended.ran)
        return ended

    def _without_chatter(self, call: Call) -> Ended:
        """Run the words, and leave out what the login shell wrote before they began."""
        begun = _AfterBegin(call.on_out)
        ended = self._ended(replace(call, on_out=begun.take))
        return Ended(ended.exit_code, begun.finished(), ended.stderr)

    def _how(self, doing: str) -> Becoming:
        """Find out once how one becomes root there.

        Raises:
            HostUnauthorizedError: there is no way.

        """
        with self._asking:
            if self._becoming is None:
                self._becoming = self._found_out(doing)
            return self._becoming

    def _found_out(self, doing: str) -> Becoming:
        who = self._without_chatter(Call(scripts.watched(["sh", "-c", "id -u; id -un"]), "ask who we are")).ran
        number, _, self._login = who.stdout.strip().partition("\n")
        if number == "0":
            return Becoming(is_root=True)
        without = self._ended(Call(["sudo", "-k", "-n", "--", "sh", "-c", ":"], doing, Feed.of(b"")))
        if without.exit_code == 0:
            return Becoming()
        asked = without
        if self._sudo_password is not None:
            words = ["sudo", "-k", "-S", "-p", "", "--", "sh", "-c", ":"]
            asked = self._ended(Call(words, doing, Feed.of(self._password())))
            if asked.exit_code == 0:
                return Becoming(asks_password=True)
        raise self._not_root(doing, asked.ran)

    def _not_root(self, doing: str, ran: Ran) -> HostUnauthorizedError:
        known = refusal(self.host.name, doing, ran.stderr, user=self._login or "our login")
        return known or HostUnauthorizedError(self.host.name, doing, f"sudo does not work there: {ran.last_words}")

    @property
    def _sudo_password(self) -> Secret | None:
        return self.host.ssh.sudo_password or self.host.ssh.password

    def _password(self) -> bytes:
        password = self._sudo_password
        return b"" if password is None else scripts.password_lines(password.reveal())

    def _refused(self, doing: str, ran: Ran, path: str | None = None) -> HostRefusedError:
        if any(each in ran.stderr for each in _FULL):
            where = f" for {path}" if path else ""
            return HostRefusedError(
                self.host.name,
                doing,
                f"no space left on its disk{where}: {ran.last_words}",
                hint="free some space there, then do it again",
            )
        return HostRefusedError(self.host.name, doing, ran.last_words)


class _AfterBegin:
    """Hands on what a script writes once it has begun; without that, all there was."""

    def __init__(self, on_out: Callable[[bytes], object] | None) -> None:
        self._kept = bytearray()
        self._take = on_out or self._kept.extend
        self._before = bytearray()
        self._has_begun = False

    def take(self, part: bytes) -> None:
        if self._has_begun:
            self._take(part)
            return
        self._before += part
        _, begun, after = bytes(self._before).partition(scripts.BEGUN)
        if begun:
            self._has_begun = True
            self._take(after)

    def finished(self) -> bytes:
        if not self._has_begun:
            self._take(bytes(self._before))
        return bytes(self._kept)


class _Lines:
    """Puts parts of an output together to lines."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""

    def take(self, part: bytes) -> None:
        *lines, self._rest = (self._rest + self._decode(part)).split("\n")
        for line in lines:
            self._on_line(line.removesuffix("\r"))
        while len(self._rest) > MAX_LINE:
            self._on_line(self._rest[:MAX_LINE])
            self._rest = self._rest[MAX_LINE:]

    def finish(self) -> None:
        self._rest += self._decode(b"", True)  # noqa: FBT003 - the codec's own signature
        if self._rest:
            self._on_line(self._rest)
            self._rest = ""
