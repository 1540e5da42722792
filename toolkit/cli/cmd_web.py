"""The commands about the pages: web, which serves them, and web users and web tokens, who may use them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.command import CLUSTER, YesOption, command, subcommands
from toolkit.cli.session import Session
from toolkit.model.accounts import Role
from toolkit.model.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from toolkit.web.accounts import Accounts
    from toolkit.web.sessions import Sessions

NEEDED = ("argon2", "fastapi", "jinja2", "python_multipart", "uvicorn")
NameArgument = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]
RoleOption = Annotated[
    Role, typer.Option("--role", help="look, operate (which is more), or administer (which is all).")
]


def add_to(app: typer.Typer) -> None:
    """Register these commands."""
    web = subcommands(
        app,
        "web",
        "Serve the pages and the HTTP API, as `crawlctl web` alone does on this machine; say who may use them.",
        panel=CLUSTER,
        default="serve",
    )
    command(
        web,
        "crawlctl web",
        "crawlctl web --listen :8801",
        "crawlctl web --listen 0.0.0.0:443 --tls-cert web.pem --tls-key web.key --name crawls.example.com",
        "crawlctl web --proxy 127.0.0.1 --name crawls.example.com",
        name="serve",
    )(serve)
    users = subcommands(
        web, "users", "Who may sign in; `crawlctl web users` alone lists them.", panel="", default="list"
    )
    command(users, "crawlctl web users list", name="list")(list_users)
    command(
        users,
        "crawlctl web users add ann --role operate",
        "pass show crawls/ann | crawlctl web users add ann",
        name="add",
        audit="web users add",
    )(add_user)
    command(users, "crawlctl web users role ann administer", name="role", audit="web users role")(change_role)
    command(users, "crawlctl web users password ann", name="password", audit="web users password")(change_password)
    command(users, "crawlctl web users remove ann", name="remove", audit="web users remove")(remove_user)
    tokens = subcommands(
        web, "tokens", "What programs sign in with; `crawlctl web tokens` alone lists them.", panel="", default="list"
    )
    command(tokens, "crawlctl web tokens list", name="list")(list_tokens)
    command(
        tokens,
        "crawlctl web tokens make ann prometheus",
        "crawlctl web tokens make ann nightly --role operate --for 90d",
        name="make",
        audit="web tokens make",
    )(make_token)
    command(tokens, "crawlctl web tokens revoke 1f0c2a9d", name="revoke", audit="web tokens revoke")(revoke_token)


def serve(
    session: Session,
    listen: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Where; anything but this machine itself only if users are there."),
    ] = "127.0.0.1:8800",
    name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST", help="A host name that browsers ask for; repeatable. This machine's own is known."
        ),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="A certificate, with its issuers'.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's key.")] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="A proxy whose word on who asks, and by TLS, is believed; repeatable."),
    ] = None,
    open_metrics: Annotated[
        bool, typer.Option("--open-metrics", help="Show /metrics to whoever reaches the port, without a token.")
    ] = False,
) -> None:
    """Serve the pages and the HTTP API until Ctrl-C, to browsers of this machine unless told otherwise."""
    _require_extra()
    from toolkit.cluster.desk import Desk
    from toolkit.web.serving import Tls, place_of
    from toolkit.web.starting import Wanted, start

    if (tls_cert is None) is not (tls_key is None):
        raise UsageError("a certificate and its key go together", hint="--tls-cert FILE --tls-key FILE")
    tls = None if tls_cert is None or tls_key is None else Tls(tls_cert, tls_key)
    place, logs = place_of(listen), session.inventory.shipped_logs
    start(
        Wanted(place, name or (), tls, proxy or (), is_metrics_open=open_metrics, log_place=logs),
        desk=Desk(session.nodes(), lambda: session.store),
        folder=session.state_folder,
        cluster=session.inventory.cluster,
        say=session.printer.say,
    )


def list_users(session: Session) -> None:
    """List who may sign in, and what each may do."""
    from toolkit.views.accounts import accounts_view

    with _accounts(session) as (accounts, _):
        session.printer.show(accounts_view(accounts.users()))


def add_user(session: Session, user: NameArgument, role: RoleOption = Role.LOOK) -> None:
    """Add a user; the password is asked for, or is the first line of standard input."""
    from toolkit.views.accounts import account_view

    with _accounts(session) as (accounts, _):
        session.audit(user, detail=f"may {role.value}")
        session.printer.show(account_view(accounts.add(user, role, _asked_password(user))))


def change_role(
    session: Session, user: NameArgument, role: Annotated[Role, typer.Argument(help="What the user may do.")]
) -> None:
    """Give a user another role; the user has to sign in again."""
    from toolkit.views.accounts import account_view

    with _accounts(session) as (accounts, _):
        session.audit(user, detail=f"may {role.value}")
        session.printer.show(account_view(accounts.set_role(user, role)))


def change_password(session: Session, user: NameArgument) -> None:
    """Give a user another password, asked for or from standard input; the user is signed out everywhere."""
    from toolkit.views.accounts import account_view

    with _accounts(session) as (accounts, _):
        known = accounts.require(user)
        session.audit(user)
        accounts.set_password(user, _asked_password(user))
        session.printer.show(account_view(known))


def remove_user(session: Session, user: NameArgument, yes: YesOption = False) -> None:
    """Remove a user with all sessions and tokens."""
    from toolkit.views.accounts import account_view

    with _accounts(session) as (accounts, _):
        known = accounts.require(user)
        if not yes and not session.printer.confirm(f"remove {user}, with all sessions and tokens?"):
            raise UsageError(f"{user} was not removed")
        session.audit(user)
        accounts.remove(user)
        session.printer.show(account_view(known))


def list_tokens(session: Session) -> None:
    """List the tokens of programs: whose they are, what they allow, and when they were used."""
    from toolkit.views.accounts import tokens_view

    with _accounts(session) as (_, sessions):
        session.printer.show(tokens_view(sessions.tokens()))


def make_token(
    session: Session,
    user: NameArgument,
    label: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    role: RoleOption = Role.LOOK,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", show_default="for ever", help="How long: 12h, 90d.")
    ] = None,
) -> None:
    """Make a token that a program signs in with as this user, and show it this once."""
    from toolkit.cli.durations import seconds
    from toolkit.views.accounts import made_token_view

    ttl_s = None if for_ is None else float(seconds(for_))
    with _accounts(session) as (_, sessions):
        session.audit(user, detail=f"{label}: may {role.value}")
        token, secret = sessions.make_token(user, role, label=label, ttl_s=ttl_s)
    session.printer.show(made_token_view(token, secret))
    session.printer.say(f"{user}'s program may {role.value} with it; it cannot be shown again")


def revoke_token(
    session: Session, token: Annotated[str, typer.Argument(metavar="TOKEN", help="Its id, as `list` shows it.")]
) -> None:
    """Take a token away; programs with it are refused at once."""
    from toolkit.views.accounts import tokens_view

    with _accounts(session) as (_, sessions):
        session.audit(token)
        session.printer.show(tokens_view([sessions.revoke(token)]))


def _require_extra() -> None:
    if any(find_spec(name) is None for name in NEEDED):
        raise MissingExtraError("what the pages are made with", "web")


@contextmanager
def _accounts(session: Session) -> Iterator[tuple[Accounts, Sessions]]:
    """Give the users, and their sessions and tokens; the file is closed at the end."""
    _require_extra()
    from toolkit.web.accounts import Accounts
    from toolkit.web.accounts_file import accounts_file
    from toolkit.web.sessions import Sessions

    with closing(accounts_file(session.state_folder)) as file:
        yield Accounts(file), Sessions(file)


def _asked_password(user: str) -> str:
    """Ask for a new password without showing it, twice; without a terminal it is the first line of standard input."""
    if sys.stdin.isatty():
        return str(typer.prompt(f"password of {user}", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().rstrip("\r\n")
