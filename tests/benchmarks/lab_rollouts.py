"""The nodes' own share of a rollout: the same eggs posted to the same nodes in the same waves, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from support import http_calls
from support.lab.operating import LabOperator

_USER = "crawlctl"
_PROJECT = "own"


def wave_sizes(operator: LabOperator) -> list[int]:
    """Return how many nodes each wave of a canary, half of the others and the rest has."""
    others = len(operator.lab.hosts) - 1
    return [1, others // 2, others - others // 2]


def own_work_s(operator: LabOperator, egg: bytes, version: str, *, waves: Sequence[int]) -> float:
    """Return how long the nodes take for their `addversion.json`, all of a wave at once, one wave after the other."""
    hosts, lab = list(operator.lab.hosts), operator.lab
    password = (operator.folder / ".crawlctl" / "password").read_text().strip()
    urls = [f"http://{lab.address(host)}:6800/addversion.json" for host in hosts]

    def add(url: str) -> None:
        form = {"project": _PROJECT, "version": version}
        with lab.inside():
            answer = http_calls.post(url, form, files={"egg": egg}, credentials=(_USER, password)).json()
        assert answer["status"] == "ok", answer

    began = time.perf_counter()
    with ThreadPoolExecutor(len(hosts)) as threads:
        for size in waves:
            wave, urls = urls[:size], urls[size:]
            list(threads.map(add, wave))
    return time.perf_counter() - began
