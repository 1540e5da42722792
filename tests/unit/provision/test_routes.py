"""The way to a host out of inventory and ssh_config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Host, Secret, SshAddress
from toolkit.model.names import NodeName
from toolkit.provision.routes import JumpError, Route, jump_of, route_to
from toolkit.provision.ssh_config import ConfigText, read_config


def route(config: str, *, address: str = "node-1.example.com", **ssh: Any) -> Route:
    host = Host(NodeName("node-1"), address, ssh=SshAddress(**ssh))
    return route_to(host, ConfigText(config, "config").lookup)


def places(config: str, **ssh: Any) -> list[str]:
    return [hop.place for hop in route(config, **ssh).hops]


def test_the_inventory_goes_before_the_ssh_config() -> None:
    config = "Host *\n User ann\n Port 2200\n IdentityFile /keys/ann\n HostName real.example.com\n"
    assert places(config) == ["ann@real.example.com:2200"]
    assert places(config, user="deploy", port=22) == ["deploy@real.example.com"]
    assert route(config).target.keys == ("/keys/ann",)
    assert route(config, key="/keys/own").target.keys == ("/keys/own",)
    assert route(config, key="/keys/own").target.is_only_keys
    assert not route(config).target.is_only_keys
    assert route("Host *\n IdentitiesOnly yes\n").target.is_only_keys


def test_an_alias_is_looked_up_by_the_address_for_ssh() -> None:
    config = "Host far\n HostName 192.0.2.1\n User ann\n HostKeyAlias Crawlers\n"
    hop = route(config, address="10.0.0.1").target
    assert hop.address == "10.0.0.1"
    hop = route_to(
        Host(NodeName("node-1"), "10.0.0.1", ssh=SshAddress(address="far")), ConfigText(config, "config").lookup
    ).target
    assert (hop.place, hop.key_name) == ("ann@192.0.2.1", "crawlers")


def test_known_hosts_files_are_named_by_the_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    shared = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
    assert route("").target.known_hosts == ("/home/ann/.ssh/known_hosts", "/home/ann/.ssh/known_hosts2", *shared)
    own = route("Host *\n UserKnownHostsFile ~/a /b\n GlobalKnownHostsFile none\n").target.known_hosts
    assert own == ("/home/ann/a", "/b")


def test_jump_hosts_are_gone_through_in_their_order_each_by_its_own_config() -> None:
    config = "Host b1\n HostName bastion.example.com\n User guard\nHost *\n User ann\n"
    assert places(config, jump="b1,eve@b2:2222") == [
        "guard@bastion.example.com",
        "eve@b2:2222",
        "ann@node-1.example.com",
    ]
    both = "Host node-1.example.com\n ProxyJump b1\nHost b1\n ProxyJump b0\nHost *\n User ann\n"
    assert places(both) == ["ann@b0", "ann@b1", "ann@node-1.example.com"]
    assert places(both, jump="b2") == ["ann@b2", "ann@node-1.example.com"]
    assert places(both, jump="none") == ["ann@node-1.example.com"]


def test_a_rule_for_all_hosts_does_not_send_the_jump_host_through_itself() -> None:
    assert places("Host *\n User ann\n ProxyJump bastion\n") == ["ann@bastion", "ann@node-1.example.com"]
    circle = "Host a\n ProxyJump b\nHost b\n ProxyJump a\nHost *\n ProxyJump a\n"
    with pytest.raises(JumpError, match="round in a circle"):
        places(circle)


def test_what_is_the_host_s_own_is_not_given_to_jump_hosts() -> None:
    hops = route("", jump="bastion", password=Secret("x"), host_key="ssh-ed25519 AAAA", timeout_s=3.0).hops
    assert (hops[0].password, hops[0].pinned, hops[0].timeout_s) == (None, None, 3.0)
    assert (hops[1].password, hops[1].pinned) == (Secret("x"), "ssh-ed25519 AAAA")


def test_a_proxy_command_knows_the_place_that_it_leads_to() -> None:
    config = "Host *\n ProxyCommand exec nc -X connect %h %p\n"
    assert route(config, port=2222).target.command == "nc -X connect node-1.example.com 2222"
    assert route(config, jump="bastion").target.command is None
    assert route("Host *\n ProxyCommand none\n").target.command is None


@pytest.mark.parametrize(
    ("text", "user", "address", "port"),
    [
        ("bastion", None, "bastion", None),
        ("ann@bastion:2222", "ann", "bastion", 2222),
        ("ssh://ann@bastion:2222", "ann", "bastion", 2222),
        ("[fe80::1]:2222", None, "fe80::1", 2222),
        ("ann@::1", "ann", "::1", None),
    ],
)
def test_a_jump_host_is_read(text: str, user: str | None, address: str, port: int | None) -> None:
    jump = jump_of(text)
    assert (jump.user, jump.address, jump.port) == (user, address, port)


def test_a_jump_host_that_is_none_is_told() -> None:
    for text in ("", "ann@", "bastion:x"):
        with pytest.raises(JumpError, match="is not a jump host"):
            jump_of(text)


def test_included_files_are_laid_in_and_end_no_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".ssh"
    (folder / "conf.d").mkdir(parents=True)
    (folder / "conf.d" / "a").write_text("Host a\n User ann\n")
    (folder / "conf.d" / "b").write_text("Host b\n User bob\n")
    (folder / "config").write_text("Include conf.d/*\nPort 2200\nHost a\n Include none\n HostName far\n")
    config = read_config(None)
    assert config.lookup("a", {})["user"] == "ann"
    assert (config.lookup("b", {})["user"], config.lookup("b", {})["port"]) == ("bob", "2200")
    assert (config.lookup("a", {})["hostname"], config.lookup("c", {})["port"]) == ("far", "2200")
    (folder / "config").write_text("Include config\n")
    with pytest.raises(ConfigurationError, match="too many files include each other"):
        read_config(None)
    (folder / "config").write_text("nonsense\n")
    with pytest.raises(ConfigurationError, match="cannot be read: Unparsable line nonsense"):
        read_config(None).lookup("a", {})
