"""The wires of one lab: a network namespace for each host, a switch in the namespace `ops`, routers that hide hosts.

No namespace has a way out of the machine. Frames are lost and delayed by `relay.py`.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from support.lab.system import LabError, attempt, is_there, run, text_of
from support.waiting import wait_until

OPS = "ops"
_NEW_NET = 0x40000000
_RELAY = Path(__file__).with_name("relay.py")
_NOBODY = "02:00:00:00:de:ad"

# A router lets through what its hosts began, and what is forwarded to their SSH servers.
_NAT = """
table ip lab {{
 chain inward {{ type nat hook prerouting priority -100; }}
 chain outward {{ type nat hook postrouting priority 100; oifname "eth0" masquerade; }}
 chain through {{
  type filter hook forward priority 0; policy accept;
  ct state established,related accept; iifname "eth0" ct status dnat accept; iifname "eth0" drop;
 }}
}}
"""


@dataclass(frozen=True, slots=True)
class Cable:
    """What joins a host to a switch: the switch's namespace, and the name of the port there."""

    host: str
    switch: str = OPS

    @property
    def port(self) -> str:
        """The device at the switch's side."""
        return f"p-{self.host}"


class Network:
    """The namespaces of one lab; `folder` keeps who delays what."""

    def __init__(self, lab: str, folder: Path) -> None:
        self._lab = lab
        self._folder = folder

    def namespace(self, name: str) -> str:
        """Return the name of a host's namespace."""
        return f"lab-{self._lab}-{name}"

    def path(self, name: str) -> Path:
        """Return the file that stands for a host's namespace."""
        return Path("/run/netns") / self.namespace(name)

    def add_switch(self, name: str, address: str) -> None:
        """Make a namespace with a bridge in it, which has that address (with a prefix length)."""
        if not self.path(name).exists():
            run("ip", "netns", "add", self.namespace(name))
        self._ip(name, "link", "add", "br0", "type", "bridge")
        self._ip(name, "address", "add", address, "dev", "br0")
        for device in ("lo", "br0"):
            self._ip(name, "link", "set", device, "up")

    def plug(self, cable: Cable, address: str) -> None:
        """Give a host its namespace, with an address (with a prefix length) on its `eth0`, joined to the switch."""
        host = cable.host
        run("ip", "netns", "add", self.namespace(host))
        peer = ("peer", "name", "eth0", "netns", self.namespace(host))
        self._ip(cable.switch, "link", "add", cable.port, "master", "br0", "up", "type", "veth", *peer)
        self._ip(host, "address", "add", address, "broadcast", "+", "dev", "eth0")
        for device in ("lo", "eth0"):
            self._ip(host, "link", "set", device, "up")

    def add_router(self, name: str, *, outside: str, inside: str) -> None:
        """Make a router that hides what is behind it: `outside` and `inside` are its addresses with prefix lengths."""
        self.plug(Cable(name), outside)
        self.add_switch(name, inside)
        with self.inside(name):
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self._in(name, "nft", "-f", "-", stdin=_NAT.format())

    def route_through(self, host: str, gateway: str) -> None:
        """Send what a host has for other networks to a gateway."""
        self._ip(host, "route", "replace", "default", "via", gateway)

    def forward(self, router: str, port: int, to: str) -> None:
        """Let a port of the router's outside lead to ADDRESS:PORT behind it."""
        words = ("tcp", "dport", str(port), "dnat", "to", to)
        self._in(router, "nft", "add", "rule", "ip", "lab", "inward", "iifname", "eth0", *words)

    def address_of(self, host: str) -> str | None:
        """Return the address that a host has now."""
        for line in self._ip(host, "-4", "-o", "address", "show", "dev", "eth0").splitlines():
            return line.split()[3].partition("/")[0]
        return None

    def switch_on(self, cable: Cable, *, is_on: bool) -> None:
        """Plug a host's cable in, or pull it; returns when both sides have noticed."""
        self._ip(cable.switch, "link", "set", cable.port, "up" if is_on else "down")
        state = "state UP" if is_on else "DOWN"

        def is_noticed() -> bool:
            sides = ((cable.switch, cable.port), (cable.host, "eth0"))
            return all(state in self._ip(place, "link", "show", "dev", device) for place, device in sides)

        wait_until(is_noticed, deadline_s=10, what=f"both sides of {cable.port} to be in {state}")

    def part(self, one: str, other: str, *, addresses: dict[str, str]) -> None:
        """Drop what two hosts send to one another, silently: each looks for the other where nobody is."""
        for here, there in ((one, other), (other, one)):
            self._ip(
                here, "neigh", "replace", addresses[there], "lladdr", _NOBODY, "nud", "permanent", "dev", _nic(here)
            )

    def join(self, one: str, other: str, *, addresses: dict[str, str]) -> None:
        """Undo `part`."""
        for here, there in ((one, other), (other, one)):
            words = ("neigh", "del", addresses[there], "dev", _nic(here))
            attempt("ip", "-n", self.namespace(here), *words)

    def is_open(self, host: str, port: int, *, seen_from: str) -> bool:
        """Tell whether a port of a host takes connections from a namespace."""
        address = self.address_of(host)
        if address is None:
            return False
        with self.inside(seen_from), suppress(OSError), socket.create_connection((address, port), timeout=1):
            return True
        return False

    def delay(self, cable: Cable, *, delay_ms: float, loss_percent: float) -> None:
        """Delay and lose frames to and from a host, each way; both 0 ends it."""
        self._end_relay(cable)
        if not (delay_ms or loss_percent):
            return
        words = (self.namespace(cable.host), self.namespace(cable.switch), cable.port, f"t-{cable.host}")
        log = self._folder / "relay.log"
        with log.open("ab") as errors:
            relay = subprocess.Popen(
                [sys.executable, "-S", str(_RELAY), *words, str(delay_ms), str(loss_percent)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert relay.stdout is not None
        with relay.stdout as told:
            is_ready = told.read(2) == b"ok"
        relay.returncode = 0  # Other processes may end it: nobody here waits for it.
        if not is_ready:
            raise LabError(f"frames cannot be delayed: {text_of(log)[-500:]}")
        self._relay(cable).write_text(str(relay.pid))

    def unplug(self, cable: Cable) -> None:
        """Remove a host's namespace and its cable."""
        self._end_relay(cable)
        attempt("ip", "netns", "del", self.namespace(cable.host))

    def remove(self) -> None:
        """Remove every namespace of the lab."""
        for path in Path("/run/netns").glob(self.namespace("*")):
            attempt("ip", "netns", "del", path.name)

    @contextmanager
    def inside(self, name: str = OPS) -> Iterator[None]:
        """Be in a namespace with this thread, and with the processes that it starts meanwhile."""
        with Path("/proc/thread-self/ns/net").open() as home, self.path(name).open() as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(home.fileno())

    def _relay(self, cable: Cable) -> Path:
        return self._folder / f"{cable.host}.relay"

    def _end_relay(self, cable: Cable) -> None:
        record = self._relay(cable)
        pid = int(text_of(record) or 0)
        if pid and str(_RELAY) in text_of(Path(f"/proc/{pid}/cmdline")):
            os.kill(pid, 15)
            while is_there(pid):
                os.sched_yield()
        if record.exists():
            record.unlink()
            attempt("ip", "-n", self.namespace(cable.switch), "link", "set", cable.port, "master", "br0")

    def _ip(self, name: str, *words: str) -> str:
        return run("ip", "-n", self.namespace(name), *words)

    def _in(self, name: str, *words: str, stdin: str = "") -> str:
        return run("nsenter", f"--net={self.path(name)}", *words, stdin=stdin)


def _nic(name: str) -> str:
    return "br0" if name == OPS else "eth0"


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _NEW_NET):
        raise LabError(f"a network namespace cannot be entered: {os.strerror(ctypes.get_errno())}")
