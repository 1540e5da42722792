"""Plays histories, one for each seed: `program.py --seed 1 --seeds 2000`; the last line is one JSON object."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from simulation.crawl_history import CrawlHistory
from simulation.queue_history import QueueHistory
from simulation.server import Real
from simulation.unmended import MENDS, Mend
from support.redis_server import RedisServer
from twisted.logger import formatEvent, globalLogPublisher


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Mistakes(logging.Handler):
    """Hears what the product logs as a mistake of its own: an exception that nobody expected."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []
        self.speaks = False
        globalLogPublisher.addObserver(self._told)  # type: ignore[arg-type]
        logging.getLogger().addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if self.speaks:
            say(f"{'':9}{record.getMessage()}")
        if record.exc_info and record.exc_info[1] is not None:
            self.heard.append(f"{record.getMessage()}: {record.exc_info[1]!r}")

    def _told(self, event: dict[str, Any]) -> None:
        if self.speaks:
            say(f"{'':9}{formatEvent(event)}")
        if "log_failure" in event:
            self.heard.append(f"{formatEvent(event)}: {event['log_failure'].value!r}")

    def speak(self) -> None:
        """Print what is logged, too."""
        self.setLevel(logging.INFO)
        logging.getLogger("toolkit").setLevel(logging.INFO)
        self.speaks = True

    def take(self) -> list[str]:
        """Return what was heard since the last time."""
        heard, self.heard = self.heard, []
        return sorted(set(heard))


def play(
    seed: int, real: Real, folder: Path, mistakes: Mistakes, *, kinds: Sequence[str] = (), say: Any = None
) -> dict[str, Any]:
    """Play one history."""
    place = folder / str(seed)
    place.mkdir(parents=True)
    os.chdir(folder)  # Scrapyd reads a scrapyd.conf that lies where it is started.
    history = (CrawlHistory if seed % 2 else QueueHistory)(seed, real, place, say=say)
    history.kinds = kinds
    broken = [*history.play(), *mistakes.take()]
    shutil.rmtree(place, ignore_errors=True)
    return {"seed": seed, "steps": history.world.steps, "faults": dict(history.faults), "broken": broken}


def quiet() -> Mistakes:
    """Let nothing be printed but mistakes."""
    logging.getLogger().setLevel(logging.ERROR)
    for name in ("scrapy", "toolkit"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return Mistakes()


def play_some(seeds: list[int], *, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """Play some histories on a server of their own."""
    mistakes = quiet()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        with RedisServer(folder / "redis") as server:
            real = Real(server.url)
            return [play(seed, real, folder, mistakes, kinds=kinds) for seed in seeds]


def play_all(
    seeds: Sequence[int], *, workers: int, kinds: Sequence[str], stops_at_broken: bool = False
) -> Iterator[dict[str, Any]]:
    """Play histories in processes of their own, each some of them at a time."""
    size = 5 if stops_at_broken else 25
    with get_context("spawn").Pool(workers) as pool:
        for some in pool.imap_unordered(
            partial(play_some, kinds=kinds), [list(seeds[at : at + size]) for at in range(0, len(seeds), size)]
        ):
            yield from some
            if stops_at_broken and any(each["broken"] for each in some):
                return


def play_without(mend: Mend, seeds: Sequence[int], *, workers: int) -> tuple[int, dict[str, Any] | None]:
    """Play histories with a mend taken back until one is broken; return how many were played, and the broken one."""
    count = 0
    with tempfile.TemporaryDirectory() as root:
        mend.take_back(Path(root))
        # The processes that play look for the package where this one would.
        sys.path.insert(0, root)
        try:
            for each in play_all(seeds, workers=workers, kinds=mend.kinds, stops_at_broken=True):
                count += 1
                if each["broken"]:
                    return count, each
        finally:
            sys.path.remove(root)
    return count, None


def main_unmended(names: Sequence[str], first: int, count: int, *, workers: int) -> int:
    """Take back each mend alone; the last line says of which no history is broken."""
    not_found = []
    for name in names or MENDS:
        mend = MENDS[name]
        kind = [seed for seed in range(first, first + 2 * count) if seed % 2 == mend.is_of_crawls]
        played, broken = play_without(mend, kind, workers=workers)
        what = f"seed {broken['seed']}: {broken['broken'][0]}" if broken else "not found"
        say(f"{name}, {played} histories: {what}")
        if not broken:
            not_found.append(name)
    say(json.dumps({"mends": len(names or MENDS), "not_found": not_found}))
    return 1 if not_found else 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kinds", nargs="*", default=(), metavar="FAULT", help="let only these faults happen")
    parser.add_argument("--trace", action="store_true", help="print what happens, step by step")
    parser.add_argument(
        "--unmended",
        nargs="*",
        choices=MENDS,
        metavar="MEND",
        help="play without these mends, or without each; one by one",
    )
    args = parser.parse_args()
    if args.unmended is not None:
        return main_unmended(args.unmended, args.seed, args.seeds, workers=args.workers)
    began = time.monotonic()
    seeds = list(range(args.seed, args.seed + args.seeds))
    results = []
    if args.trace:
        mistakes = quiet()
        mistakes.speak()
        with tempfile.TemporaryDirectory(dir="/dev/shm") as name, RedisServer(Path(name) / "redis") as server:
            results = [play(seed, Real(server.url), Path(name), mistakes, kinds=args.kinds, say=say) for seed in seeds]
    else:
        for each in play_all(seeds, workers=args.workers, kinds=args.kinds):
            results.append(each)
            for what in each["broken"]:
                say(f"seed {each['seed']}: {what}")
    faults: Counter[str] = Counter()
    for each in results:
        faults.update(each["faults"])
    broken = sorted(each["seed"] for each in results if each["broken"])
    for each in results if args.trace else ():
        say("\n".join(each["broken"]))
    say(
        json.dumps(
            {
                "histories": len(results),
                "steps": sum(each["steps"] for each in results),
                "faults_injected": dict(faults),
                "broken": broken,
                "seconds": round(time.monotonic() - began, 1),
            }
        )
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
