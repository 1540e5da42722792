"""`--on @failed` means the hosts that failed last, also within a longer pattern."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.config.inventory import load
from toolkit.model.errors import NotFoundError
from toolkit.model.names import NodeName
from toolkit.provision.credentials import local_password, note_provisioned, provisioned_places, with_local_credentials
from toolkit.provision.failed_hosts import failed_hosts, remember_failed, with_failed

A, B, C = map(NodeName, "abc")


def _inventory(folder: Path, hosts: str = "{a: {}, b: {}, c: {}}") -> Path:
    path = folder / "inventory.yaml"
    path.write_text(f"hosts: {hosts}\n")
    return path


def test_host_stays_failed_until_it_is_tried_again_with_success(tmp_path: Path) -> None:
    remember_failed(tmp_path, tried=[A, B, C], failed=[B, C])
    remember_failed(tmp_path, tried=[A, B], failed=[A])

    assert failed_hosts(tmp_path) == (C, A)
    inventory = load(_inventory(tmp_path))
    assert [host.name for host in with_failed(inventory, "@failed:!a", tmp_path).pick("@failed:!a")] == [C]


def test_none_failed_is_said(tmp_path: Path) -> None:
    remember_failed(tmp_path, tried=[A], failed=[])

    with pytest.raises(NotFoundError, match="no host failed"):
        with_failed(load(_inventory(tmp_path)), "@failed", tmp_path)


def test_generated_password_goes_only_where_it_was_provisioned(tmp_path: Path) -> None:
    password = local_password(tmp_path / "state")
    note_provisioned(tmp_path / "state", load(_inventory(tmp_path)).hosts[0])

    ours, other, *_ = with_local_credentials(load(_inventory(tmp_path)), tmp_path / "state").hosts
    moved = with_local_credentials(load(_inventory(tmp_path, "{a: {port: 6801}}")), tmp_path / "state").hosts[0]
    own = _inventory(tmp_path, "{a: {username: me, password: mine}}")
    kept = with_local_credentials(load(own), tmp_path / "state").hosts[0]

    assert (ours.username, ours.password) == ("crawlctl", password)
    assert other.password is None
    assert moved.password is None
    assert kept.username == "me"


_NOTES = """
import sys
from pathlib import Path
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName
from toolkit.provision.credentials import note_provisioned
from toolkit.provision.failed_hosts import remember_failed
folder, mine = Path(sys.argv[1]), sys.argv[2]
for number in range(40):
    name = NodeName(f"{mine}-{number}")
    note_provisioned(folder, Host(name, "10.0.0.1"))
    remember_failed(folder, tried=[name], failed=[name])
"""


def test_two_runs_at_once_forget_nothing_of_each_other(tmp_path: Path) -> None:
    runs = [subprocess.Popen([sys.executable, "-c", _NOTES, str(tmp_path), mine]) for mine in ("a", "b")]
    assert [run.wait(60) for run in runs] == [0, 0]
    names = {f"{mine}-{number}" for mine in ("a", "b") for number in range(40)}
    assert set(provisioned_places(tmp_path)) == names
    assert set(failed_hosts(tmp_path)) == names
