"""The keys of an operator are made once, private, and listed for nodes; what each node gets follows from that."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.config.inventory import Inventory, load
from toolkit.model.errors import ConfigurationError, NotFoundError, RefusedError
from toolkit.model.hosts import Host, Provisioning, Secret
from toolkit.model.names import NodeName
from toolkit.provision.keyring import Keyring, owner
from toolkit.provision.node_security import READ_ANEW, security_of
from toolkit.provision.own_authority import authority_file, with_own_authority
from toolkit.provision.redis_users import FOLDER, with_user
from toolkit.store.acl import Role
from toolkit.trust.keys import check_name, new_key

BOB = new_key("bob")
NODE = NodeName("node-1")
URL = Secret("redis://:hunter2@10.0.0.10:6379/0")


def test_a_new_key_is_private_trusted_and_made_once(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    assert ring.signing_key() is None
    assert ring.trusted_text() is None
    made = ring.new("ann")
    key = ring.signing_key()
    assert key is not None
    assert (key.public, key.public.name) == (made, "ann")
    assert ring.trusted().trusted == (made,)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "keys").iterdir()} == {0o600}
    with pytest.raises(RefusedError, match="already"):
        ring.new("ann")
    assert ring.require_signing_key().public == made


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    ring.new("ann")
    ring.private_path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="can be read by others"):
        ring.signing_key()


def test_without_a_key_it_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        Keyring(tmp_path).require_signing_key()
    assert "keys new" in str(caught.value.hint)


def test_a_key_is_found_by_name_or_the_beginning_of_its_id(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    ring.trust(BOB.public)
    assert ring.find("bob") == ring.find(BOB.public.id[:6]) == BOB.public
    for wanted in ("eve", "b", ""):
        with pytest.raises(NotFoundError):
            ring.find(wanted)
    ring.trust(new_key("bob").public)
    with pytest.raises(NotFoundError, match="several"):
        ring.find("bob")


def test_a_revoked_key_is_not_trusted_again_by_a_command(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    ring.trust(BOB.public)
    ring.revoke("bob")
    ring.revoke("bob")
    assert ring.trusted().revoked == (BOB.public,)
    with pytest.raises(RefusedError, match="was revoked"):
        ring.trust(BOB.public)


def test_the_inventory_names_a_list_that_colleagues_share_and_a_key_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "release.pem").touch(mode=0o600)
    (tmp_path / "release.pem").write_text(BOB.written().reveal())
    (tmp_path / "trusted.keys").write_text(f"# ours\n{BOB.public}\n")
    text = "trusted_keys: trusted.keys\nsigning_key: {file: release.pem}\nhosts: {node-1: {address: 10.0.0.11}}\n"
    (tmp_path / "inventory.yaml").write_text(text)
    inventory = load(tmp_path / "inventory.yaml")
    ring = Keyring.of(inventory, tmp_path / "state")
    key = ring.signing_key()
    assert key is not None
    assert key.public == BOB.public
    assert ring.trusted_text() == f"# ours\n{BOB.public}\n"
    with pytest.raises(RefusedError, match="names a signing_key"):
        ring.new("ann")


def test_a_list_that_is_named_and_not_there_is_no_permission_to_trust_everybody(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no file"):
        Keyring(tmp_path, named_list=tmp_path / "missing.keys").trusted_text()


def test_the_name_of_a_key_made_without_one_can_stand_in_a_list() -> None:
    assert check_name(owner())


def an_inventory(host: Host, *, redis: Secret | None = URL) -> Inventory:
    return Inventory(Path("inventory.yaml"), redis, (host,), {})


def test_a_node_gets_nothing_that_nobody_asked_for(tmp_path: Path) -> None:
    got = security_of(Host(NODE), an_inventory(Host(NODE)), tmp_path, redis=URL)
    assert (dict(got.files), dict(got.settings), got.redis) == ({}, {}, URL)
    assert list(tmp_path.iterdir()) == []


def test_a_node_gets_keys_certificate_and_users_of_its_own(tmp_path: Path) -> None:
    Keyring(tmp_path).new("ann")
    users_in(tmp_path)
    host = Host(NODE, address="10.0.0.11", provision=Provisioning(tls="generated"))
    got = security_of(host, an_inventory(host), tmp_path, redis=URL)
    assert set(got.files) == READ_ANEW
    assert got.settings["trusted_keys"] == "trusted.keys"
    assert got.redis == Secret("redis://crawlctl-main-node:node-pw@10.0.0.10:6379/0")
    assert got.files["spider-redis.url"] == Secret("redis://crawlctl-main-spider:spider-pw@10.0.0.10:6379/0\n")
    again = security_of(host, an_inventory(host), tmp_path, redis=URL)
    assert again == got


def test_a_redis_url_with_credentials_for_one_host_stays_as_it_was_written(tmp_path: Path) -> None:
    users_in(tmp_path)
    own = Secret("redis://me:mine@10.9.9.9/0")
    host = Host(NODE, provision=Provisioning(redis=own))
    assert security_of(host, an_inventory(host), tmp_path, redis=own).redis == own


def users_in(folder: Path) -> None:
    (folder / FOLDER).mkdir()
    for role in Role:
        (folder / FOLDER / f"{role}.password").write_text(f"{role}-pw\n")
        (folder / FOLDER / f"{role}.url").write_text("redis://\n")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h/0", "redis://crawlctl-main-node:node-pw@h/0"),
        (
            "rediss://a:b@h:6380/1?ssl_ca_certs=/x.pem",
            "rediss://crawlctl-main-node:node-pw@h:6380/1?ssl_ca_certs=/x.pem",
        ),
        ("redis+sentinel://:p@s1:26379,s2/main/0", "redis+sentinel://crawlctl-main-node:node-pw@s1:26379,s2/main/0"),
        ("redis+sentinel://s1,[::1]:2/main", "redis+sentinel://crawlctl-main-node:node-pw@s1,[::1]:2/main"),
        ("unix:///run/redis.sock?db=1", "unix://crawlctl-main-node:node-pw@/run/redis.sock?db=1"),
    ],
)
def test_a_users_url_is_the_clusters_with_other_credentials(url: str, expected: str, tmp_path: Path) -> None:
    users_in(tmp_path)
    assert with_user(Secret(url), Role.NODE, tmp_path, cluster="main") == Secret(expected)


def test_only_hosts_with_generated_certificates_trust_the_own_authority(tmp_path: Path) -> None:
    hosts = (
        Host(NODE, provision=Provisioning(tls="generated")),
        Host(NodeName("node-2"), provision=Provisioning(tls="generated"), ca_file="/mine.pem"),
        Host(NodeName("node-3")),
    )
    inventory = Inventory(Path("inventory.yaml"), None, hosts, {})
    found = [host.ca_file for host in with_own_authority(inventory, tmp_path).hosts]
    assert found == [str(authority_file(tmp_path)), "/mine.pem", None]


def test_a_host_that_gets_a_certificate_is_spoken_to_by_https(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text("hosts:\n  a: {provision: {tls: generated}, ca_file: ca.pem}\n  b: {}\n")
    first, second = load(path).hosts
    assert (first.scheme, first.ca_file, second.scheme) == ("https", str(tmp_path / "ca.pem"), "http")
