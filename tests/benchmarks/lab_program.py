"""The lab benchmark's command line: one host and eight made nodes of, looked at again, and given releases."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.lab_rollouts import own_work_s, wave_sizes
from benchmarks.lab_timing import Cost, Stopwatch
from benchmarks.measuring import described_machine
from support.lab.base import why_not
from support.lab.lab import Lab
from support.lab.operating import LabOperator
from support.lab.wheels import ensure_wheelhouse
from support.lab.wishes import HostWish, several
from support.market import Market

_ROW = "{:<52} {:>9} {:>9} {:>9} {:>7}"
_ALONE = "h1"
_WAVES = ("--canary", "1", "--waves", "50%,100%")


@dataclass(slots=True)
class Found:
    """What was measured so far, in the order of the runs."""

    alone: list[Cost] = field(default_factory=list)
    together: list[Cost] = field(default_factory=list)
    again_alone: list[Cost] = field(default_factory=list)
    again_together: list[Cost] = field(default_factory=list)
    changed_again: int = 0
    own_work: list[float] = field(default_factory=list)
    rollouts: list[Cost] = field(default_factory=list)
    before_rollouts: list[Cost] = field(default_factory=list)

    @property
    def overhead(self) -> float:
        """What a rollout in waves takes more than the nodes' own work, as a share of that."""
        rollout = _median(self.rollouts) - _median(self.before_rollouts)
        own = statistics.median(self.own_work)
        return rollout / own - 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it, print the table, and end with the line of JSON."""
    given = _parser().parse_args(arguments)
    if reason := why_not():
        sys.stderr.write(f"{reason}\n")
        return 1
    _say(described_machine())
    found, many = Found(), 2 if given.quick else 8
    with tempfile.TemporaryDirectory(prefix="bench-lab-") as scratch:
        folder, market = Path(scratch) / "operator", Market(Path(scratch) / "market")
        _warm_up(folder)
        for number in range(1 if given.quick else given.repeats):
            with Lab(f"bench-{os.getpid()}", (*several(many + 1), HostWish("redis", redis=True))) as lab:
                operator = _operator(lab, folder)
                _forget_files()
                _provision(operator, found, many)
                if number == 0:
                    _roll_out(operator, market, found, repeats=1 if given.quick else given.repeats)
    _say(_table(found, many))
    _say(_last_line(found))
    return 0


def _forget_files() -> None:
    """Let the kernel begin without what it remembers of files.

    On a machine that has made and removed millions of them it spends far longer on each new one otherwise, and that
    would be measured instead.
    """
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")


def _operator(lab: Lab, folder: Path) -> LabOperator:
    operator = LabOperator(lab, folder)
    operator.has_inventory(everywhere={"provision.wheelhouse": str(ensure_wheelhouse())})
    return operator


def _warm_up(folder: Path) -> None:
    """Let versions be chosen and wheels be packed once: that is done for all hosts of an inventory, not for each."""
    with Lab(f"bench-{os.getpid()}", (*several(1), HostWish("redis", redis=True))) as lab:
        _operator(lab, folder).expects("nodes", "provision", "--yes")


def _provision(operator: LabOperator, found: Found, many: int) -> None:
    others = ":".join(f"h{number}" for number in range(2, many + 2))
    for times, pattern in ((found.alone, _ALONE), (found.together, others)):
        with Stopwatch(operator.lab) as watch:
            operator.expects("nodes", "provision", "--on", pattern, "--yes")
        times.append(watch.cost)
    for times, pattern in ((found.again_alone, _ALONE), (found.again_together, others)):
        with Stopwatch(operator.lab) as watch:
            told = operator.expects("nodes", "provision", "--on", pattern, "--yes", "--output", "json").json()
        times.append(watch.cost)
        found.changed_again += sum(len(row["steps"]) for row in told)


def _roll_out(operator: LabOperator, market: Market, found: Found, *, repeats: int) -> None:
    """Time a rollout in waves, the same up to its first node, and the same uploads without anything else."""
    for number in range(repeats):
        market.change(f"release {number}")
        egg = operator.folder / "market.egg"
        operator.expects("build", str(market), "--out", str(egg))
        words = ("deploy", "--egg", str(egg), "-p", "market", "--version", f"r{number}", *_WAVES)
        with Stopwatch(operator.lab) as watch:
            operator.expects(*words, "--dry-run")
        found.before_rollouts.append(watch.cost)
        found.own_work.append(own_work_s(operator, egg.read_bytes(), f"own{number}", waves=wave_sizes(operator)))
        with Stopwatch(operator.lab) as watch:
            operator.expects(*words)
        found.rollouts.append(watch.cost)


def _table(found: Found, many: int) -> str:
    head = ("medians, seconds", "took", "on hosts", "operator", "cores")
    rows = (
        ("provision 1 fresh host", found.alone),
        (f"provision {many} fresh hosts at once", found.together),
        ("the same host again, unchanged", found.again_alone),
        (f"the same {many} again, unchanged", found.again_together),
        ("deploy --dry-run (start, spider list, looking)", found.before_rollouts),
        (f"deploy in waves over {many + 1}", found.rollouts),
    )
    lines = [_ROW.format(*head)]
    lines += [_ROW.format(what, *_shown(costs)) for what, costs in rows]
    own = statistics.median(found.own_work)
    lines.append(_ROW.format("the nodes' own addversion, wave by wave", f"{own:.2f}", "", "", ""))
    return "\n".join(lines)


def _shown(costs: Sequence[Cost]) -> tuple[str, ...]:
    took, hosts = _median(costs), statistics.median(cost.hosts_cpu_s for cost in costs)
    operator = statistics.median(cost.operator_cpu_s for cost in costs)
    return f"{took:.2f}", f"{hosts:.2f}", f"{operator:.2f}", f"{(hosts + operator) / took:.2f}"


def _last_line(found: Found) -> str:
    told = {
        "provision_s": {"1": round(_median(found.alone), 2), "8": round(_median(found.together), 2)},
        "again_s": round(_median(found.again_alone), 2),
        "changed_again": found.changed_again,
        "rollout_overhead": round(found.overhead, 3),
    }
    return json.dumps(told)


def _median(costs: Sequence[Cost]) -> float:
    return statistics.median(cost.took_s for cost in costs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Provisioning and rollouts on real hosts of this machine.")
    parser.add_argument("--quick", action="store_true", help="two hosts instead of eight, one run: does it still work?")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each; the median counts")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
