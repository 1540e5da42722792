"""Real hosts for tests, on one Linux machine: `with Lab("waves", several(4)) as lab: lab.execute("h1", "uptime")`.

Each host is a Debian container with its own network namespace, address, disk, systemd, SSH server and host key. Labs
with different names do not know of one another, so that test processes can have one each. A lab whose process was
killed is removed by the next one that comes up.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from support.lab.base import USER, ensure_base, locked
from support.lab.containers import Container
from support.lab.network import OPS, Cable, Network
from support.lab.system import LAB_DIR, LabError, run, started_at, text_of
from support.lab.wishes import HostWish, read, written
from support.waiting import wait_until

UP_WITHIN_S = 60.0
REDIS_PORT = 6379
_SUBNET = "10.77"
_FIRST_HOST, _REDIS, _FIRST_ROUTER = 11, 10, 2
_FIRST_FORWARD = 2200
_AT_ONCE = 4
_INOTIFY_INSTANCES = 8192


class Lab:
    """Hosts on a network of their own, and the operator's place in it, `ops`.

    `subnet` is the first half of their addresses: hosts are at 10.77.0.11 and on, Redis at 10.77.0.10, the operator at
    10.77.0.1. What is `kept` outlives this process; everything else is removed at the end of the context.
    """

    def __init__(
        self, name: str, hosts: Iterable[HostWish] = (), *, subnet: str = _SUBNET, is_kept: bool = False
    ) -> None:
        self.name = name
        self.folder = LAB_DIR / "labs" / name
        self.subnet = subnet
        self._wanted = tuple(hosts)
        self._is_kept = is_kept
        self._containers: dict[str, Container] = {}
        self._network = Network(name, self.folder)

    @classmethod
    def attach(cls, name: str) -> Self:
        """Return a lab that is up, whoever brought it up.

        Raises:
            LabError: there is none of that name.

        """
        lab = cls(name, is_kept=True)
        if not (lab.folder / "hosts.json").exists():
            raise LabError(f"there is no lab {name!r}")
        lab.subnet = text_of(lab.folder / "subnet")
        lab._containers = {wish.name: lab._container(wish) for wish in read(text_of(lab.folder / "hosts.json"))}
        return lab

    def __enter__(self) -> Self:
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._is_kept:
            self.down()

    @property
    def user(self) -> str:
        """The user of every host that the operator may log in as, with `key`."""
        return USER

    @property
    def key(self) -> Path:
        """The operator's private key."""
        return self.folder / "id_ed25519"

    @property
    def redis_password(self) -> str:
        """The password of the lab's Redis."""
        return text_of(self.folder / "redis.password")

    @property
    def redis_url(self) -> str:
        """The lab's Redis, for all hosts and the operator, with its password."""
        return f"redis://:{self.redis_password}@{self.subnet}.0.{_REDIS}:{REDIS_PORT}/0"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of all hosts, Redis' own left out."""
        return tuple(name for name, container in self._containers.items() if not container.wish.redis)

    def up(self) -> None:
        """Make the lab and boot its hosts; returns when all of them answer."""
        os.umask(0o022)  # What we write is on hosts' disks, for all users of theirs.
        base = ensure_base()
        remove_abandoned()
        if self.folder.exists():
            raise LabError(f"the lab {self.name!r} is up already: `python -m support.lab down {self.name}` removes it")
        self.folder.mkdir(parents=True)
        (self.folder / "subnet").write_text(self.subnet)
        (self.folder / "owner").write_text("" if self._is_kept else f"{os.getpid()} {started_at(os.getpid())}")
        (self.folder / "base").write_text(str(base))
        (self.folder / "redis.password").write_text(secrets.token_urlsafe(16))
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "operator", "-f", self.key)
        self._network.add_switch(OPS, f"{self.subnet}.0.1/16")
        self.add(*self._wanted)

    def add(self, *wishes: HostWish) -> None:
        """Bring further hosts up, and return when they answer."""
        _allow_many_systemds()
        self._containers |= {wish.name: self._container(wish) for wish in wishes}
        (self.folder / "hosts.json").write_text(written(each.wish for each in self._containers.values()))
        for wish in wishes:
            self._connect(wish)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(self._first_boot, wishes))
        self._name_one_another()
        for wish in wishes:
            self.wait_for(wish.name, within_s=UP_WITHIN_S + len(wishes))

    def down(self) -> None:
        """Remove the lab: processes, mounts, namespaces, folders."""
        wishes = read(text_of(self.folder / "hosts.json"))
        containers = {wish.name: self._container(wish) for wish in wishes} | self._containers
        for container in containers.values():
            self._network.unplug(self._cable(container.wish))
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(Container.remove, containers.values()))
        self._network.remove()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._containers = {}

    def host(self, name: str) -> Container:
        """Return a host's container.

        Raises:
            LabError: there is no such host.

        """
        try:
            return self._containers[name]
        except KeyError:
            raise LabError(f"the lab {self.name!r} has no host {name!r}") from None

    def address(self, name: str) -> str:
        """Return the address that a host has now; behind a router, nobody outside reaches it."""
        if name == OPS:
            return f"{self.subnet}.0.1"
        address = self._network.address_of(self.host(name).wish.name)
        if address is None:
            raise LabError(f"{name} has no address")
        return address

    def ssh_place(self, name: str) -> tuple[str, int]:
        """Return address and port at which the operator reaches a host's SSH server."""
        wish = self.host(name).wish
        if wish.behind is None:
            return self.address(name), 22
        return f"{self.subnet}.0.{self._router_number(wish.behind)}", _FIRST_FORWARD + self._number(name)

    def known_hosts(self) -> str:
        """Return the operator's known_hosts, with the keys that the hosts have now."""
        lines = []
        for name, container in self._containers.items():
            address, port = self.ssh_place(name)
            place = address if port == 22 else f"[{address}]:{port}"
            lines.append(f"{place},{name} {container.host_key}\n")
        return "".join(lines)

    def execute(self, name: str, *words: str, check: bool = True, stdin: str = "") -> str:
        """Run a command on a host as root and return what it printed; `check` wants it to end well.

        Raises:
            LabError: the host is off, or the command ended badly.

        """
        command = self.host(name).command(words)
        if check:
            return run(*command, stdin=stdin)
        done = subprocess.run(command, input=stdin, text=True, capture_output=True, check=False)
        return done.stdout + done.stderr

    def background(self, name: str, *words: str) -> subprocess.Popen[str]:
        """Start a command on a host as root, and return it; what it prints can be read from its `stdout`."""
        return subprocess.Popen(
            self.host(name).command(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    @contextmanager
    def inside(self, name: str = OPS) -> Iterator[None]:
        """Be on the lab's network with this thread and all threads and processes that it starts: by default as `ops`.

        Only the network differs: the file system is this machine's.
        """
        with self._network.inside(name):
            yield

    def cut(self, name: str, peer: str | None = None) -> None:
        """Pull a host's cable; with a peer, drop silently what just these two send to one another."""
        if peer is None:
            self._network.switch_on(self._cable(self.host(name).wish), is_on=False)
        else:
            self._network.part(name, peer, addresses={name: self.address(name), peer: self.address(peer)})

    def heal(self, name: str, peer: str | None = None) -> None:
        """Undo `cut`."""
        if peer is None:
            self._network.switch_on(self._cable(self.host(name).wish), is_on=True)
        else:
            self._network.join(name, peer, addresses={name: self.address(name), peer: self.address(peer)})

    def delay(self, name: str, *, delay_ms: float = 0.0, loss_percent: float = 0.0) -> None:
        """Delay and lose what a host sends and gets, each way; nothing of both ends it."""
        self._network.delay(self._cable(self.host(name).wish), delay_ms=delay_ms, loss_percent=loss_percent)

    def redial(self, name: str) -> str:
        """Give a dial-up host another address from outside, and return it."""
        return self.execute(name, "/usr/local/sbin/redial").strip()

    def crash(self, name: str) -> None:
        """Cut a host's power; it is silent from then on."""
        self.cut(name)
        self.host(name).crash()

    def boot(self, name: str) -> None:
        """Give a host its power back, and return when it answers."""
        self.heal(name)
        self.host(name).boot(self._network.path(name))
        self.wait_for(name)

    def wait_for(self, name: str, *, within_s: float = UP_WITHIN_S) -> None:
        """Return when a host answers: its SSH server, and its Redis where it has one."""
        container = self.host(name)
        ports = (22, REDIS_PORT) if container.wish.redis else (22,)
        seen_from = container.wish.behind or OPS

        def answers() -> bool:
            return all(self._network.is_open(name, port, seen_from=seen_from) for port in ports)

        try:
            wait_until(answers, deadline_s=within_s, pause_s=0.1, what=f"{name} to answer at {ports}")
        except AssertionError as error:
            said = text_of(container.folder / "console.log")[-1000:]
            raise LabError(f"{error}; its console:\n{said}") from error

    def is_open(self, name: str, port: int, *, seen_from: str = OPS) -> bool:
        """Tell whether a port of a host takes connections, as seen from another host."""
        return self._network.is_open(name, port, seen_from=seen_from)

    def cpu_s(self) -> float:
        """Return how many seconds of processors all hosts have used so far."""
        return sum(container.cpu_s() for container in self._containers.values())

    def _container(self, wish: HostWish) -> Container:
        return Container(wish, lab=self.name, folder=self.folder / "hosts" / wish.name)

    def _cable(self, wish: HostWish) -> Cable:
        return Cable(wish.name, wish.behind or OPS)

    def _first_boot(self, wish: HostWish) -> None:
        container = self._containers[wish.name]
        base = Path(text_of(self.folder / "base"))
        authorized = text_of(self.key.with_suffix(".pub"))
        container.furnish(base, authorized=authorized, redis_password=self.redis_password)
        container.boot(self._network.path(wish.name))

    def _connect(self, wish: HostWish) -> None:
        number = _REDIS - _FIRST_HOST if wish.redis else self._number(wish.name)
        if wish.behind is None:
            address = f"{self.subnet}.0.{_FIRST_HOST + number}/16"
            self._network.plug(self._cable(wish), address)
            return
        router = self._router_number(wish.behind)
        inner = f"192.168.{router}"
        if not self._network.path(wish.behind).exists():
            outside, inside = f"{self.subnet}.0.{router}/16", f"{inner}.1/24"
            self._network.add_router(wish.behind, outside=outside, inside=inside)
        self._network.plug(self._cable(wish), f"{inner}.{_FIRST_HOST + number}/24")
        self._network.route_through(wish.name, f"{inner}.1")
        self._network.forward(wish.behind, _FIRST_FORWARD + number, f"{inner}.{_FIRST_HOST + number}:22")

    def _name_one_another(self) -> None:
        """Let every host know the names of all; one behind a router is known by name only to itself."""
        open_hosts = [name for name, each in self._containers.items() if each.wish.behind is None]
        lines = [f"{self.address(name)} {name}\n" for name in open_hosts]
        for name, container in self._containers.items():
            (container.root / "etc/hosts").write_text("".join((f"127.0.0.1 localhost {name}\n", *lines)))

    def _number(self, name: str) -> int:
        return self.hosts.index(name)

    def _router_number(self, name: str) -> int:
        routers = dict.fromkeys(each.wish.behind for each in self._containers.values() if each.wish.behind)
        return _FIRST_ROUTER + list(routers).index(name)


BringUp = Callable[..., Lab]
"""Brings up a lab with these hosts."""


def _allow_many_systemds() -> None:
    """Raise a limit of this machine, for as long as it is up: each systemd watches some files, and all are root's."""
    limit = Path("/proc/sys/fs/inotify/max_user_instances")
    if int(text_of(limit) or _INOTIFY_INSTANCES) < _INOTIFY_INSTANCES:
        limit.write_text(str(_INOTIFY_INSTANCES))


def remove_abandoned() -> Sequence[str]:
    """Remove the labs whose processes are gone without having done it, and return their names."""
    with locked("labs"):
        folders = [path for path in (LAB_DIR / "labs").glob("*") if _is_abandoned(path)]
        for folder in folders:
            Lab(folder.name).down()
    return [folder.name for folder in folders]


def _is_abandoned(folder: Path) -> bool:
    pid, _, since = text_of(folder / "owner").partition(" ")
    return bool(pid) and started_at(int(pid)) != since
