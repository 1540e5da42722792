"""Who may ask this node for another address: operators through Redis, and its own spiders by a file each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from twisted.application.service import Service
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from toolkit.model.calls import Question, Redialled
from toolkit.model.errors import CrawlctlError, RefusedError
from toolkit.node.membership import shared_of
from toolkit.runs.folder import REDIAL, REDIALLED, RunFolder
from toolkit.store.wire_calls import write_redialled

if TYPE_CHECKING:
    from toolkit.node.answering import Answering
    from toolkit.node.launcher import LeasedLauncher
    from toolkit.node.membership import Membership
    from toolkit.node.redial import Redialler

LOOK_EVERY_S = 1.0
WISH_KEPT_S = 300.0
"""How old a spider's wish may be that no place was free for."""

_log = Logger()


class Redialling(Service):
    """Looks once a second whether a spider of this node wants another address; one redial serves all who ask."""

    def __init__(
        self, member: Membership, *, launcher: LeasedLauncher, answering: Answering, redialler: Redialler
    ) -> None:
        self._member = member
        self._launcher = launcher
        self._answering = answering
        self._redialler = redialler
        self._looking = LoopingCall(self._look)
        self._is_at_work = False
        self._rests_until = 0.0

    def startService(self) -> None:  # noqa: N802 - Twisted's name
        """Begin to look."""
        super().startService()  # type: ignore[no-untyped-call]
        self._looking.start(LOOK_EVERY_S)

    def stopService(self) -> None:  # noqa: N802 - Twisted's name
        """Look no more."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._looking.running:
            self._looking.stop()

    def answer(self, question: Question) -> Iterator[bytes]:
        """Redial because an operator asks for it: a sign that it begins, then what became of it.

        Raises:
            RefusedError: the share is no number.

        """
        share = share_of(question.args)
        yield b""
        yield write_redialled(self._redialler.redial(shared_of(self._member.store()), share=share))

    def _look(self) -> None:
        if self._is_at_work or time.monotonic() < self._rests_until:
            return
        folders = [run.folder for run in self._launcher.processes.values()]
        wish = next(filter(None, map(wish_of, folders)), None)
        if wish is None:
            return
        self._is_at_work = True
        done = self._answering.in_thread(lambda: self._fulfil(folders, why=str(wish.get("why"))))
        done.addErrback(_note)
        done.addBoth(lambda _: self._worked())

    def _worked(self) -> None:
        self._is_at_work = False

    def _fulfil(self, folders: list[RunFolder], *, why: str) -> None:
        _log.info("A spider asks for another address: {why}", why=why)
        told = self._redialler.redial(shared_of(self._member.store()))
        if told.again_s is not None:
            self._rests_until = time.monotonic() + min(told.again_s, WISH_KEPT_S)
        # Also those who asked meanwhile: they were banned under the old address.
        for folder in folders:
            wish = wish_of(folder)
            if wish is not None and (told.again_s is None or is_old(wish, now=time.time())):
                tell(folder, wish, told)


def share_of(args: Mapping[str, str]) -> float | None:
    """Return the share that a question names, 0 to 1, or nothing.

    Raises:
        RefusedError: it is none.

    """
    text = args.get("share")
    if text is None:
        return None
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise RefusedError(f"{text[:20]!r} is no share")
    return share


def wish_of(folder: RunFolder) -> Mapping[str, Any] | None:
    """Return what a spider asks for and has not been told of yet."""
    wish = folder.read(REDIAL)
    if wish is None:
        return None
    told = folder.read(REDIALLED)
    return None if told is not None and told.get("number") == wish.get("number") else wish


def is_old(wish: Mapping[str, Any], *, now: float) -> bool:
    """Tell whether nobody waits for this wish any more; one without a time is old. Pure."""
    at = wish.get("at")
    return not isinstance(at, int | float) or now > at + WISH_KEPT_S


def tell(folder: RunFolder, wish: Mapping[str, Any], redialled: Redialled) -> None:
    """Tell the spider what became of its wish; one whose folder is gone has ended."""
    try:
        folder.write(REDIALLED, {**asdict(redialled), "number": wish.get("number")})
    except OSError as error:
        _log.warn("A spider could not be told of the redial: {why}", why=error)


def _note(failure: Any) -> None:
    if not failure.check(CrawlctlError):
        _log.failure("A redial failed", failure=failure)
