"""Deploys: to simulated nodes that take their time, to real Scrapyd nodes, and to a fleet in which one node hangs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import Commands, Comparison, program
from benchmarks.workplace import Workplace
from support.cli import InventoryNode, NodeEntry
from support.fleet import Fleet
from support.scrapyd_node import running_nodes

HANG_TIMEOUT_S = 1.0
PEER = "scrapyd-deploy -a"


def compare_on_stubs(
    commands: Commands, folder: Path, *, nodes: int, addversion_s: float, repeats: int, stock_runs: int
) -> list[Comparison]:
    """Deploy to simulated nodes, each of which takes `addversion_s` seconds of its own for an egg."""
    with Fleet(nodes=nodes, addversion_s=addversion_s) as fleet:
        ours, theirs = _deploys(commands, folder, _entries(fleet), repeats=repeats, stock_runs=stock_runs)
    what = f"deploy: {nodes} stubs of {addversion_s:g} s each"
    return [Comparison(what, ours, theirs, PEER, "1 s", key=("deploy_s", "stub60"))]


def compare_on_real_nodes(
    commands: Commands, folder: Path, *, nodes: int, repeats: int, stock_runs: int
) -> list[Comparison]:
    """Deploy to real Scrapyd processes on this machine, which share its processor."""
    with running_nodes(nodes, folder=folder / "nodes") as running:
        ours, theirs = _deploys(commands, folder, running, repeats=repeats, stock_runs=stock_runs)
    return [Comparison(f"deploy: {nodes} real nodes", ours, theirs, PEER, "2.5 times", key=("deploy_s", "real20"))]


def measure_hanging_node(
    commands: Commands, folder: Path, *, nodes: int, addversion_s: float, repeats: int
) -> list[Comparison]:
    """Deploy to a fleet with one node that never answers; show the whole command, and the slowest of the others."""
    found: list[Comparison] = []
    for is_hanging in (False, True):
        whole: list[float] = []
        others: list[float] = []
        with Fleet(nodes=nodes, addversion_s=addversion_s, faults={"sim-003": "hang"} if is_hanging else {}) as fleet:
            place = Workplace(folder / f"hanging-{is_hanging}", _entries(fleet), timeout_s=HANG_TIMEOUT_S)
            deploy = _deploy_command(place, "--keep-going")
            for _ in range(repeats):
                place.change_source()
                took, out = commands.timed(deploy, cwd=place.folder, exit_code=4 if is_hanging else 0)
                whole.append(took)
                others.append(max(row["seconds"] for row in json.loads(out)["nodes"] if row["ok"]))
        which = f"one hangs (timeout_s {HANG_TIMEOUT_S:g})" if is_hanging else "none hangs"
        found += [
            Comparison(f"deploy: {nodes} stubs, {which}", whole),
            Comparison("deploy: the slowest of those that answer", others),
        ]
    return found


def _deploys(
    commands: Commands, folder: Path, nodes: Sequence[InventoryNode], *, repeats: int, stock_runs: int
) -> tuple[list[float], list[float]]:
    """Time both tools by turns, each time with a source that no node has seen."""
    place = Workplace(folder, nodes)
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(max(repeats, stock_runs)):
        place.change_source()
        if turn < repeats:
            took, out = commands.timed(_deploy_command(place), cwd=place.folder)
            _must_have_brought(json.loads(out), len(nodes))
            ours.append(took)
        if turn < stock_runs:
            took, out = commands.timed([program("scrapyd-deploy"), "-a"], cwd=place.theirs)
            # It ends with 0 whatever happened.
            assert out.count('"status": "ok"') == len(nodes), out
            theirs.append(took)
    return ours, theirs


def _deploy_command(place: Workplace, *more: str) -> list[str | Path]:
    return [program("crawlctl"), "deploy", place.ours, "--output", "json", *more]


def _must_have_brought(told: dict[str, Any], nodes: int) -> None:
    steps = [row["step"] for row in told["nodes"]]
    assert steps == ["done"] * nodes, f"not every node was brought the egg: {steps}"


def _entries(fleet: Fleet) -> list[NodeEntry]:
    return [NodeEntry(*host) for host in fleet.hosts]
