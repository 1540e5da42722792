"""Users, sessions and tokens: what is kept of them, how long they last, and what ends them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from support.web_server import Clock

from toolkit.model.accounts import Role
from toolkit.model.errors import ConflictError, NotFoundError, RefusedError, UsageError
from toolkit.web.accounts import Accounts
from toolkit.web.accounts_file import accounts_file
from toolkit.web.passwords import Passwords
from toolkit.web.sessions import (
    ABSOLUTE_S,
    DEVICE_S,
    IDLE_S,
    MAX_SESSIONS,
    Sessions,
    SignedIn,
    form_token_of,
)

PASSWORD = "seven green lamps"
QUICK = PasswordHasher(1, 8, 1)


class Book:
    """Accounts and sessions on one file, with a clock."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.file = accounts_file(folder)
        self.accounts = Accounts(self.file, passwords=Passwords(QUICK), clock=self.clock)
        self.sessions = Sessions(self.file, clock=self.clock)

    def everything(self) -> str:
        """Return all that the file holds."""
        with sqlite3.connect(self.file.path) as connection:
            text = "\n".join(connection.iterdump())
        connection.close()
        return text


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    book = Book(tmp_path)
    book.accounts.add("ada", Role.ADMINISTER, PASSWORD)
    book.accounts.add("olga", Role.OPERATE, PASSWORD)
    yield book
    book.file.close()


def test_the_file_is_its_owner_s_and_holds_no_secret(book: Book) -> None:
    secret = book.sessions.begin("ada", address="10.0.0.1")
    device = book.sessions.remember_device("ada")
    token, text = book.sessions.make_token("ada", Role.LOOK, label="prometheus")
    kept = book.everything()
    assert book.file.path.stat().st_mode & 0o777 == 0o600
    assert not [each for each in (PASSWORD, secret, device, text) if each in kept]
    assert "argon2id" in kept
    assert token.id in kept


def test_a_password_is_compared_and_an_unknown_user_has_none(book: Book) -> None:
    assert book.accounts.is_right("ada", PASSWORD)
    assert not book.accounts.is_right("ada", PASSWORD + "x")
    assert not book.accounts.is_right("nobody", PASSWORD)
    assert not book.accounts.is_right("nobody", "nobody has this password")
    assert not book.accounts.is_right("ada", "")


def test_accents_count_the_same_however_a_keyboard_sends_them(book: Book) -> None:
    book.accounts.set_password("ada", "\u00e9clair au lait")
    assert book.accounts.is_right("ada", "e\u0301clair au lait")


def test_a_password_hashed_with_less_care_is_hashed_anew_at_sign_in(book: Book) -> None:
    careful = Accounts(book.file, passwords=Passwords(PasswordHasher(2, 16, 1)), clock=book.clock)
    before = book.everything()
    assert careful.is_right("ada", PASSWORD)
    assert "m=16,t=2" in book.everything()
    assert "m=16,t=2" not in before
    assert careful.is_right("ada", PASSWORD)


@pytest.mark.parametrize("password", ["", "short", "aaaaaaaaaaaa", "x" * 501, "a tab\tin the midst", "olga-olga"])
def test_a_password_that_is_easy_or_odd_is_refused(book: Book, password: str) -> None:
    with pytest.raises(UsageError):
        book.accounts.set_password("olga", password)
    assert book.accounts.is_right("olga", PASSWORD)


@pytest.mark.parametrize("name", ["", "Ann", "a b", "-ann", "a" * 65, "ann\n", "../ann", "änn", "ann@web"])
def test_a_name_that_would_look_odd_in_the_audit_is_refused(book: Book, name: str) -> None:
    with pytest.raises(UsageError):
        book.accounts.add(name, Role.LOOK, PASSWORD)


def test_a_user_is_added_once_and_the_first_only_as_the_first(book: Book) -> None:
    with pytest.raises(ConflictError):
        book.accounts.add("ada", Role.LOOK, PASSWORD)
    with pytest.raises(ConflictError, match="already"):
        book.accounts.add("eve", Role.ADMINISTER, PASSWORD, must_be_first=True)


def test_somebody_can_always_administer(book: Book) -> None:
    with pytest.raises(RefusedError):
        book.accounts.set_role("ada", Role.LOOK)
    with pytest.raises(RefusedError):
        book.accounts.remove("ada")
    book.accounts.set_role("olga", Role.ADMINISTER)
    book.accounts.remove("ada")
    book.accounts.remove("olga")
    assert book.accounts.users() == []


