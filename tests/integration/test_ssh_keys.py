"""Over a real sshd: whose host key is taken, with what we log in, and what is said where that fails."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.accounts import PASSWORD, Account
from support.ports import free_port
from support.ssh_server import SshServer, make_key

from toolkit.model.errors import (
    ConfigurationError,
    HostKeyError,
    HostRefusedError,
    HostUnauthorizedError,
    HostUnreachableError,
)
from toolkit.model.hosts import Host, Secret
from toolkit.provision.by_shell import Call
from toolkit.provision.connect import Door, connector


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with SshServer(tmp_path_factory.mktemp("sshd"), "PasswordAuthentication yes", "UsePAM yes") as server:
        yield server


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a home folder without keys, known hosts and agent."""
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return folder


def says_hello(door: Door, host: Host) -> str:
    remote = door(host)
    try:
        return remote.check(["echo", "hello"], doing="greet").strip()
    finally:
        remote.close()


def test_an_unknown_host_key_is_not_taken_and_nothing_was_sent(server: SshServer, tmp_path: Path) -> None:
    host = server.host(host_key=None)
    before = server.log.count("Accepted")
    with pytest.raises(HostKeyError) as told:
        says_hello(connector(tmp_path / "state"), host)
    printed = subprocess.run(
        ["ssh-keygen", "-lf", str(server.host_key_file)], capture_output=True, text=True, check=True
    )
    fingerprint = printed.stdout.split()[1]
    name = f"[127.0.0.1]:{server.port}"
    assert str(told.value) == (f"node-1: connect by SSH: the key of {name} is not known: ssh-ed25519 {fingerprint}")
    assert "--trust-new-keys" in str(told.value.hint)
    assert server.host_key in str(told.value.hint)
    assert server.log.count("Accepted") == before
    assert not (tmp_path / "state").exists()


def test_a_key_is_taken_on_first_sight_only_if_asked_for_and_then_known(server: SshServer, tmp_path: Path) -> None:
    host, said = server.host(host_key=None), list[str]()
    trusting = connector(tmp_path, trust_new_keys=True, on_new_key=said.append)
    assert says_hello(trusting, host) == "hello"
    assert len(said) == 1
    assert "ssh-ed25519 SHA256:" in said[0]
    assert says_hello(trusting, host) == "hello"
    assert says_hello(connector(tmp_path), host) == "hello"
    assert (tmp_path / "known_hosts").read_text() == server.known_hosts_line
    assert len(said) == 1


@pytest.mark.parametrize("is_hashed", [False, True])
def test_a_known_host_is_found_in_the_user_s_own_file_hashed_or_not(
    server: SshServer, home: Path, *, is_hashed: bool
) -> None:
    file = home / ".ssh" / "known_hosts"
    file.write_text(server.known_hosts_line)
    if is_hashed:
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
        assert "127.0.0.1" not in file.read_text()
    assert says_hello(connector(), server.host(host_key=None)) == "hello"


def test_a_changed_key_is_never_taken_and_both_fingerprints_are_named(tmp_path: Path, home: Path) -> None:
    with SshServer(tmp_path / "sshd") as server:
        host = server.host(host_key=None)
        assert says_hello(connector(tmp_path, trust_new_keys=True), host) == "hello"
        pinned = server.host()
        server.new_host_key("ecdsa")
        for each in (host, pinned):
            with pytest.raises(HostKeyError, match=r"has changed.*SHA256:\S+ .*shown was ecdsa.* SHA256:"):
                says_hello(connector(tmp_path, trust_new_keys=True), each)
        # Also where the user's own file knows the new one beside the old: either is good.
        (home / ".ssh" / "known_hosts").write_text(server.known_hosts_line)
        assert says_hello(connector(tmp_path), host) == "hello"


def test_the_pinned_key_decides_alone(server: SshServer, home: Path, tmp_path: Path) -> None:
    (home / ".ssh" / "known_hosts").write_text(server.known_hosts_line)
    other = make_key(tmp_path / "other").with_suffix(".pub").read_text().strip()
    with pytest.raises(HostKeyError, match=r"known is ssh-ed25519 SHA256:.*ssh.host_key of the inventory"):
        says_hello(connector(tmp_path, trust_new_keys=True), server.host(host_key=other))
    with pytest.raises(HostKeyError, match="is no public key"):
        says_hello(connector(), server.host(host_key="ssh-ed25519 AAAA"))


def test_a_key_that_the_host_does_not_take_is_named(server: SshServer, tmp_path: Path) -> None:
    wrong = make_key(tmp_path / "wrong")
    with pytest.raises(HostUnauthorizedError, match=rf"log in as {server.user}@.*takes none of .* {wrong}"):
        says_hello(connector(), server.host(key=str(wrong)))
    with pytest.raises(HostUnauthorizedError, match="none is not there"):
        says_hello(connector(), server.host(key=str(tmp_path / "none")))
    (tmp_path / "odd").write_text("no key\n")
    with pytest.raises(HostUnauthorizedError, match="odd is no private key"):
        says_hello(connector(), server.host(key=str(tmp_path / "odd")))
    with pytest.raises(HostUnauthorizedError, match="neither a key nor a password"):
        says_hello(connector(), server.host(key=None))


