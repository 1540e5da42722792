"""How often a sign-in may fail, decided by a clock that the test sets."""

from __future__ import annotations

import itertools

import pytest
from support.web_server import Clock

from toolkit.web.limits import ACCOUNT, ADDRESS, PAIR, SignInLimits, Window, keys_of, network_of


class Door:
    """A sign-in where every try fails, unless its user is let in."""

    def __init__(self, *, max_keys: int = 1000) -> None:
        self.clock = Clock(1000.0)
        self.limits = SignInLimits(clock=self.clock, max_keys=max_keys)

    def fail(self, account: str = "ada", address: str = "10.0.0.1", device: str | None = None) -> float:
        """Try in vain; return how long to wait instead of trying, if it is not let try."""
        return self.limits.try_(keys_of(account, address, device=device))

    def sign_in(self, account: str = "ada", address: str = "10.0.0.1", device: str | None = None) -> bool:
        """Try with the right password, and say whether that was tried at all."""
        keys = keys_of(account, address, device=device)
        if self.limits.try_(keys) > 0:
            return False
        self.limits.forgive(keys)
        return True


def test_the_waiting_doubles_with_each_failure_and_has_a_bound() -> None:
    door, waits = Door(), []
    for _ in range(20):
        while (wait := door.fail()) > 0:
            waits.append(wait)
            door.clock.at += wait
    assert waits[:5] == [1, 2, 4, 8, 16]
    assert max(waits) == PAIR.most_s


def test_a_few_failures_cost_nothing_and_a_right_password_forgets_them() -> None:
    door = Door()
    assert [door.fail() for _ in range(PAIR.free - 1)] == [0] * (PAIR.free - 1)
    assert door.sign_in()
    assert [door.fail() for _ in range(PAIR.free)] == [0] * PAIR.free
    assert not door.sign_in()


def test_many_accounts_from_one_address_are_bounded_too() -> None:
    door = Door()
    tried = [door.fail(f"user{i}") for i in range(ADDRESS.free)]
    assert tried == [0] * ADDRESS.free
    assert door.fail("another") > 0
    assert door.fail("another", "10.0.0.2") == 0


def test_many_addresses_against_one_account_leave_its_user_a_way_in() -> None:
    door, addresses = Door(), (f"10.1.{a}.{b}" for a, b in itertools.product(range(256), repeat=2))
    for address in itertools.islice(addresses, ACCOUNT.free + 10):
        door.fail("ada", address)
    assert door.fail("ada", "192.0.2.1") > 0, "strangers wait"
    assert door.sign_in("ada", "192.0.2.7", device="a browser that ada knows"), "and ada does not"
    door.clock.at += ACCOUNT.most_s
    assert door.sign_in("ada", "192.0.2.8"), "from a new browser ada waits half a minute at most"


def test_a_known_browser_is_bounded_by_itself() -> None:
    door = Door()
    waits = [door.fail(device="stolen") for _ in range(30)]
    assert max(waits) > 0
    assert door.fail(device="another") == 0


def test_the_memory_is_bounded_and_time_forgets() -> None:
    door = Door(max_keys=30)
    for i in range(500):
        door.fail(f"user{i}", f"10.0.{i // 256}.{i % 256}")
    assert len(door.limits) == 30
    for _ in range(PAIR.free):
        door.fail("ada", "192.0.2.1")
    assert door.fail("ada", "192.0.2.1") > 0
    door.clock.at += PAIR.forget_s + 1
    assert door.fail("ada", "192.0.2.1") == 0


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::"),
        ("2001:db8::ffff:1", "2001:db8::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_an_address_counts_for_what_one_attacker_holds(address: str, network: str) -> None:
    assert network_of(address) == network


def test_a_crowd_of_failures_does_not_push_all_else_out_of_the_audit() -> None:
    clock = Clock(6000.0)
    window = Window(clock=clock, most=3)
    assert [window.admits() for _ in range(5)] == [True] * 3 + [False] * 2
    clock.at += 60
    assert window.admits()
