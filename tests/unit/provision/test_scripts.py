"""What is run on hosts, and what sudo's refusals mean."""

from __future__ import annotations

import shlex

import pytest

from toolkit.provision.executing import words_for
from toolkit.provision.scripts import Becoming, become, line
from toolkit.provision.sudo import refusal


def test_a_line_is_taken_apart_into_its_words_again() -> None:
    words = ["echo", "it's", "$HOME", "a b", ""]
    assert shlex.split(line(words)) == ["env", "LC_MESSAGES=C", "LANGUAGE=C", *words]


def test_root_needs_no_sudo_and_others_never_show_a_password() -> None:
    assert become(["id"], Becoming(is_root=True)) == ["id"]
    assert become(["id"], Becoming()) == ["sudo", "-n", "--", "id"]
    assert become(["id"], Becoming(asks_password=True))[:6] == ["sudo", "-k", "-S", "-p", "", "--"]
    assert become(["id"], Becoming(), user="crawl")[:5] == ["sudo", "-n", "-H", "-u", "crawl"]
    assert "sudo" not in become(["id"], Becoming(is_root=True), user="crawl")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("sudo: a password is required", "sudo wants a password of ann"),
        ("sudo: a terminal is required to read the password", "sudo wants a password of ann"),
        ("Sorry, try again.\nsudo: no password was provided", "sudo does not take the password of ann"),
        ("sudo: 3 incorrect password attempts", "sudo does not take the password of ann"),
        ("ann is not in the sudoers file.", "ann may not use sudo"),
        ("Sorry, user ann may not run sudo on h1.", "ann may not use sudo"),
        ("env: 'sudo': No such file or directory", "there is no sudo, and ann is not root"),
        ("env: \u2018sudo\u2019: No such file or directory", "there is no sudo, and ann is not root"),
        ("env: can't execute 'sudo': No such file or directory", "there is no sudo, and ann is not root"),
        ("sudo: sorry, you must have a tty to run sudo", "sudo there wants a terminal (requiretty)"),
        ('sudo: The "no new privileges" flag is set', "sudo cannot become root there"),
    ],
)
def test_sudo_s_refusal_is_told_in_plain_words(said: str, why: str) -> None:
    error = refusal("node-1", "write /etc/x", said, user="ann")
    assert error is not None
    assert str(error) == f"node-1: write /etc/x: {why}"
    assert error.hint


def test_what_sudo_did_not_refuse_is_no_refusal() -> None:
    assert refusal("node-1", "write /etc/x", "cp: cannot stat 'a'", user="ann") is None


def test_one_word_is_a_line_for_the_shell_and_several_are_as_they_are() -> None:
    assert words_for(["df -h | tail -1"]) == ["sh", "-c", "df -h | tail -1"]
    assert words_for(["echo", "$HOME", "a b"]) == ["echo", "$HOME", "a b"]
