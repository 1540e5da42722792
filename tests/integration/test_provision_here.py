"""A host becomes a node by real steps, stays as it is the second time, and is completed after an interruption."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.borrowed_packages import choose, make_wheelhouse
from support.ports import free_port
from support.require import require

from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.config.inventory import load
from toolkit.model.errors import HostRefusedError
from toolkit.model.provisioning import Provisioned
from toolkit.provision.facts import gather
from toolkit.provision.here import Here
from toolkit.provision.host_plan import StepKind
from toolkit.provision.own_wheel import make_own_wheel
from toolkit.provision.provisioning import CARRIED_FOLDER, Provisioning
from toolkit.provision.steps import Worker

KIND = f"py{sys.version_info[0]}.{sys.version_info[1]}-{platform.machine()}-glibc"


class Desk:
    """One host, which is this machine below a folder, and the operator who provisions it."""

    def __init__(self, folder: Path, carried: Path) -> None:
        self.root = folder / "host"
        self.wheelhouse = make_wheelhouse(folder / "wheels")
        self.state = folder / "state"
        self.state.mkdir()
        # uv is packed once for all tests.
        (self.state / CARRIED_FOLDER).symlink_to(carried)
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        text = {
            "provision": {
                "user": "root",
                "folder": str(self.root),
                "python": sys.executable,
                "service": "supervisor",
            },
            "connection": "local",
            "port": free_port(),
            "slots": 2,
        }
        self.inventory = folder / "inventory.yaml"
        self.inventory.write_text(json.dumps({"hosts": {"here": text}}))
        self.steps: list[str] = []

    def run(self) -> Provisioned:
        """Provision the host."""
        inventory = load(self.inventory)
        engine = Provisioning(inventory, self.state, scratch=self.scratch, who="ann@pc", wheelhouse=self.wheelhouse)
        choose(self.state, KIND, engine.desired(inventory.hosts[0]).packages)
        self.steps.clear()
        return engine.provision(Here(inventory.hosts[0]), self.steps.append)

    def node(self) -> ScrapydNode:
        """Return the node's client."""
        inventory = load(self.inventory)
        engine = Provisioning(inventory, self.state, scratch=self.scratch, who="ann@pc")
        return ScrapydNode(engine.with_credentials(inventory.hosts[0]))


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("carried")


@pytest.fixture
def desk(tmp_path: Path, carried: Path) -> Iterator[Desk]:
    require(os.geteuid() == 0, "a host's steps are done as root")
    desk = Desk(tmp_path, carried)
    try:
        yield desk
    finally:
        python = desk.root / "env/bin/python"
        if python.exists():
            subprocess.run([python, "-m", "toolkit.node.keeper", "stop", desk.root / "node"], check=False)
        if shutil.which("crontab"):
            subprocess.run(["sh", "-c", "crontab -l | grep -v 'crawlctl-node$' | crontab -"], check=False)


def test_host_is_made_a_node_kept_as_it_is_and_mended_where_it_was_changed(desk: Desk) -> None:
    first = desk.run()
    again = desk.run()

    assert [step.kind for step in first.steps][:3] == [StepKind.FOLDER, StepKind.CARRY, StepKind.PACKAGES]
    assert first.steps[-1].kind is StepKind.RECORD
    assert not again.steps
    assert desk.node().load().node_name == "here"
    assert {path.stat().st_mode & 0o077 for path in (desk.root / "node").glob("scrap*.c*")} == {0}
    assert not (desk.root / ".provisioning").exists()

    (desk.root / "node/scrapyd.conf").write_text("[scrapyd]\n")
    mended = desk.run()
    assert [step.kind for step in mended.steps] == [StepKind.FILE, StepKind.RESTART, StepKind.RECORD]
    assert desk.node().load().node_name == "here"
    noted = (desk.root / "provisioned.json").read_text()
    password = (desk.state / "password").read_text().strip()
    assert password not in noted


def test_interrupted_run_leaves_a_lock_that_only_others_mind_and_the_next_one_completes(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Worker.do

    def cut_short(worker: Worker, steps: list[object], **given: object) -> list[object]:
        done = whole(worker, steps, **given)  # type: ignore[arg-type]
        if steps:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(Worker, "release", lambda _: None)
    monkeypatch.setattr(Worker, "do", cut_short)
    with pytest.raises(KeyboardInterrupt):
        desk.run()
    monkeypatch.undo()

    with pytest.raises(HostRefusedError, match="ann@pc provisions it now"):
        desk.run()
    os.utime(desk.root / ".provisioning", (1, 1))
    done = desk.run()
    assert "ann@pc was cut short; its lock is taken over" in done.notes
    assert StepKind.FOLDER not in [step.kind for step in done.steps]
    assert desk.node().load().node_name == "here"


def test_looking_changes_nothing_and_sees_who_has_the_port(desk: Desk) -> None:
    from socket import create_server  # noqa: PLC0415 - only here

    host = load(desk.inventory).hosts[0]
    with create_server(("127.0.0.1", host.port)):
        facts = gather(Here(host), bind="127.0.0.1", redis=[("127.0.0.1", 1)])

    assert facts.port_holder is not None
    assert f"(pid {os.getpid()}," in facts.port_holder
    assert facts.redis == {"127.0.0.1:1": "Connection refused"}
    assert facts.bind_error is None
    assert abs(facts.clock_skew_s) < 1
    assert not desk.root.exists()


def test_own_wheel_is_the_same_twice_and_runs_where_nothing_else_of_it_is(tmp_path: Path) -> None:
    first, second = make_own_wheel(tmp_path / "a"), make_own_wheel(tmp_path / "b")
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.digest == second.digest

    from uv import find_uv_bin  # noqa: PLC0415 - only here

    place, borrowed = tmp_path / "env", make_wheelhouse(tmp_path / "wheels") / "borrowed-1.0-py3-none-any.whl"
    quiet: list[str | Path] = [find_uv_bin(), "--quiet"]
    subprocess.run([*quiet, "venv", "--python", sys.executable, place], check=True)
    words = [*quiet, "pip", "install", "--no-deps", "--offline", "--python", place / "bin/python"]
    subprocess.run([*words, first.path, borrowed], check=True)
    tried = "import toolkit.node.runner, toolkit; print(toolkit.__file__)"
    shown = subprocess.run([place / "bin/crawlctl", "--version"], capture_output=True, text=True, check=True)
    imported = subprocess.run([place / "bin/python", "-c", tried], capture_output=True, text=True, check=True, cwd="/")

    assert shown.stdout == f"crawlctl {first.version}\n"
    assert imported.stdout.startswith(str(place))
    assert (next(place.glob("lib/*/site-packages/toolkit/samples")) / "scrapyd.conf").is_file()