def test_a_session_ends_when_it_is_idle_and_at_last_in_any_case(book: Book) -> None:
    idle, busy = (book.sessions.begin("ada", address="") for _ in range(2))
    began = book.clock.at
    while book.clock.at + IDLE_S / 2 < began + ABSOLUTE_S:
        book.clock.at += IDLE_S / 2
        assert book.sessions.find(busy) == SignedIn("ada", Role.ADMINISTER)
    assert book.sessions.find(idle) is None
    book.clock.at = began + ABSOLUTE_S
    assert book.sessions.find(busy) is None


def test_a_look_that_is_no_use_keeps_no_session_alive(book: Book) -> None:
    secret = book.sessions.begin("ada", address="")
    book.clock.at += IDLE_S - 1
    assert book.sessions.find(secret, is_use=False)
    book.clock.at += 2
    assert book.sessions.find(secret) is None


@pytest.mark.parametrize("secret", ["", "x", "0" * 43, "x" * 100_000, "\x00", "' OR 1=1 --"])
def test_what_is_no_session_finds_nobody(book: Book, secret: str) -> None:
    book.sessions.begin("ada", address="")
    assert book.sessions.find(secret) is None
    assert book.sessions.find_token(secret) is None
    assert not book.sessions.is_device_of("ada", secret)


def test_another_password_or_role_and_removal_end_the_user_s_sessions_only(book: Book) -> None:
    for change in (
        lambda: book.accounts.set_password("olga", PASSWORD + " more"),
        lambda: book.accounts.set_role("olga", Role.LOOK),
        lambda: book.accounts.remove("olga"),
    ):
        ours, other = book.sessions.begin("olga", address=""), book.sessions.begin("ada", address="")
        change()
        assert book.sessions.find(ours) is None
        assert book.sessions.find(other) is not None


def test_signing_out_ends_one_session_and_elsewhere_all_others(book: Book) -> None:
    one, two, three = (book.sessions.begin("ada", address="") for _ in range(3))
    book.sessions.end(one)
    assert book.sessions.end_others("ada", but=two) == 1
    assert [book.sessions.find(each) is None for each in (one, two, three)] == [True, False, True]


def test_a_user_has_so_many_sessions_at_most(book: Book) -> None:
    first = book.sessions.begin("ada", address="")
    for _ in range(MAX_SESSIONS):
        book.clock.at += 1
        last = book.sessions.begin("ada", address="")
    assert book.sessions.find(first) is None
    assert book.sessions.find(last) is not None


def test_a_browser_is_known_for_half_a_year_and_for_its_user_alone(book: Book) -> None:
    device = book.sessions.remember_device("ada")
    assert book.sessions.is_device_of("ada", device)
    assert not book.sessions.is_device_of("olga", device)
    book.clock.at += DEVICE_S
    assert not book.sessions.is_device_of("ada", device)


def test_a_token_allows_no_more_than_its_role_and_its_user_s_present_one(book: Book) -> None:
    with pytest.raises(UsageError):
        book.sessions.make_token("olga", Role.ADMINISTER, label="too much")
    _, text = book.sessions.make_token("olga", Role.OPERATE, label="nightly")
    _, small = book.sessions.make_token("ada", Role.LOOK, label="prometheus")
    assert book.sessions.find_token(text) == SignedIn("olga", Role.OPERATE)
    assert book.sessions.find_token(small) == SignedIn("ada", Role.LOOK)
    book.accounts.set_role("olga", Role.LOOK)
    assert book.sessions.find_token(text) == SignedIn("olga", Role.LOOK)
    book.accounts.remove("olga")
    assert book.sessions.find_token(text) is None


def test_a_token_ends_in_its_time_and_when_it_is_revoked(book: Book) -> None:
    _, short = book.sessions.make_token("ada", Role.LOOK, label="an hour", ttl_s=3600)
    book.clock.at += 1
    token, text = book.sessions.make_token("ada", Role.LOOK, label="for good")
    book.clock.at += 3599
    assert book.sessions.find_token(short) is None
    assert book.sessions.find_token(text) is not None
    assert [each.used_at is None for each in book.sessions.tokens("ada")] == [True, False]
    with pytest.raises(NotFoundError):
        book.sessions.revoke(token.id, user="olga")
    book.sessions.revoke(token.id)
    assert book.sessions.find_token(text) is None


@pytest.mark.parametrize("label", ["", "  ", "x" * 101, "two\nlines"])
def test_a_token_s_name_can_be_shown(book: Book, label: str) -> None:
    with pytest.raises(UsageError):
        book.sessions.make_token("ada", Role.LOOK, label=label)


def test_the_forms_proof_differs_from_session_to_session_and_tells_nothing_of_it() -> None:
    assert form_token_of("one") != form_token_of("two")
    assert "one" not in form_token_of("one")
