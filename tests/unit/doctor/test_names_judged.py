"""What a doctor says of names, of the inventory, and of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from toolkit.config.inventory import load
from toolkit.doctor.inventory import judge_files, judge_mistakes, look_at_files
from toolkit.doctor.judged import Judged
from toolkit.doctor.names import Resolved, judge_names, names_of, resolve
from toolkit.model.errors import InventoryError
from toolkit.model.hosts import Host, Secret, SshAddress
from toolkit.model.names import NodeName


def a_host(name: str = "node-1", address: str = "10.0.0.1", **more: object) -> Host:
    return Host(NodeName(name), address, username="u", password=Secret("p"), **more)  # type: ignore[arg-type]


def checks(judged: Sequence[Judged]) -> list[str]:
    return [each.finding.check for each in judged]


def of(hosts: Sequence[Host], led: Mapping[str, Sequence[str]]) -> list[Judged]:
    resolved = {name: Resolved(name, tuple(to)) for name, to in led.items()}
    return judge_names(hosts, resolved)


def test_every_name_is_looked_up_once() -> None:
    hosts = [a_host(ssh=SshAddress(address="gate")), a_host("node-2", "10.0.0.1")]
    assert names_of(hosts, ["redis", "gate"]) == ("10.0.0.1", "gate", "redis")


def test_a_good_name_is_nothing_to_speak_of() -> None:
    assert of([a_host(address="one.example")], {"one.example": ["10.0.0.1", "fd00::1"]}) == []


def test_a_name_without_an_address_is_an_error() -> None:
    here = Resolved("no.such.example", why="name or service not known")
    (told,) = judge_names([a_host(address="no.such.example")], {"no.such.example": here})
    assert (told.finding.check, told.finding.node) == ("dns-unknown", "node-1")
    (told,) = judge_names([], {"no.such.example": here}, redis_hosts=["no.such.example"])
    assert "Redis" in told.finding.text


def test_nothing_is_said_of_a_name_that_was_not_looked_up_in_time() -> None:
    assert judge_names([a_host(address="slow.example")], {}, redis_hosts=["slower.example"]) == []


@pytest.mark.parametrize(
    ("address", "leads_to", "check"),
    [
        ("pool.example", ["10.0.0.1", "10.0.0.2"], "dns-several"),
        ("deb.example", ["127.0.1.1"], "dns-loopback"),
        ("far.example", ["93.184.215.14"], "node-plain"),
        ("93.184.215.14", ["93.184.215.14"], "node-plain"),
    ],
)
def test_a_name_that_leads_astray_is_told(address: str, leads_to: list[str], check: str) -> None:
    assert checks(of([a_host(address=address)], {address: leads_to})) == [check]


def test_tls_makes_the_internet_a_fair_way() -> None:
    assert of([a_host(address="far.example", scheme="https")], {"far.example": ["93.184.215.14"]}) == []


def test_loopback_by_its_own_name_is_meant() -> None:
    assert of([a_host(address="localhost")], {"localhost": ["127.0.0.1", "::1"]}) == []


def test_two_hosts_at_one_place_are_told_once() -> None:
    hosts = [a_host("node-1", "a.example"), a_host("node-2", "b.example"), a_host("node-3", "a.example", port=6801)]
    (told,) = of(hosts, {"a.example": ["10.0.0.1"], "b.example": ["10.0.0.1"]})
    assert told.finding.check == "dns-same"
    assert "node-1, node-2" in told.finding.text


def test_a_redis_over_the_internet_wants_tls() -> None:
    there = {"r.example": Resolved("r.example", ("93.184.215.14",))}
    assert checks(judge_names([], there, redis_hosts=["r.example"], is_redis_plain=True)) == ["redis-plain"]
    assert judge_names([], there, redis_hosts=["r.example"]) == []


def test_an_address_needs_no_name_service() -> None:
    assert resolve("10.0.0.1") == Resolved("10.0.0.1", ("10.0.0.1",))
    assert resolve("no-such-name.invalid").why
    assert resolve("x" * 80 + ".example").why


def an_inventory(folder: Path, text: str, *, mode: int = 0o600) -> Path:
    path = folder / "inventory.yaml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_secret_in_a_file_for_all_to_read_is_told_without_it(tmp_path: Path) -> None:
    text = "hosts: {node-1: {address: 10.0.0.1, username: u, password: hunter2}}\n"
    inventory = load(an_inventory(tmp_path, text, mode=0o644))
    (told,) = judge_files(look_at_files(inventory, inventory.hosts), inventory.hosts)
    assert told.finding.check == "inventory-secret"
    assert told.finding.command == f"chmod 600 {tmp_path}/inventory.yaml"
    assert "hunter2" not in str(told)


def test_a_secret_from_elsewhere_or_in_a_private_file_is_fine(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    (tmp_path / "secret").chmod(0o600)
    for text, mode in (
        ("hosts: {node-1: {address: 10.0.0.1, username: u, password: hunter2}}\n", 0o600),
        ("hosts: {node-1: {address: 10.0.0.1, username: u, password: {file: secret}}}\n", 0o644),
        ("redis: redis://10.0.0.5/0\nhosts: {node-1: {connection: local}}\n", 0o644),
    ):
        inventory = load(an_inventory(tmp_path, text, mode=mode))
        assert judge_files(look_at_files(inventory, inventory.hosts), inventory.hosts) == []


def test_files_that_are_not_there_and_open_keys_are_told(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k")
    (tmp_path / "key").chmod(0o644)
    hosts = [a_host(ssh=SshAddress(key=str(tmp_path / "key"), config=str(tmp_path / "none")))]
    inventory = load(an_inventory(tmp_path, "hosts: {node-1: {}}\n"))
    judged = judge_files(look_at_files(inventory, hosts), hosts)
    assert [(each.finding.check, each.finding.severity.value) for each in judged] == [
        ("inventory-file", "note"),
        ("inventory-file", "error"),
    ]


def test_only_other_machines_need_a_password_in_the_inventory(tmp_path: Path) -> None:
    inventory = load(an_inventory(tmp_path, "hosts: {a: {connection: local}, b: {address: 10.0.0.1}}\n"))
    (told,) = judge_files(look_at_files(inventory, inventory.hosts), inventory.hosts)
    assert (told.finding.check, told.finding.node) == ("inventory-password", "b")


def test_each_mistake_of_an_inventory_is_a_finding(tmp_path: Path) -> None:
    with pytest.raises(InventoryError) as caught:
        load(an_inventory(tmp_path, "hosts: {a: {prot: 1}, b: {port: x}}\n"))
    assert checks(judge_mistakes(caught.value)) == ["inventory-mistake", "inventory-mistake"]
