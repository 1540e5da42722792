"""What `nodes restart`, `upgrade`, `stop`, `start` and `remove` do on one host; `rolling.py` takes them in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toolkit.model.errors import HostRefusedError
from toolkit.model.hosts import Host
from toolkit.provision.credentials import forget_provisioned
from toolkit.provision.desired import INDEX_FILE, bind_of
from toolkit.provision.facts import Facts, Manager, gather
from toolkit.provision.host_plan import StepKind
from toolkit.provision.node_security import READ_ANEW
from toolkit.provision.places import UNIT, Places
from toolkit.provision.plan import our_lines
from toolkit.provision.provisioning import Provisioning
from toolkit.provision.remote import Connect, Remote
from toolkit.provision.rolling import Changed
from toolkit.provision.service import Verb, call_of

SERVICE_TIMEOUT_S = 120.0
REMOVE_TIMEOUT_S = 300.0
_MANAGERS: tuple[Manager, ...] = ("system", "user", "supervisor")

HostChange = Callable[[Remote], Changed]


@dataclass(frozen=True, slots=True)
class Provisioned:
    """A host that was provisioned: what keeps its node running, as whom, and where everything lies.

    `has_service` tells whether there is still something to stop; a removal that was cut short may have taken it.
    """

    manager: Manager
    user: str
    is_root: bool
    places: Places
    crontab: str
    has_service: bool = True


def provisioned(facts: Facts) -> Provisioned:
    """Return how the host was provisioned. Pure.

    Raises:
        HostRefusedError: it was not, so there is nothing of ours to start or stop.

    """
    manager = next((each for each in _MANAGERS if facts.record.get("service") == each), None)
    if manager is None:
        why = f"it was not provisioned: there is no {facts.places.record}"
        raise HostRefusedError(facts.host, "look at the node", why, hint=f"crawlctl nodes provision --on {facts.host}")
    # The keeper is a program of the environment.
    has_service = facts.environment is not None if manager == "supervisor" else facts.service(manager) is not None
    return Provisioned(manager, facts.service_user, facts.is_root, facts.places, facts.crontab, has_service)


def own_files(places: Places, *, keeps_files: bool) -> list[str]:
    """Return the files and folders of a node that a removal takes, the record last: with it, one can be repeated.

    Only what is ours goes: the folder may hold other things, and so may its `bin`. Pure.
    """
    programs = [places.uv, places.launcher]
    ours = [places.wheels, places.environment, places.environments, places.cache]
    written = [places.configuration, places.configuration_again, places.redis_url]
    written += [f"{places.node}/{name}" for name in sorted({*READ_ANEW, INDEX_FILE})]
    node = written if keeps_files else [places.node]
    return [*programs, *ours, *node, places.lock, places.restart_due, places.record]


def on_each(connect: Connect, change: HostChange) -> Callable[[Host], Changed]:
    """Return the change as a roll wants it: with a connection of its own for each host, closed at the end."""

    def turn(host: Host) -> Changed:
        remote = connect(host)
        try:
            return change(remote)
        finally:
            remote.close()

    return turn


def restart(remote: Remote) -> Changed:
    """Start the node anew; one that was stopped on purpose runs afterwards."""
    _serve("restart", remote, _look(remote))
    return Changed("started anew")


def start(remote: Remote) -> Changed:
    """Start the node, now and at each boot."""
    _serve("enable", remote, _look(remote))
    return Changed("started", is_restarted=False)


def stop(remote: Remote) -> Changed:
    """Stop the node, and let no boot start it."""
    _serve("disable", remote, _look(remote))
    return Changed("stopped, and drained until it is started")


def upgrade_by(provisioning: Provisioning) -> HostChange:
    """Return what brings a host to this crawlctl and to the newest packages; `provisioning` must choose them anew."""

    def upgrade(remote: Remote) -> Changed:
        _look(remote)
        done = provisioning.provision(remote, lambda _word: None)
        kinds = {step.kind for step in done.steps}
        packages = [step.why for step in done.steps if step.kind is StepKind.PACKAGES]
        note = "; ".join([*packages, *done.notes]) or "nothing is newer"
        return Changed(note, is_restarted=StepKind.RESTART in kinds)

    return upgrade


def remove_with(state_folder: Path, *, keeps_files: bool) -> HostChange:
    """Return what takes the node off its host: service, environment, and unless they are kept, its files.

    The generated password is not sent there any more.
    """

    def remove(remote: Remote) -> Changed:
        there = _look(remote)
        if there.has_service:
            _serve("disable", remote, there)
        _remove_service(remote, there)
        places = there.places
        words = ["rm", "-rf", "--", *own_files(places, keeps_files=keeps_files)]
        remote.check(words, doing="remove files", as_root=there.is_root, timeout_s=REMOVE_TIMEOUT_S)
        remote.run(["rmdir", places.programs], doing=f"remove {places.programs}", as_root=there.is_root)
        is_empty = remote.run(["rmdir", places.folder], doing=f"remove {places.folder}", as_root=there.is_root).ok
        forget_provisioned(state_folder, remote.host.name)
        kept = places.node if keeps_files else places.folder
        return Changed("removed" if is_empty else f"removed; {kept} stays, with what is in it")

    return remove


def _look(remote: Remote) -> Provisioned:
    return provisioned(gather(remote, bind=bind_of(remote.host)))


def _serve(verb: Verb, remote: Remote, there: Provisioned) -> None:
    call = call_of(verb, there.manager, there.places, user=there.user)
    if call is not None:
        as_user = call.as_user if there.is_root else None
        remote.check(
            call.words, doing=f"{verb} {UNIT}", as_root=call.as_root, as_user=as_user, timeout_s=SERVICE_TIMEOUT_S
        )


def _remove_service(remote: Remote, there: Provisioned) -> None:
    if there.manager == "supervisor":
        _remove_from_crontab(remote, there)
        return
    unit = there.places.system_unit if there.manager == "system" else there.places.user_unit
    remote.check(["rm", "-f", "--", unit], doing=f"remove {unit}", as_root=there.manager == "system")
    _serve("reload", remote, there)


def _remove_from_crontab(remote: Remote, there: Provisioned) -> None:
    ours = our_lines(there.crontab)
    if not ours:
        return
    kept = "".join(f"{line}\n" for line in there.crontab.splitlines() if line not in ours)
    words = ["crontab", "-"] if kept else ["crontab", "-r"]
    as_user = there.user if there.is_root else None
    remote.check(words, doing="write the crontab", stdin=kept.encode(), as_user=as_user)
