"""The benchmark's command line: which parts are run, how often, and how large."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import asking, building, deploying
from benchmarks.measuring import Commands, Comparison, described_machine
from benchmarks.report import last_line, table


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a run is; the names in the last line are those of the full one."""

    repeats: int = 5
    stock_runs: int = 1
    stubs: int = 60
    addversion_s: float = 0.55
    real_nodes: int = 20
    some_nodes: int = 200
    many_nodes: int = 1000
    answer_s: float = 0.05


FULL = Sizes()
QUICK = Sizes(1, 1, stubs=3, addversion_s=0.1, real_nodes=2, some_nodes=10, many_nodes=20, answer_s=0.01)

Part = Callable[[Commands, Path, Sizes], list[Comparison]]


def _egg(commands: Commands, folder: Path, sizes: Sizes) -> list[Comparison]:
    return building.compare_builds(commands, folder, repeats=sizes.repeats)


def _stub60(commands: Commands, folder: Path, sizes: Sizes) -> list[Comparison]:
    return deploying.compare_on_stubs(
        commands,
        folder,
        nodes=sizes.stubs,
        addversion_s=sizes.addversion_s,
        repeats=sizes.repeats,
        stock_runs=sizes.stock_runs,
    )


def _real20(commands: Commands, folder: Path, sizes: Sizes) -> list[Comparison]:
    return deploying.compare_on_real_nodes(
        commands, folder, nodes=sizes.real_nodes, repeats=sizes.repeats, stock_runs=sizes.stock_runs
    )


def _hanging(commands: Commands, folder: Path, sizes: Sizes) -> list[Comparison]:
    return deploying.measure_hanging_node(
        commands, folder, nodes=sizes.stubs, addversion_s=sizes.addversion_s, repeats=sizes.repeats
    )


def _status(commands: Commands, folder: Path, sizes: Sizes) -> list[Comparison]:
    some, many, repeats = sizes.some_nodes, sizes.many_nodes, sizes.repeats
    return [
        *asking.compare_status(commands, folder / "some", nodes=some, name="200", target="1 s", repeats=repeats),
        *asking.compare_status(commands, folder / "many", nodes=many, name="1000", target="3 s", repeats=repeats),
        *asking.compare_status(commands, folder / "slow", nodes=some, repeats=repeats, answer_s=sizes.answer_s),
    ]


def _jobs(commands: Commands, folder: Path, sizes: Sizes) -> list[Comparison]:
    return asking.compare_jobs(commands, folder, nodes=sizes.some_nodes, repeats=sizes.repeats)


def _help(commands: Commands, folder: Path, sizes: Sizes) -> list[Comparison]:
    return building.measure_help(commands, folder, repeats=2 * sizes.repeats)


PARTS: dict[str, Part] = {
    "egg": _egg,
    "stub60": _stub60,
    "real20": _real20,
    "hanging": _hanging,
    "status": _status,
    "jobs": _jobs,
    "help": _help,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts asked for, print the table, and end with the line of JSON."""
    given = _parser().parse_args(arguments)
    sizes = QUICK if given.quick else Sizes(given.repeats, given.stock_runs)
    _say(described_machine())
    if given.quick:
        _say("quick: sizes are smaller than the names in the last line say, and nothing is repeated")
    rows: list[Comparison] = []
    for name in given.parts or PARTS:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            commands = Commands(Path(folder) / "home", patience_s=given.patience_s)
            found = PARTS[name](commands, Path(folder) / name, sizes)
        sys.stderr.write(table(found) + "\n\n")
        rows += found
    _say(table(rows))
    _say(last_line(rows))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="crawlctl beside scrapyd-client and python-scrapyd-api.")
    parser.add_argument("--quick", action="store_true", help="small sizes, one run each: does it all still work?")
    parser.add_argument("--repeats", type=int, default=FULL.repeats, help="runs of each command; the median counts")
    parser.add_argument("--stock-runs", type=int, default=FULL.stock_runs, help="runs of `scrapyd-deploy -a` (51 s)")
    parser.add_argument(
        "--patience-s",
        type=float,
        default=0.0,
        metavar="S",
        help="wait so long for an idle machine before each command",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", type=_part, help=f"only these of: {', '.join(PARTS)}")
    return parser


def _part(name: str) -> str:
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(PARTS)}")
    return name


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
