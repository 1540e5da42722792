"""Questions to, and jobs for, many simulated nodes: status, schedule, jobs, beside a loop over python-scrapyd-api."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import Commands, Comparison, program
from support.cli import NodeEntry, inventory_for
from support.fleet import Fleet

SPIDERS = ("prices", "products")
PEER = "python-scrapyd-api, one by one"
_ONE_BY_ONE = Path(__file__).with_name("one_by_one.py")


def compare_status(
    commands: Commands,
    folder: Path,
    *,
    nodes: int,
    repeats: int,
    name: str = "",
    target: str = "",
    answer_s: float = 0.0,
) -> list[Comparison]:
    """Ask every node for load, projects and versions; `answer_s` is the time that a node takes for each answer."""
    with Fleet(nodes=nodes, project="shop", spiders=SPIDERS, answer_s=answer_s) as fleet:
        place = _place(folder, fleet)
        ours, theirs = _by_turns(
            commands,
            place,
            [program("crawlctl"), "status", "--output", "json"],
            [sys.executable, _ONE_BY_ONE, "status", *fleet.urls],
            repeats=repeats,
            stock_runs=1 if answer_s else repeats,
        )
    if answer_s:
        return [Comparison(f"status: {nodes} nodes, each answer takes {answer_s:g} s", ours, theirs, PEER)]
    return [Comparison(f"status: {nodes} nodes", ours, theirs, PEER, target, key=("status_s", name))]


def compare_jobs(commands: Commands, folder: Path, *, nodes: int, repeats: int) -> list[Comparison]:
    """Schedule one job a node, and list them all."""
    crawlctl = program("crawlctl")
    one_by_one: list[str | Path] = [sys.executable, _ONE_BY_ONE]
    schedule: list[str | Path] = [
        crawlctl,
        "schedule",
        "prices",
        "-p",
        "shop",
        "--version",
        "v1",
        "--workers",
        str(nodes),
    ]
    listing: list[str | Path] = [crawlctl, "jobs", "list", "--limit", str(nodes)]
    with Fleet(nodes=nodes, project="shop", spiders=SPIDERS, job_s=0.2) as fleet:
        place = _place(folder, fleet)
        scheduled, by_turn = _by_turns(
            commands, place, [*schedule, "--output", "json"], [*one_by_one, "schedule", *fleet.urls], repeats=repeats
        )
        listed, in_turn = _by_turns(
            commands, place, [*listing, "--output", "json"], [*one_by_one, "jobs", *fleet.urls], repeats=repeats
        )
    return [
        Comparison(f"schedule: {nodes} jobs on {nodes} nodes", scheduled, by_turn, PEER),
        Comparison(f"jobs list: {nodes} nodes", listed, in_turn, PEER),
    ]


def _place(folder: Path, fleet: Fleet) -> Path:
    inventory_for([NodeEntry(*host) for host in fleet.hosts], None, folder / "inventory.yaml")
    return folder


def _by_turns(
    commands: Commands,
    place: Path,
    ours: Sequence[str | Path],
    theirs: Sequence[str | Path],
    *,
    repeats: int,
    stock_runs: int | None = None,
) -> tuple[list[float], list[float]]:
    our_times: list[float] = []
    their_times: list[float] = []
    for turn in range(repeats):
        our_times.append(commands.seconds(ours, cwd=place))
        if turn < (repeats if stock_runs is None else stock_runs):
            their_times.append(commands.seconds(theirs, cwd=place))
    return our_times, their_times
