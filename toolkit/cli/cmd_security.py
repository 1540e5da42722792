"""The commands about trust: keys new, list, show, trust, revoke, sign; and redis users, configure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolkit.cli import completion
from toolkit.cli.command import CLUSTER, ProjectOption, command, subcommands
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolkit.model.names import ProjectName
    from toolkit.provision.keyring import Keyring
    from toolkit.store.redis_settings import ServerReport
    from toolkit.trust.keys import PublicKey

KEY_HELP = "Its id, the beginning of one, or its owner's name."


def add_to(app: typer.Typer) -> None:
    """Register these commands."""
    keys = subcommands(
        app,
        "keys",
        "The keys that releases are signed with, and those that nodes trust; `crawlctl keys` alone lists them.",
        panel=CLUSTER,
        default="list",
    )
    command(keys, "crawlctl keys new", "crawlctl keys new ann@example.com", audit="keys new")(new)
    command(keys, "crawlctl keys list", name="list")(list_)
    command(keys, "crawlctl keys show", "crawlctl keys show ann@example.com", name="show")(show)
    command(keys, "crawlctl keys trust bob.pub", audit="keys trust")(trust)
    command(keys, "crawlctl keys revoke bob@example.com", audit="keys revoke")(revoke)
    command(keys, "crawlctl keys sign -p shop", "crawlctl keys sign VERSION -p shop", audit="keys sign")(sign)
    redis = subcommands(app, "redis", "The users and settings of the cluster's Redis.", panel=CLUSTER)
    command(redis, "crawlctl redis users", "crawlctl redis users --apply", audit="redis users")(users)
    command(redis, "crawlctl redis configure", "crawlctl redis configure --apply", audit="redis configure")(configure)


def new(
    session: Session,
    name: Annotated[str | None, typer.Argument(help="Whose key it is.", show_default="you, at this machine")] = None,
) -> None:
    """Make the key that your deploys sign with from now on, and trust it; it stays in the state folder."""
    from toolkit.views.security import key_row, key_view

    key = session.keyring.new(name)
    session.audit(subject=f"{key.id} {key.name}")
    session.printer.show(key_view(key_row(key, state="trusted", is_own=True)))
    session.printer.say(f"the private key is {session.keyring.private_path}: back it up, and show it to nobody")
    session.printer.say(
        "releases made before are not signed, and nodes that get the trusted keys run them no more: "
        "crawlctl keys sign -p PROJECT signs them",
        style="yellow",
    )
    _say_where(session)


def list_(session: Session) -> None:
    """List the keys that provisioned nodes trust, those that were revoked, and your own."""
    from toolkit.views.security import keys_view

    session.printer.show(keys_view(_rows(session.keyring)))


def show(
    session: Session,
    key: Annotated[str | None, typer.Argument(metavar="KEY", help=KEY_HELP, show_default="yours")] = None,
) -> None:
    """Show a public key, by default your own, as a line that others give to `crawlctl keys trust`."""
    from toolkit.views.security import key_view

    wanted = session.keyring.require_signing_key().public if key is None else session.keyring.find(key)
    session.printer.show(key_view(_row(session.keyring, wanted)))


def trust(
    session: Session,
    key: Annotated[str, typer.Argument(metavar="KEY", help="A file with public keys, or one such line.")],
) -> None:
    """Add public keys to those that nodes trust once they are provisioned again."""
    from toolkit.views.security import keys_view

    keyring, keys = session.keyring, _public_keys(key)
    session.audit(subject=", ".join(f"{each.id} {each.name}" for each in keys))
    for each in keys:
        keyring.trust(each)
    session.printer.show(keys_view([_row(keyring, each) for each in keys]))
    _say_where(session)


def revoke(session: Session, key: Annotated[str, typer.Argument(metavar="KEY", help=KEY_HELP)]) -> None:
    """Take a key out for good: what it alone has signed counts as unsigned on every node provisioned from then on."""
    from toolkit.views.security import keys_view

    revoked = session.keyring.revoke(key)
    session.audit(subject=f"{revoked.id} {revoked.name}")
    session.printer.show(keys_view([_row(session.keyring, revoked)]))
    _say_where(session)


def sign(
    session: Session,
    version: Annotated[
        str | None,
        typer.Argument(help="Only this release; all of the project unless given.", autocompletion=completion.versions),
    ] = None,
    project: ProjectOption = None,
) -> None:
    """Sign releases that were made before there was a key; nodes that hold them take the signature up by themselves."""
    from toolkit.model.errors import NotFoundError
    from toolkit.model.names import VersionName
    from toolkit.rollout.signing import sign_releases
    from toolkit.trust.signatures import signers
    from toolkit.views.security import signed_view

    name, wanted = _project(session, project), None if version is None else VersionName(version)
    session.audit(subject=f"{name} {version or 'all releases'}")
    key = session.keyring.require_signing_key()
    done = sign_releases(session.store, name, wanted, key)
    if not done:
        what = f"{name} has no release" + ("" if version is None else f" {version}")
        raise NotFoundError(what, hint="crawlctl releases shows them")
    session.printer.show(signed_view(done, [signers(each.signature) for each in done]))


def users(
    session: Session,
    apply: Annotated[bool, typer.Option("--apply", help="Make them, or bring them to what they should be.")] = False,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="With new passwords; the old ones count until the next --apply.")
    ] = False,
    keys: Annotated[
        list[str] | None,
        typer.Option("--keys", metavar="PATTERN", help="Keys of crawls that have other names than scrapy-redis'."),
    ] = None,
) -> None:
    """Show the Redis users with the least rights of operator, node and spider, and with --apply make them."""
    from toolkit.model.errors import UsageError
    from toolkit.provision.redis_users import put_users
    from toolkit.store.acl import users_of
    from toolkit.views.security import users_view

    if rotate and not apply:
        raise UsageError("--rotate makes new passwords, so it goes with --apply")
    patterns = tuple(keys or ())
    if not apply:
        session.audit_nothing()
        planned = users_of(session.inventory.cluster, crawl_keys=patterns)
        session.printer.show(users_view([(user, "planned", None) for user in planned]))
        session.printer.say("nothing was changed; --apply makes them")
        return
    session.audit(subject=session.inventory.cluster, detail="with new passwords" if rotate else None)
    done = put_users(session.inventory, session.state_folder, rotate=rotate, crawl_keys=patterns)
    session.printer.show(users_view([(each.user, each.action, each.url_file) for each in done.users]))
    if done.unkept is not None:
        session.printer.say(f"a restart of that Redis forgets them: {done.unkept}", style="yellow")
    session.printer.say(f"write into the inventory: redis: {{file: {done.users[0].url_file}}}")
    session.printer.say(
        "and redis_admin: the URL that stood there until now, from a file, for the commands of crawlctl redis"
    )
    session.printer.say("crawlctl nodes provision gives nodes and spiders theirs")


def configure(
    session: Session,
    apply: Annotated[bool, typer.Option("--apply", help="Set what differs, on each server.")] = False,
) -> None:
    """Show the settings that limit what Redis can lose, on the primary and its replicas, and set them with --apply."""
    from toolkit.provision.redis_users import admin_url
    from toolkit.store.redis_settings import configure_servers
    from toolkit.views.security import configured_view

    url = admin_url(session.inventory)
    if apply:
        session.audit(subject=session.inventory.cluster)
    else:
        session.audit_nothing()
    reports = configure_servers(url, apply=apply)
    changed = [
        f"{each.place}: {', '.join(setting.name for setting in each.settings if setting.differs)}"
        for each in reports
        if each.is_applied
    ]
    session.audit(detail="; ".join(changed) or "nothing was changed")
    session.printer.show(configured_view(reports))
    for report in reports:
        for note in report.notes:
            session.printer.say(f"{report.place}: {note}", style="yellow")
    if not apply:
        session.printer.say("nothing was changed; --apply sets what differs")
    _end_by(session, reports)


def _end_by(session: Session, reports: Sequence[ServerReport]) -> None:
    """Raise the exit that fits the servers that failed; do nothing when there are none."""
    from toolkit.model.errors import NodesFailedError, NothingReachableError, RefusedError, StoreUnreachableError
    from toolkit.store.redis_settings import SENTINEL

    failed = sum(each.error is not None for each in reports)
    if not failed:
        return
    text = f"{failed} of {len(reports)} Redis servers and Sentinels failed"
    servers = [each.error for each in reports if each.role != SENTINEL]
    if all(isinstance(each, StoreUnreachableError) for each in servers):
        raise session.failed(NothingReachableError(text))
    if all(isinstance(each, RefusedError) for each in servers):
        raise session.failed(RefusedError(text))
    raise session.failed(NodesFailedError(text))


def _project(session: Session, project: str | None) -> ProjectName:
    from toolkit.model.errors import UsageError
    from toolkit.model.names import check_project

    known = session.store.releases.projects()
    if project is None and len(known) != 1:
        raise UsageError("which project?", hint=f"name one with -p: {', '.join(known) or 'none has a release yet'}")
    return known[0] if project is None else check_project(project)


def _rows(keyring: Keyring) -> list[dict[str, Any]]:
    lists, own = keyring.trusted(), keyring.signing_key()
    keys = [*lists.trusted, *lists.revoked]
    if own is not None and own.public.raw not in {key.raw for key in keys}:
        keys.append(own.public)
    return [_row(keyring, key) for key in keys]


def _row(keyring: Keyring, key: PublicKey) -> dict[str, Any]:
    from toolkit.views.security import key_row

    lists, own = keyring.trusted(), keyring.signing_key()
    state = "trusted" if lists.find(key.id) else "revoked" if lists.was_revoked(key.id) else "not trusted"
    return key_row(key, state=state, is_own=own is not None and own.public.raw == key.raw)


def _public_keys(text: str) -> list[PublicKey]:
    from toolkit.model.errors import ConfigurationError
    from toolkit.trust.keys import KIND, read_public_key, read_trusted_keys

    if text.strip().startswith(KIND):
        return [read_public_key(text)]
    path = Path(text).expanduser()
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigurationError(
            f"{path} cannot be read: {why}", hint=f"give a file, or the line itself: '{KIND} …'"
        ) from error
    keys = read_trusted_keys(content, source=str(path)).trusted
    if not keys:
        raise ConfigurationError(f"{path} holds no public key", hint="crawlctl keys show prints one")
    return list(keys)


def _say_where(session: Session) -> None:
    session.printer.say(f"nodes get {session.keyring.list_path} by: crawlctl nodes provision")
