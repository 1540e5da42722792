"""The files that make a node a service of its host: a unit of systemd, or lines of a crontab for the keeper. Pure."""

from __future__ import annotations

from toolkit.model.hosts import Host
from toolkit.provision.desired import Desired
from toolkit.provision.facts import Facts, Manager
from toolkit.provision.places import UNIT, Places
from toolkit.provision.service import KEEPER

MARK = f"# {UNIT}"
"""What ends each of our lines in a crontab."""

_UNIT = """\
# Written by crawlctl nodes provision; the next one writes it anew. Yours: systemctl edit {unit}
[Unit]
Description=crawlctl node {name} (Scrapyd)
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
{identity}WorkingDirectory={node}
ExecStart={launcher} -m scrapyd --pidfile=
Restart=always
RestartSec=1
TimeoutStopSec=30
{killing}
LimitNOFILE={open_files}
{limits}UMask=0027
Environment=PYTHONUNBUFFERED=1
{hardening}
[Install]
WantedBy={target}
"""
_KILLS_ALONE = "# Running spiders survive a restart: the new Scrapyd finds them again.\nKillMode=process"
_KILLS_ALL = (
    "# A stock Scrapyd knows nothing of spiders that an earlier one has left, so they end with it.\nKillMode=mixed"
)
# Nothing here keeps a spider from anything but harm: a browser in one needs namespaces and writable, executable memory.
_HARDENING = """\
NoNewPrivileges=yes
ProtectSystem=full
ProtectControlGroups=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
"""
# systemd takes the way to more rights from a service with any other of these, and dialling is done by root: sudo, pppd.
_HARDENING_OF_DIALLERS = "ProtectControlGroups=yes\n"
_LAUNCHER = """\
#!/bin/sh
# The Python of the node's present environment, by its real path: what runs keeps its packages over an upgrade.
exec "$(readlink -f {environment})/bin/python" "$@"
"""


def manager_for(host: Host, facts: Facts) -> Manager:
    """Return what keeps the node running: what the inventory says, else the best that the host has."""
    if host.provision.service != "auto":
        return host.provision.service
    if facts.has_systemd and facts.is_root:
        return "system"
    # Without lingering, a user's services end with the last login.
    stays = facts.has_user_manager and (facts.lingers or facts.can_linger)
    return "user" if stays and not facts.is_root else "supervisor"


def unit_text(desired: Desired, facts: Facts, manager: Manager) -> str:
    """Return the unit, for systemd's system manager or for that of a user."""
    is_system = manager == "system"
    memory_mb = desired.host.provision.memory_mb
    return _UNIT.format(
        unit=UNIT if is_system else f"--user {UNIT}",
        name=desired.host.name,
        identity=f"User={facts.service_user}\n" if is_system else "",
        node=facts.places.node,
        launcher=facts.places.launcher,
        killing=_KILLS_ALL if desired.is_stock else _KILLS_ALONE,
        open_files=desired.host.provision.open_files,
        limits=f"MemoryMax={memory_mb}M\n" if memory_mb else "",
        hardening=_hardening(desired.host) if is_system else "",
        target="multi-user.target" if is_system else "default.target",
    )


def _hardening(host: Host) -> str:
    return _HARDENING_OF_DIALLERS if host.node.get("redial_command") else _HARDENING


def launcher_text(places: Places) -> str:
    """Return the script that services start the node's Python by."""
    return _LAUNCHER.format(environment=places.environment)


def cron_lines(places: Places) -> tuple[str, ...]:
    """Return the lines that have the keeper started at each boot, and looked after each minute."""
    watch = f"{places.python} -m {KEEPER} watch {places.node} >/dev/null 2>&1 {MARK}"
    return (f"@reboot {watch}", f"* * * * * {watch}")
