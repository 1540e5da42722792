"""Who asks, and what they may do: by the session of a browser, or the token of a program. Every route declares it."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from toolkit.cluster.acts import Acts
from toolkit.cluster.desk import Desk
from toolkit.model.accounts import Role
from toolkit.web.own_paths import own_path, see_other
from toolkit.web.refusals import CrossSiteError, ForbiddenError, UnknownVisitorError
from toolkit.web.served import Served
from toolkit.web.sessions import SignedIn, form_token_of

__all__ = ["Administering", "Looking", "Operating", "Visitor", "anyone", "own_path", "see_other", "served_by"]

FORM_FIELD, FORM_HEADER = "form_token", "x-form-token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")
_bearer = HTTPBearer(auto_error=False, scheme_name="token", description="A token: crawlctl web tokens make USER NAME")


@dataclass(frozen=True)
class Visitor:
    """Somebody who may ask this: a user in a browser, or a program with a user's token.

    `form_token` goes into each form as `form_token`, or with a script's request as the header `X-Form-Token`; a
    program has none and needs none.
    """

    name: str
    role: Role
    served: Served
    session: str | None = None

    def may(self, role: Role) -> bool:
        """Say whether the visitor has this right."""
        return self.role.allows(role)

    def is_welcome(self) -> bool:
        """Say whether the session still lasts with at least the role it had; long streams ask again and again."""
        if self.session is None:
            return True
        now = self.served.sessions.find(self.session, is_use=False)
        return now is not None and now.user == self.name and now.role.allows(self.role)

    @property
    def is_by_cookie(self) -> bool:
        """Say whether it is a browser that is signed in, not a program with a token."""
        return self.session is not None

    @property
    def who(self) -> str:
        """How the audit names the visitor."""
        return f"{self.name}@web"

    @property
    def desk(self) -> Desk:
        """The visitor's eyes on the cluster."""
        return self.served.desk

    @cached_property
    def acts(self) -> Acts:
        """The visitor's hands; each act is in the audit under the visitor's name."""
        return Acts(self.served.desk, who=self.who)

    @cached_property
    def form_token(self) -> str:
        """What proves that a form is from a page of this session."""
        return "" if self.session is None else form_token_of(self.session)


def served_by(request: Request) -> Served:
    """Return what the app that answers a request is served with."""
    served = request.app.state.served
    if not isinstance(served, Served):
        raise TypeError("the app was not made by create_app")
    return served


async def sent_form_token(request: Request) -> str | None:
    """Return the proof that came with a request that changes something, in its header or its form."""
    if request.method in SAFE_METHODS:
        return None
    if (sent := request.headers.get(FORM_HEADER)) is not None:
        return sent
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() in FORM_TYPES:
        found = (await request.form(max_files=0, max_fields=200)).get(FORM_FIELD)
        return found if isinstance(found, str) else None
    return None


def cookie_name(request: Request) -> str:
    """Return the name of the session's cookie: bound to this host and to TLS where there is TLS."""
    name = f"crawlctl_{served_by(request).port}"
    return f"__Host-{name}" if is_secure(request) else name


def is_secure(request: Request) -> bool:
    """Say whether the browser speaks TLS, with this server or with a proxy that it trusts."""
    return request.url.scheme == "https"


class Needs:
    """The dependency that lets a request in with this right, and nobody else."""

    def __init__(self, role: Role) -> None:
        self.role = role

    def __call__(
        self,
        request: Request,
        form_token: Annotated[str | None, Depends(sent_form_token)],
        bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
    ) -> Visitor:
        """Return the visitor.

        Raises:
            UnknownVisitorError: neither a session nor a token that is known.
            CrossSiteError: it would change something, and does not come from a page of the session.
            ForbiddenError: the visitor may not.

        """
        visitor = _recognised(request, bearer)
        if visitor is None:
            if bearer is not None:
                raise UnknownVisitorError(
                    "this token is not known, or is over", hint="crawlctl web tokens list shows those that are there"
                )
            raise UnknownVisitorError("sign in first", hint="a program sends a token: crawlctl web tokens make")
        if visitor.session is not None and request.method not in SAFE_METHODS:
            sent = (form_token or "").encode()
            if not hmac.compare_digest(sent, visitor.form_token.encode()):
                raise CrossSiteError("this did not come from a page of your session", hint="load the page again")
        if not visitor.may(self.role):
            raise ForbiddenError(
                f"{visitor.name} may {visitor.role.value}, and this needs the right to {self.role.value}",
                hint="whoever administers can give it: crawlctl web users role",
            )
        return visitor


def anyone() -> None:
    """Declare that a route is for everybody: the sign-in and what it needs."""


def visitor_of(request: Request) -> Visitor | None:
    """Return who asks by the session's cookie, if anybody does."""
    secret = request.cookies.get(cookie_name(request), "")
    served = served_by(request)
    found = served.sessions.find(secret)
    return None if found is None else _visitor(found, served, session=secret)


def _recognised(request: Request, bearer: HTTPAuthorizationCredentials | None) -> Visitor | None:
    # A request with a token is a program's: its cookies count for nothing, so no other site can lend it any. Another
    # scheme is not meant for us: browsers send what a proxy before us asked them for with every request.
    scheme = request.headers.get("authorization", "").partition(" ")[0]
    if scheme.lower() != "bearer":
        return visitor_of(request)
    if bearer is None or not _takes_tokens(request.url.path):
        return None
    served = served_by(request)
    found = served.sessions.find_token(bearer.credentials)
    return None if found is None else _visitor(found, served)


def _takes_tokens(path: str) -> bool:
    return path.startswith("/api/") or path == "/metrics"


def _visitor(found: SignedIn, served: Served, *, session: str | None = None) -> Visitor:
    return Visitor(found.user, found.role, served, session)


Looking = Annotated[Visitor, Depends(Needs(Role.LOOK))]
Operating = Annotated[Visitor, Depends(Needs(Role.OPERATE))]
Administering = Annotated[Visitor, Depends(Needs(Role.ADMINISTER))]
