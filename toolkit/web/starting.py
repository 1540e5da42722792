"""What happens before the pages are served: is it safe to, where, and who makes the first user."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from toolkit.cluster.desk import Desk
from toolkit.config.log_places import LogAddress
from toolkit.model.errors import RefusedError, UsageError
from toolkit.web.accounts import Accounts
from toolkit.web.accounts_file import accounts_file
from toolkit.web.app import create_app
from toolkit.web.guarding import host_name, own_names
from toolkit.web.served import Served
from toolkit.web.serving import Place, Tls, check_tls, listen, log_to_stderr, serve
from toolkit.web.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the pages are to be served. `names` are host names under which they are asked for, `proxies` addresses."""

    place: Place
    names: Sequence[str] = ()
    tls: Tls | None = None
    proxies: Sequence[str] = ()
    is_metrics_open: bool = False
    log_place: LogAddress | None = None


def start(wanted: Wanted, *, desk: Desk, folder: Path, cluster: str, say: Callable[[str], None]) -> None:
    """Serve the pages until a signal ends it; `say` hears where they are, and what is not safe.

    Raises:
        RefusedError: others could reach it and there is no user yet, or the port is taken.
        ConfigurationError: the address, or the certificate, cannot be used.
        UsageError: a name is none, or a proxy has no address.

    """
    names = own_names() | {_name(text) for text in wanted.names}
    proxies = [_proxy(text) for text in wanted.proxies]
    if wanted.tls is not None:
        check_tls(wanted.tls)
    file = accounts_file(folder)
    accounts = Accounts(file)
    has_users = bool(accounts.users())
    refuse_unsafe(wanted.place, has_users=has_users)
    listening = listen(wanted.place)
    served = Served(
        desk,
        accounts,
        Sessions(file),
        port=int(listening.getsockname()[1]),
        cluster=cluster,
        names=frozenset(names),
        setup_key=None if has_users else secrets.token_urlsafe(32),
        is_metrics_open=wanted.is_metrics_open,
        log_place=wanted.log_place,
    )
    log_to_stderr()

    def tell() -> None:
        for line in told(wanted, served):
            say(line)

    app = create_app(served)
    try:
        serve(app, listening, stopping=served.stopping, tls=wanted.tls, proxies=proxies, on_ready=tell)
    finally:
        file.close()


def refuse_unsafe(place: Place, *, has_users: bool) -> None:
    """Refuse to be reached by others while whoever comes first could make himself the administrator. Pure.

    Raises:
        RefusedError: there is no user yet, and the place is not the loopback.

    """
    if not has_users and not place.is_loopback:
        raise RefusedError(
            f"others could reach the pages at {place.host}, and nobody may sign in yet",
            hint="crawlctl web users add NAME --role administer, then again",
        )


def told(wanted: Wanted, served: Served) -> list[str]:
    """Return what is said at the start. Pure."""
    place, scheme = wanted.place, "http" if wanted.tls is None else "https"
    host = wanted.names[0] if wanted.names else "127.0.0.1" if place.host in {"0.0.0.0", "::"} else place.host  # noqa: S104 - compared
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{served.port}"
    lines = [f"the pages of {served.cluster} are at {url} (Ctrl-C ends it)"]
    if served.setup_key is not None:
        lines.append(f"nobody may sign in yet; make the first user here, once: {url}/setup?key={served.setup_key}")
    if not place.is_loopback and wanted.tls is None and not wanted.proxies:
        lines.append("without TLS everybody on the way can read passwords: --tls-cert and --tls-key, or a proxy")
    if not place.is_loopback and wanted.is_metrics_open:
        lines.append("the numbers at /metrics are open to everybody who reaches the port")
    return lines


def _name(text: str) -> str:
    name = host_name(text)
    if name is None or (":" in text and not text.startswith("[")):
        raise UsageError(f"{text[:100]!r} is no host's name", hint="as in --name crawls.example.com, without a port")
    return name


def _proxy(text: str) -> str:
    # A name, or `*`, would be taken without a word: the one trusts nobody, the other everybody.
    try:
        return str(ip_network(text, strict=False))
    except ValueError as error:
        raise UsageError(
            f"{text[:100]!r} is no address of a proxy",
            hint="as in --proxy 127.0.0.1, or a network: --proxy 10.0.0.0/24",
        ) from error
