"""The lab by hand, as root, with `tests` on Python's path: `python -m support.lab up 4`; `--help` lists the rest."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from support.lab.base import why_not
from support.lab.lab import Lab, remove_abandoned
from support.lab.operating import LabOperator
from support.lab.system import LAB_DIR, LabError
from support.lab.wishes import HostWish, several

_BY_HAND = "by-hand"


def _up(given: argparse.Namespace) -> None:
    lab = Lab(given.lab, (*several(given.hosts), HostWish("redis", redis=True)), is_kept=True)
    lab.up()
    operator = LabOperator(lab, lab.folder / "operator")
    key = str(operator.folder / "home/.ssh/id_ed25519")
    known = str(operator.folder / "home/.ssh/known_hosts")
    (operator.folder / "ssh_config").write_text(f"Host *\n  IdentityFile {key}\n  UserKnownHostsFile {known}\n")
    operator.has_inventory(everywhere={"ssh.config": str(operator.folder / "ssh_config"), "ssh.key": key})
    program = Path(sys.executable).with_name("crawlctl")
    inside = f"nsenter --net=/run/netns/lab-{lab.name}-ops"
    _say(f"{given.hosts} bare hosts and a Redis are up. Their network is reached from the place `ops`:")
    _say(f"  cd {operator.folder}")
    _say(f"  {inside} bash                # a shell there; files are this machine's")
    _say(f"  {program} nodes wheelhouse wheels        # outside: the lab has no way to a package index")
    _say(f"  {inside} {program} nodes provision --wheelhouse wheels --dry-run")
    _say(f"  {inside} ssh -F ssh_config {lab.user}@{lab.address(lab.hosts[0])}")
    _say("`make lab-down` removes them.")


def _down(given: argparse.Namespace) -> None:
    remove_abandoned()
    Lab(given.lab).down()
    if given.purge:
        if any((LAB_DIR / "labs").glob("*")):
            raise LabError("other labs are up: the base stays")
        shutil.rmtree(LAB_DIR, ignore_errors=True)


def _status(given: argparse.Namespace) -> None:
    lab = Lab.attach(given.lab)
    hosts = {
        name: {"address": lab.address(name), "ssh": lab.ssh_place(name), "is_up": lab.host(name).leader is not None}
        for name in lab.hosts
    }
    told = {"hosts": hosts, "user": lab.user, "key": str(lab.key), "operator": str(lab.folder / "operator")}
    _say(json.dumps(told, indent=2))


def _exec(given: argparse.Namespace) -> None:
    lab = Lab.attach(given.lab)
    if given.host == "ops":
        place = f"--net=/run/netns/lab-{lab.name}-ops"
        os.execvp("nsenter", ["nsenter", place, *given.words])  # noqa: S606 - no shell is wanted
    command = lab.host(given.host).command(given.words)
    os.execvp(command[0], command)  # noqa: S606 - likewise


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m support.lab", description="Real hosts on this machine.")
    parser.add_argument("--lab", default=_BY_HAND, help=f"which lab; {_BY_HAND} unless given")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    up = verbs.add_parser("up", help="bring bare hosts h1, h2, … and a Redis up, and say how to reach them")
    up.add_argument("hosts", type=int, nargs="?", default=4)
    up.set_defaults(do=_up)
    down = verbs.add_parser("down", help="remove the lab")
    down.add_argument("--purge", action="store_true", help="the cached base as well")
    down.set_defaults(do=_down)
    verbs.add_parser("status", help="the hosts as JSON").set_defaults(do=_status)
    execute = verbs.add_parser("exec", help="run a command on a host as root, or in `ops`, this machine's place there")
    execute.add_argument("host")
    execute.add_argument("words", nargs=argparse.REMAINDER)
    execute.set_defaults(do=_exec)
    for name, text in (("cut", "pull a host's cable"), ("heal", "undo `cut`")):
        cable = verbs.add_parser(name, help=text)
        cable.add_argument("host")
        cable.add_argument("peer", nargs="?", help="drop just what these two send to one another")
        cable.set_defaults(do=lambda given, name=name: getattr(Lab.attach(given.lab), name)(given.host, given.peer))
    delay = verbs.add_parser("delay", help="delay and lose what a host sends and gets; 0 ends it")
    delay.add_argument("host")
    delay.add_argument("delay_ms", type=float)
    delay.add_argument("loss_percent", type=float, nargs="?", default=0.0)
    delay.set_defaults(
        do=lambda given: Lab.attach(given.lab).delay(
            given.host, delay_ms=given.delay_ms, loss_percent=given.loss_percent
        )
    )
    for name, text in (("crash", "cut a host's power"), ("boot", "give it back"), ("redial", "change its address")):
        power = verbs.add_parser(name, help=text)
        power.add_argument("host")
        power.set_defaults(do=lambda given, name=name: getattr(Lab.attach(given.lab), name)(given.host))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the words say."""
    given = _parser().parse_args(arguments)
    if reason := why_not():
        sys.stderr.write(f"{reason}\n")
        return 1
    try:
        given.do(given)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
