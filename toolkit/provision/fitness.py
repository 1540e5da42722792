"""Whether a host can be provisioned as it is, and what its operator should know. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from toolkit.provision.desired import Desired, bind_of
from toolkit.provision.facts import Facts, Manager
from toolkit.provision.host_plan import Problem
from toolkit.provision.places import UNIT

NEEDED_MB = 400
"""Free disk for a first environment, with the cache beside it."""
SMALL_MB = 20
STALE_S = 900.0
"""Who holds a host's lock and gave no sign of life for so long is gone; one step takes at most ten minutes."""

_SHARED = ("home", "mnt", "media", "opt", "root", "srv", "tmp", "usr", "var")
_SHARED_BELOW = ("usr/bin", "usr/lib", "usr/local", "usr/sbin", "var/lib", "var/tmp")
_OF_ALL = frozenset(f"/{name}" for name in ("", *_SHARED, *_SHARED_BELOW))
_OF_THE_SYSTEM = frozenset({"bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys"})

OLDEST, TOO_NEW = (3, 11), (3, 14)
_OPEN = {
    "ufw": "ufw allow from {who} to any port {port} proto tcp",
    "firewalld": "firewall-cmd --permanent --add-rich-rule='rule family=ipv4 source address={who} "
    "port port={port} protocol=tcp accept' && firewall-cmd --reload",
    "nft": "nft add rule inet filter input ip saddr {who} tcp dport {port} accept",
}


def problems(facts: Facts, desired: Desired, manager: Manager, *, needs_room: bool) -> tuple[Problem, ...]:
    """Return everything that keeps a host from being provisioned."""
    return (
        *_of_python(facts, desired),
        *_of_service(facts, desired, manager),
        *_of_room(facts, needs_room=needs_room),
        *_of_network(facts, desired),
        *_of_others(facts, desired),
        *_of_unit(facts),
        *_of_folder(facts),
    )


def is_stale(facts: Facts) -> bool:
    """Tell whether the host's lock is one that nobody holds any more."""
    lock = facts.lock
    return lock is not None and (not lock.is_of_this_boot or lock.is_abandoned or lock.age_s > STALE_S)


def notes(facts: Facts, desired: Desired, manager: Manager) -> tuple[str, ...]:
    """Return what is not ours to change, and things to know."""
    return tuple(_notes(facts, desired, manager))


def _of_python(facts: Facts, desired: Desired) -> Iterator[Problem]:
    doing, name = "look for Python", desired.host.provision.python
    if facts.system != "linux":
        yield Problem("look at the host", f"it runs {facts.system}; nodes are provisioned on Linux only")
    if facts.lacks_python is not None:
        found = f"; there is {facts.python.path}, Python {facts.python.text}" if facts.python else ""
        yield Problem(doing, f"there is no {name}{found}", "name one that is there: provision.python")
        return
    if facts.python is None or not OLDEST <= facts.python.version[:2] < TOO_NEW:
        has = facts.python.text if facts.python else "none"
        fit = next((each for each in facts.pythons if OLDEST <= each.version[:2] < TOO_NEW), None)
        hint = (
            f"it also has {fit.path}: provision.python: {fit.path}"
            if fit
            else "install one, and name it in provision.python"
        )
        yield Problem(doing, f"{name} is Python {has}; a node needs 3.11, 3.12 or 3.13", hint)
    elif facts.python_error is not None:
        yield Problem(
            doing, f"its Python is not whole: {facts.python_error}", "install all of it: apt install python3-venv"
        )


def _of_service(facts: Facts, desired: Desired, manager: Manager) -> Iterator[Problem]:
    system = facts.service("system")
    if manager == "system" and not facts.is_root:
        why = facts.sudo_error or f"{facts.user} is not root"
        yield Problem("become root", why, "let it use sudo without a password, or say provision.service: user")
    elif desired.host.ssh.sudo_password is not None and not facts.is_root and facts.sudo_error is not None:
        # Whoever gives sudo's password wants root: another password must not make another node, in another folder.
        yield Problem("become root", facts.sudo_error, "correct ssh.sudo_password; or provision.service: user")
    elif system is not None and not facts.is_root and manager != "system":
        why = f"the node there is a service of the system, and we are not root: {facts.sudo_error or facts.user}"
        yield Problem("become root", why, "set ssh.user or ssh.sudo_password as they were")
    if manager == "system" and not facts.has_systemd:
        yield Problem("look for systemd", "it does not run there", "say provision.service: auto, or supervisor")
    if manager == "user" and facts.is_root:
        yield Problem("look for systemd", "we log in as root there", "say provision.service: system, or set ssh.user")
    elif manager == "user" and not facts.has_user_manager:
        why = f"systemd's user manager of {facts.user} does not answer"
        yield Problem("look for systemd", why, f"loginctl enable-linger {facts.user}; or provision.service: supervisor")