@pytest.mark.parametrize("is_old_form", [False, True])
def test_an_encrypted_key_needs_an_agent_and_goes_with_one(
    server: SshServer, short_folder: Path, monkeypatch: pytest.MonkeyPatch, *, is_old_form: bool
) -> None:
    locked = make_key(short_folder / "locked", kind="rsa" if is_old_form else "ed25519")
    form = ["-m", "PEM"] if is_old_form else []
    change = ["ssh-keygen", "-q", "-p", *form, "-P", "", "-N", "a passphrase", "-f", str(locked)]
    subprocess.run(change, check=True, capture_output=True)
    server.authorize(server.key, locked)
    host = server.host(key=str(locked))
    with pytest.raises(HostUnauthorizedError, match="locked is encrypted and no agent holds it") as told:
        says_hello(connector(), host)
    assert told.value.hint == f"ssh-add {locked}"
    with agent_with(server.key, locked, folder=short_folder) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        assert says_hello(connector(), host) == "hello"
        assert says_hello(connector(), replace(host, ssh=replace(host.ssh, key=None))) == "hello"


def test_our_own_keys_are_tried_without_being_named(server: SshServer, home: Path) -> None:
    for suffix in ("", ".pub"):
        own = home / ".ssh" / f"id_ed25519{suffix}"
        own.write_bytes(Path(f"{server.key}{suffix}").read_bytes())
        own.chmod(0o600)
    assert says_hello(connector(), server.host(key=None)) == "hello"


def test_passwords_of_logins_and_of_sudo(server: SshServer) -> None:
    with Account(sudo="PASSWD") as ann:
        host = server.host(user=ann.name, key=None, password=Secret(PASSWORD))
        remote = connector()(host)
        assert remote.check(["id", "-un"], doing="ask") == f"{ann.name}\n"
        # The password for sudo is the login's unless another is given, and it never reaches the command.
        assert remote.check(["sh", "-c", "id -u; cat"], doing="ask", as_root=True, stdin=b"fed") == "0\nfed"
        assert remote.check(["sh", "-c", "id -un; pwd; cat"], doing="ask", as_user="nobody") == "nobody\n/\n"
        seen = remote.check(["sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ; :"], doing="spy", as_root=True)
        assert PASSWORD not in seen
        remote.write("/root/.crawlctl-test", b"secret", mode=0o600, as_root=True)
        assert remote.read("/root/.crawlctl-test", as_root=True) == b"secret"
        with pytest.raises(HostRefusedError, match="Permission denied"):
            remote.read("/etc/shadow")
        remote.check(["rm", "/root/.crawlctl-test"], doing="tidy up", as_root=True)
        remote.close()

        wrong = server.host(user=ann.name, key=None, password=Secret("wrong"))
        with pytest.raises(HostUnauthorizedError, match=r"takes none of .*: the password"):
            says_hello(connector(), wrong)
        for given, why in ((None, "sudo wants a password of"), (Secret("x"), "sudo does not take the password of")):
            short = connector()(server.host(user=ann.name, sudo_password=given))
            with pytest.raises(HostUnauthorizedError, match=f"become root: {why} {ann.name}"):
                short.check(["id"], doing="become root", as_root=True)
            short.close()


def test_what_a_login_shell_says_by_itself_is_no_output(server: SshServer) -> None:
    with Account(sudo="NOPASSWD") as ann:
        said = "echo welcome; echo news of the day"
        Path(f"/home/{ann.name}/.bashrc").write_text(f"{said}\n")
        subprocess.run(["usermod", "-s", "/bin/bash", ann.name], check=True)
        with SshServer(server.folder / "chatty", "SetEnv SHLVL=0") as chatty:
            remote = connector()(chatty.host(user=ann.name))
            assert remote._ended(Call(["true"], "listen")).stdout == b"welcome\nnews of the day\n"
            assert remote.run(["true"], doing="listen").stdout == ""
            assert remote.check(["id", "-un"], doing="ask", as_root=True) == "root\n"
            remote.write(f"/home/{ann.name}/file", b"content", mode=0o600)
            assert remote.read(f"/home/{ann.name}/file") == b"content"
            remote.close()


def test_sudo_without_a_password_and_without_any_right(server: SshServer) -> None:
    with Account(sudo="NOPASSWD") as ann, Account() as bob:
        remote = connector()(server.host(user=ann.name, sudo_password=Secret("not asked for")))
        assert remote.check(["sh", "-c", "id -u; cat"], doing="ask", as_root=True) == "0\n"
        assert remote.check(["id", "-un"], doing="ask", as_user=ann.name) == f"{ann.name}\n"
        remote.close()
        without = connector()(server.host(user=bob.name, sudo_password=Secret(PASSWORD)))
        with pytest.raises(HostUnauthorizedError, match=f"{bob.name} may not use sudo"):
            without.write("/etc/crawlctl-test", b"", mode=0o600, as_root=True)
        without.close()


