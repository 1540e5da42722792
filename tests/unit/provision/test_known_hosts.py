"""What known_hosts files say of a key."""

from __future__ import annotations

import base64

import pytest

from toolkit.provision.known_hosts import (
    Entry,
    HostKey,
    Verdict,
    algorithms_first,
    entries_of,
    judge,
    name_of,
    parse,
    parse_key,
)


def key(kind: str = "ssh-ed25519", *, salt: bytes = b"one") -> HostKey:
    return HostKey(kind, len(kind).to_bytes(4, "big") + kind.encode() + salt)


OLD, NEW, RSA = key(), key(salt=b"two"), key("ssh-rsa")
HASHED = "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg="  # of 192.168.1.61


def about(text: str, name: str) -> list[HostKey]:
    return [entry.key for entry in entries_of(parse(text, "file"), name)]


@pytest.mark.parametrize(
    ("names", "name", "is_about"),
    [
        ("node-1", "node-1", True),
        ("Node-1,10.0.0.1", "10.0.0.1", True),
        ("node-1", "node-11", False),
        ("[node-1]:2222", "[node-1]:2222", True),
        ("node-1", "[node-1]:2222", False),
        ("[*.example.com]:*", "[a.example.com]:2222", True),
        ("*.example.com,!a.example.com", "a.example.com", False),
        ("*.example.com,!a.example.com", "b.example.com", True),
        ("node-?", "node-1", True),
        (HASHED, "192.168.1.61", True),
        (HASHED, "192.168.1.62", False),
        ("|1|not|base64", "node-1", False),
        ("|1|", "node-1", False),
    ],
)
def test_a_line_is_about_the_hosts_that_it_names(names: str, name: str, is_about: bool) -> None:  # noqa: FBT001 - a case
    assert about(f"{names} {OLD.text} comment\n", name) == ([OLD] if is_about else [])


def test_what_is_no_line_about_a_key_is_passed_over() -> None:
    lines = [
        "",
        "# comment",
        "node-1",
        "node-1 ssh-ed25519",
        "node-1 ssh-ed25519 !!!",
        f"node-1 ssh-rsa {OLD.text.split()[1]}",
        f"@cert-authority node-1 {OLD.text}",
        f"  node-1\t{NEW.text}",
    ]
    assert about("\n".join(lines), "node-1") == [NEW]
    assert parse("\n".join(lines), "file")[0].place == "file:8"


def test_a_port_of_its_own_is_part_of_a_server_s_name() -> None:
    assert name_of("Node-1", 22) == "node-1"
    assert name_of("node-1", 2222) == "[node-1]:2222"
    assert name_of("fe80::1", 2222) == "[fe80::1]:2222"


@pytest.mark.parametrize(
    ("known", "verdict"),
    [
        ([], Verdict.UNKNOWN),
        ([(NEW, False)], Verdict.KNOWN),
        ([(OLD, False)], Verdict.CHANGED),
        ([(OLD, False), (NEW, False)], Verdict.KNOWN),
        ([(RSA, False)], Verdict.CHANGED),
        ([(NEW, True)], Verdict.REVOKED),
        ([(NEW, False), (NEW, True)], Verdict.REVOKED),
        ([(OLD, True)], Verdict.UNKNOWN),
    ],
)
def test_a_shown_key_is_known_unknown_changed_or_revoked(known: list[tuple[HostKey, bool]], verdict: Verdict) -> None:
    assert judge([Entry("node-1", each, "file:1", is_revoked) for each, is_revoked in known], NEW) is verdict


def test_the_host_is_asked_for_the_kind_of_key_that_is_known() -> None:
    offered = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
    asked = algorithms_first([Entry("node-1", RSA, "file:1")], offered)
    assert asked == ("rsa-sha2-512", "rsa-sha2-256", "ssh-ed25519", "ecdsa-sha2-nistp256")
    assert algorithms_first([], offered) == offered


def test_a_key_is_read_from_its_text_and_told_by_its_fingerprint() -> None:
    text = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl github.com"
    read = parse_key(text)
    assert read is not None
    assert read.text == text.removesuffix(" github.com")
    assert read.fingerprint == "ssh-ed25519 SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
    for odd in ("", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-rsa " + text.split()[1], "a b c"):
        assert parse_key(odd) is None
    assert base64.b64decode(text.split()[1]) == read.blob