def _of_room(facts: Facts, *, needs_room: bool) -> Iterator[Problem]:
    wanted = NEEDED_MB if needs_room else SMALL_MB
    if facts.disk_free_mb < wanted:
        why = f"{facts.disk_free_mb} MB are free for {facts.places.folder}, {wanted} MB are needed"
        yield Problem("look at the disk", why, "free some space there, or name another folder: provision.folder")
    if not facts.is_writable:
        why = f"{facts.user} cannot write to {facts.places.folder}: it, or the folder above it, is read-only for it"
        yield Problem("look at the disk", why, "name another folder: provision.folder")


def _of_network(facts: Facts, desired: Desired) -> Iterator[Problem]:
    host, bind = desired.host, bind_of(desired.host)
    if facts.bind_error == "not ours":
        why = f"{bind} is no address of this host"
        yield Problem("look at the network", why, "say which of its own it listens on: provision.bind, 0.0.0.0 for all")
    elif facts.bind_error is not None:
        yield Problem("look at the network", f"nothing can listen on {bind}: {facts.bind_error}", "set provision.bind")
    if facts.port_holder is not None:
        why = f"port {host.port} is taken by {facts.port_holder}"
        yield Problem("look at the network", why, f"end that process, or give {host.name} another port")
    silent = {place: why for place, why in facts.redis.items() if why is not None}
    if silent and len(silent) == len(facts.redis):
        place, why = next(iter(silent.items()))
        hint = "open the way from there to it; or say how the host reaches it: provision.redis"
        yield Problem("reach Redis from the host", f"{place}: {why}", hint)


def _of_others(facts: Facts, desired: Desired) -> Iterator[Problem]:
    if facts.lock is not None and not is_stale(facts):
        why = f"{facts.lock.who} provisions it now, last heard of {facts.lock.age_s:.0f} s ago"
        yield Problem(
            "take the host's lock", why, f"wait until that has ended; it is taken for gone after {STALE_S:.0f} s"
        )
    node = facts.record.get("node")
    if node is not None and node != desired.host.name:
        why = f"{facts.places.folder} holds the node {node}"
        hint = f"call it {node} in the inventory; or crawlctl nodes remove --on {node} first, while it is called so"
        yield Problem("look at what is there", why, hint)


def _of_unit(facts: Facts) -> Iterator[Problem]:
    """Refuse to make the service of another node, which may run spiders, into that of this one."""
    places = facts.places
    unit = facts.files.get(places.system_unit if facts.is_root else places.user_unit)
    text = unit.text.reveal() if unit is not None and unit.text is not None else ""
    found = re.search(r"^WorkingDirectory=(.+)/node$", text, re.MULTILINE)
    if found is not None and posixpath.normpath(found[1]) != posixpath.normpath(places.folder):
        why = f"its service {UNIT} runs the node in {found[1]}, not in {places.folder}"
        hint = f"set provision.folder: {found[1]}; to move it, crawlctl nodes remove with that first"
        yield Problem("look at what is there", why, hint)


def _of_folder(facts: Facts) -> Iterator[Problem]:
    """Refuse a folder of everybody: a removal takes `cache`, `env` and others of such names out of it."""
    folder = posixpath.normpath(f"/{facts.places.folder.lstrip('/')}")
    is_systems = folder in _OF_ALL or folder.split("/")[1] in _OF_THE_SYSTEM
    if is_systems or folder == facts.places.home:
        why = f"{folder} is not a folder of the node alone"
        yield Problem(
            "look at what is there", why, f"name one below it: provision.folder: {folder.rstrip('/')}/crawlctl"
        )


def _notes(facts: Facts, desired: Desired, manager: Manager) -> Iterator[str]:
    host = desired.host
    if facts.sudo_error is not None and manager != "system":
        yield f"without sudo ({facts.sudo_error}), so the node runs as {facts.user} in {facts.places.folder}"
    if manager == "supervisor" and not facts.has_cron:
        yield "there is neither systemd nor cron: after a boot of the host, start the node: crawlctl nodes start"
    if is_stale(facts) and facts.lock is not None:
        yield f"{facts.lock.who} was cut short; its lock is taken over"
    if not bind_of(host).startswith("127.") and bind_of(host) != "::1":
        for firewall in facts.firewalls:
            command = _OPEN[firewall].format(who="OPERATOR", port=host.port)
            yield f"{firewall} is on; what reaches the node (operator, port {host.port}) must be let in: {command}"
    if abs(facts.clock_skew_s) > 1.0:
        yield f"its clock is {facts.clock_skew_s:+.1f} s off"
