"""How often a sign-in may fail: the waiting grows with each failure, and nobody can lock another out for ever.

Failures are counted for an account at an address, for an address, and for an account wherever they come from; but
whoever shows a browser from which the account's user has signed in before is counted by that browser alone. Pure but
for its memory, which is bounded.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_KEYS = 20_000
NOTED_A_MINUTE = 30
"""Of failed sign-ins no more are noted in a minute: else a crowd of them would push all else out of the audit."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """So many failures are free; then each doubles the waiting up to the most; all is forgotten after `forget_s`."""

    free: int
    first_s: float
    most_s: float
    forget_s: float = 3600.0

    def wait_s(self, failures: int) -> float:
        """Return how long nothing is tried after so many failures."""
        over = failures - self.free
        return 0.0 if over < 0 else min(self.most_s, self.first_s * 2 ** min(over, 30))


PAIR = Allowance(free=5, first_s=1.0, most_s=900.0)
DEVICE = Allowance(free=10, first_s=1.0, most_s=60.0)
ADDRESS = Allowance(free=30, first_s=1.0, most_s=300.0)
ACCOUNT = Allowance(free=50, first_s=1.0, most_s=30.0)

Key = tuple[str, ...]


@dataclass(slots=True)
class _Failures:
    count: int
    last: float


class SignInLimits:
    """Counts failures. Any thread may call. `clock` returns seconds that only rise."""

    def __init__(self, *, clock: Callable[[], float], max_keys: int = MAX_KEYS) -> None:
        self._clock = clock
        self._max_keys = max_keys
        self._lock = threading.Lock()
        self._failures: OrderedDict[Key, _Failures] = OrderedDict()

    def try_(self, keys: Sequence[tuple[Key, Allowance]]) -> float:
        """Return 0 and count a failure ahead, or how many seconds to wait, and count nothing.

        Counted ahead, since many may try at once; `forgive` takes it back when the password was right.
        """
        with self._lock:
            now = self._clock()
            wait = max((self._left(key, allowance, now) for key, allowance in keys), default=0.0)
            if wait <= 0:
                for key, _ in keys:
                    self._count(key, now)
            return max(0.0, wait)

    def forgive(self, keys: Sequence[tuple[Key, Allowance]]) -> None:
        """Forget the failures of who has signed in; those of an address, or of an account elsewhere, lose only one."""
        with self._lock:
            for key, allowance in keys:
                found = self._failures.get(key)
                if found is None:
                    continue
                found.count -= 1
                if allowance in {PAIR, DEVICE} or found.count <= 0:
                    del self._failures[key]

    def __len__(self) -> int:
        return len(self._failures)

    def _left(self, key: Key, allowance: Allowance, now: float) -> float:
        found = self._failures.get(key)
        if found is None:
            return 0.0
        if now - found.last > allowance.forget_s:
            del self._failures[key]
            return 0.0
        return found.last + allowance.wait_s(found.count) - now

    def _count(self, key: Key, now: float) -> None:
        found = self._failures.setdefault(key, _Failures(0, now))
        found.count, found.last = found.count + 1, now
        self._failures.move_to_end(key)
        while len(self._failures) > self._max_keys:
            self._failures.popitem(last=False)


class Window:
    """Admits so many of something in each minute. Any thread may ask. `clock` returns seconds that only rise."""

    def __init__(self, *, clock: Callable[[], float], most: int = NOTED_A_MINUTE) -> None:
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._minute = 0
        self._count = 0

    def admits(self) -> bool:
        """Count one more, and say whether there was room for it."""
        with self._lock:
            minute = int(self._clock() // 60)
            if minute != self._minute:
                self._minute, self._count = minute, 0
            self._count += 1
            return self._count <= self._most


def keys_of(account: str, address: str, *, device: str | None) -> list[tuple[Key, Allowance]]:
    """Return what a try counts for; `device` names a browser from which the account's user has signed in before."""
    if device is not None:
        return [(("device", device), DEVICE)]
    network = network_of(address)
    return [
        (("pair", account, network), PAIR),
        (("address", network), ADDRESS),
        (("account", account), ACCOUNT),
    ]


def network_of(address: str) -> str:
    """Return what one attacker surely holds: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv6Address):
        if known.ipv4_mapped is not None:
            return str(known.ipv4_mapped)
        return str(ipaddress.ip_network((known, 64), strict=False).network_address)
    return str(known)
