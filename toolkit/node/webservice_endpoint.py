"""What every endpoint of a plug-in node has in common: answers that may come later, errors in Scrapyd's form, no CORS.

Runs on Scrapyd's reactor and never waits there: an endpoint's method may be `async` and await the store or the disk.
"""

from __future__ import annotations

import inspect
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from scrapyd.webservice import WsResource
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger
from twisted.web import error, http, resource, server

from toolkit.model.errors import CrawlctlError, StoreUnreachableError
from toolkit.node.machine import reactor
from toolkit.node.membership import Membership
from toolkit.node.shelf import Shelf, shelf
from toolkit.store.interfaces import Store

if TYPE_CHECKING:
    from twisted.python.failure import Failure

T = TypeVar("T")
STORE_PATIENCE_S = 10.0
"""How long a client is let wait for a Redis that neither answers nor refuses."""

_log = Logger()


class Endpoint(WsResource):  # type: ignore[misc]  # Scrapyd is not typed
    """One of Scrapyd's endpoints on a plug-in node.

    Scrapyd lets every web page read its answers and post to it. Here no page of another origin may: the header that
    would let it read is not sent, and what it posts is refused. Programs send no `Origin` and notice nothing.
    """

    def render(self, txrequest: Any) -> Any:
        """Answer now or later, always with Scrapyd's JSON."""
        gone: list[bool] = []
        txrequest.notifyFinish().addErrback(lambda _: gone.append(True))
        done = maybeDeferred(self._begin, txrequest)
        done.addCallbacks(self._succeeded, self._failed, callbackArgs=(txrequest,), errbackArgs=(txrequest,))
        done.addErrback(lambda failure: _log.failure("An answer could not be written", failure=failure))
        done.addCallback(lambda content: None if gone else _finish(txrequest, content))
        return server.NOT_DONE_YET

    @property
    def node(self) -> Membership:
        """This node as a member of its cluster."""
        member: Membership = self.root.poller.membership
        return member

    @property
    def shelf(self) -> Shelf:
        """This node's eggs."""
        return shelf(self.root.scheduler.config)

    def ask(self, work: Callable[[Store], T], *, patience_s: float = STORE_PATIENCE_S) -> Deferred[T]:
        """Do work with the store, in a thread.

        Raises:
            StoreUnreachableError: it does not answer, or not in time; what had not begun by then is never done.

        """
        is_given_up = threading.Event()

        def give_up(_value: object, patience_s: float) -> None:
            is_given_up.set()
            raise _too_late(patience_s)

        def work_in_time(store: Store) -> T:
            if is_given_up.is_set():
                raise _too_late(patience_s)
            return work(store)

        asked = self.node.call(work_in_time)
        asked.addTimeout(patience_s, reactor(), onTimeoutCancel=give_up)
        return asked

    def is_known(self, project: str) -> bool:
        """Tell whether this node has the project."""
        return project in self.root.poller.queues

    def require_project(self, project: str) -> None:
        """Refuse a project that this node does not have, in Scrapyd's own words."""
        if not self.is_known(project):
            raise not_found("project", project)

    def _begin(self, txrequest: Any) -> Any:
        if txrequest.method not in {b"GET", b"HEAD", b"OPTIONS"}:
            refuse_foreign(
                txrequest.getHeader("Origin"),
                txrequest.getHeader("Sec-Fetch-Site"),
                [
                    txrequest.getHeader("Host"),
                    (txrequest.getHeader("X-Forwarded-Host") or "").partition(",")[0].strip(),
                ],
            )
        answer = resource.Resource.render(self, txrequest)  # type: ignore[no-untyped-call]
        return Deferred.fromCoroutine(answer) if inspect.iscoroutine(answer) else answer

    def _succeeded(self, data: dict[str, Any] | None, txrequest: Any) -> bytes:
        if data is None:  # OPTIONS
            return b""
        return self._json({**data, "status": "ok"}, txrequest)

    def _failed(self, failure: Failure, txrequest: Any) -> bytes:
        problem = failure.value
        if isinstance(problem, error.Error):
            txrequest.setResponseCode(int(problem.status))
        if self.root.debug:
            txrequest.setHeader("Content-Type", "text/plain")
            return "".join(traceback.format_exception(problem)).encode()
        if isinstance(problem, error.Error):
            message = (problem.message or b"").decode(errors="replace")
        elif isinstance(problem, CrawlctlError):
            message = problem.message
        else:
            _log.failure("{path} failed", failure=failure, path=txrequest.path)
            message = f"{type(problem).__name__}: {problem}"
        return self._json({"status": "error", "message": message}, txrequest)

    def _json(self, data: dict[str, Any], txrequest: Any) -> bytes:
        txrequest.setHeader("Content-Type", "application/json")
        return bytes(self.json_encoder.encode({**data, "node_name": self.root.node_name}).encode() + b"\n")


def not_found(what: str, name: str) -> Exception:
    """Return the error by which Scrapyd says that it does not have a project, version or spider."""
    return said(f"{what} '{name}' not found")


def said(message: str, *, code: int = http.OK) -> Exception:
    """Return an error that a client sees with these very words."""
    return error.Error(code=code, message=message.encode())


def refuse_foreign(origin: str | None, fetch_site: str | None, hosts: Iterable[str | None]) -> None:
    """Refuse what a browser sends on behalf of a page that is not this node's own; a program sends neither header.

    Browsers say by themselves, and no page can change, where a request comes from: `Sec-Fetch-Site` where they think
    the address trustworthy, `Origin` with every POST. `hosts` are the names under which this node was called.

    Raises:
        twisted.web.error.Error: it comes from elsewhere.

    """
    if fetch_site is not None:
        is_own = fetch_site in {"same-origin", "none"}
    else:
        is_own = origin is None or urlsplit(origin).netloc.lower() in {host.lower() for host in hosts if host}
    if not is_own:
        raise said(
            f"a page of {origin or 'another site'} may not change anything here: "
            "call this node from a program, or from a page that it served itself",
            code=http.FORBIDDEN,
        )


def _too_late(patience_s: float) -> StoreUnreachableError:
    return StoreUnreachableError(f"the cluster's Redis has not answered for {patience_s:g} s")


def _finish(txrequest: Any, content: bytes | None) -> None:
    body = content or b""
    txrequest.setHeader("Content-Length", str(len(body)))
    txrequest.write(body)
    txrequest.finish()
