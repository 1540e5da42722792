"""Eggs: the same tree built by crawlctl and by scrapyd-client, as a step and as whole commands; and the help."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks.measuring import Commands, Comparison, program
from benchmarks.workplace import Workplace

from toolkit.config.project import find_project
from toolkit.rollout.egg import build_egg

HELP_RUNS = 10
_STEP = Path(__file__).with_name("build_step.py")


def compare_builds(commands: Commands, folder: Path, *, repeats: int) -> list[Comparison]:
    """Time the building itself in this process, the build step as a process of its own, and the whole commands."""
    place = Workplace(folder, ())
    egg = folder / "made.egg"
    step: list[str | Path] = [sys.executable, _STEP, place.ours, egg]
    whole: list[str | Path] = [program("crawlctl"), "build", place.ours, "-o", egg]
    stock: list[str | Path] = [sys.executable, "-m", "scrapyd_client.deploy", "--build-egg", egg]
    stock_whole: list[str | Path] = [program("scrapyd-deploy"), "--build-egg", egg]
    kinds = ((step, place.ours), (whole, place.ours), (stock, place.theirs), (stock_whole, place.theirs))
    times: list[list[float]] = [[], [], [], []]
    for turn in range(repeats + 1):
        for (command, cwd), found in zip(kinds, times, strict=True):
            took = commands.seconds(command, cwd=cwd)
            if turn:  # the first one compiles modules
                found.append(took)
    peer = "scrapyd-deploy --build-egg"
    return [
        Comparison("egg: the build step, a process of its own", times[0], times[2], peer, "a tenth", key=("egg_s",)),
        Comparison("egg: whole command, `crawlctl build`", times[1], times[3], peer),
        Comparison("egg: the building itself, in a running process", _in_process(place.ours, repeats), times[2], peer),
    ]


def measure_help(commands: Commands, folder: Path, *, repeats: int = HELP_RUNS) -> list[Comparison]:
    """Time `crawlctl --help`."""
    folder.mkdir(parents=True, exist_ok=True)
    times = [commands.seconds([program("crawlctl"), "--help"], cwd=folder) for _ in range(repeats + 1)]
    return [Comparison("crawlctl --help", times[1:], target="0.2 s", key=("help_s",))]


def _in_process(root: Path, repeats: int) -> list[float]:
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        build_egg(find_project(root))
        times.append(time.perf_counter() - began)
    return times[1:]