def test_the_ssh_config_gives_what_the_inventory_leaves_out(server: SshServer, home: Path) -> None:
    known = home / "known"
    known.write_text(f"crawlers {server.host_key}\n")
    (home / ".ssh" / "more").write_text(
        f"Host far\n  HostName 127.0.0.1\n  HostKeyAlias crawlers\n  Port {server.port}\n"
    )
    (home / ".ssh" / "config").write_text(
        f"Include more\nHost far\n  User {server.user}\n  IdentityFile {server.key}\n  UserKnownHostsFile {known}\n"
        "  StrictHostKeyChecking no\n"
    )
    host = server.host(address="far", user=None, port=None, key=None, host_key=None)
    assert says_hello(connector(), host) == "hello"
    with pytest.raises(ConfigurationError, match="there is no ssh_config at"):
        says_hello(connector(), replace(host, ssh=replace(host.ssh, config="~/none")))
    # A key of another host at that name is one that changed, whatever StrictHostKeyChecking says.
    known.write_text(f"crawlers {make_key(home / 'x').with_suffix('.pub').read_text()}")
    with pytest.raises(HostKeyError, match="the key of crawlers has changed"):
        says_hello(connector(), host)


def test_jump_hosts_are_checked_like_the_host_itself_and_shared(server: SshServer, home: Path, tmp_path: Path) -> None:
    with SshServer(tmp_path / "first") as first, SshServer(tmp_path / "second") as second:
        first.authorize(server.key)
        second.authorize(server.key)
        (home / ".ssh" / "config").write_text(f"Host *\n  IdentityFile {server.key}\n")
        jump = f"{first.user}@127.0.0.1:{first.port},{second.user}@127.0.0.1:{second.port}"
        host = server.host(jump=jump, key=None)
        (home / ".ssh" / "known_hosts").write_text(second.known_hosts_line)
        with pytest.raises(HostKeyError, match=rf"the key of \[127.0.0.1\]:{first.port} is not known"):
            says_hello(connector(), host)
        (home / ".ssh" / "known_hosts").write_text(first.known_hosts_line + second.known_hosts_line)
        door = connector()
        assert says_hello(door, host) == "hello"
        assert says_hello(door, host) == "hello"
        assert [each.log.count("Accepted publickey") for each in (first, second)] == [1, 1]
        door.close()
        second.stop()
        with pytest.raises(HostUnreachableError, match=f"through {first.user}@127.0.0.1:{first.port}"):
            says_hello(connector(), host)


def test_a_proxy_command_brings_the_connection(server: SshServer, home: Path) -> None:
    forward = home / "forward.py"
    forward.write_text(
        "import os, socket, sys, threading\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def out():\n    while part := s.recv(65536): os.write(1, part)\n    os._exit(0)\n"
        "threading.Thread(target=out, daemon=True).start()\n"
        "while part := os.read(0, 65536): s.sendall(part)\n"
    )
    (home / ".ssh" / "config").write_text(f"Host *\n  ProxyCommand exec python3 {forward} %h %p\n")
    assert says_hello(connector(), server.host()) == "hello"


def test_a_host_that_is_not_there_is_told_in_plain_words(server: SshServer) -> None:
    with pytest.raises(HostUnreachableError, match=r"nothing listens on 127\.0\.0\.1"):
        says_hello(connector(), server.host(port=free_port()))
    with pytest.raises(HostUnreachableError, match=r"its name no-such-host\.invalid is not known"):
        says_hello(connector(), server.host(address="no-such-host.invalid"))


class agent_with:  # noqa: N801 - reads like a function
    """Runs an ssh-agent that holds these keys, and gives the path of its socket."""

    def __init__(self, *keys: Path, folder: Path) -> None:
        self._keys = keys
        self._folder = folder
        self._pid = 0

    def __enter__(self) -> str:
        socket = str(self._folder / "agent")
        started = subprocess.run(["ssh-agent", "-a", socket], capture_output=True, text=True, check=True)
        self._pid = int(started.stdout.partition("SSH_AGENT_PID=")[2].partition(";")[0])
        asks = self._folder / "asks"
        asks.write_text("#!/bin/sh\necho 'a passphrase'\n")
        asks.chmod(0o700)
        env = {**os.environ, "SSH_AUTH_SOCK": socket, "SSH_ASKPASS": str(asks), "SSH_ASKPASS_REQUIRE": "force"}
        subprocess.run(["ssh-add", *map(str, self._keys)], env=env, check=True, capture_output=True)
        return socket

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGTERM)
