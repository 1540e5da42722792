"""Hears what wakes this node, in a thread of its own that waits for Redis to speak."""

from __future__ import annotations

import threading
from collections.abc import Callable

from twisted.logger import Logger

from toolkit.model.errors import CrawlctlError
from toolkit.node.membership import Membership

SILENCE_S = 5.0
AGAIN_S = 0.5
_log = Logger()


class Listener:
    """Calls `on_word` on the reactor's thread with each word, and with an empty one whenever it listens anew.

    An empty word means: anything may have been said before.
    """

    def __init__(self, member: Membership, on_word: Callable[[str], object]) -> None:
        self._member = member
        self._machine = member.machine
        self._on_word = on_word
        self._ended = threading.Event()
        self._is_doubted = threading.Event()

    def start(self) -> None:
        """Begin to listen; the thread does not keep the process from ending."""
        self._machine.start_thread("crawlctl-wakes", self._listen)

    def renew(self) -> None:
        """Listen on a new connection soon: what broke the others may have left this one mute."""
        self._is_doubted.set()

    def stop(self) -> None:
        """Say nothing more."""
        self._ended.set()

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                self._listen_once()
            except CrawlctlError:
                pass  # The heartbeat says that Redis is away.
            except Exception:  # noqa: BLE001 - without this thread the node would hear of nothing any more
                _log.failure("Listening for work failed")
            self._machine.sleep(AGAIN_S)

    def _listen_once(self) -> None:
        shared = self._member.store().shared
        if shared is None:
            return
        is_new = True
        self._is_doubted.clear()
        for word in shared.queue.wakes(timeout_s=SILENCE_S):
            if self._ended.is_set():
                return
            if word or is_new:
                self._machine.soon(self._on_word, word)
            if self._is_doubted.is_set():
                return
            is_new = False
