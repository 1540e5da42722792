"""What a command on the lab costs: time, and processor time of the hosts and of the operator's own processes."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from support.lab.lab import Lab


@dataclass(frozen=True, slots=True)
class Cost:
    """How long something took, and how much of the machine: near `took_s` times its cores, the machine is the limit."""

    took_s: float
    hosts_cpu_s: float
    operator_cpu_s: float


class Stopwatch:
    """Measures what happens while its context is entered; `cost` tells it afterwards."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._began = self._now()
        self.cost = Cost(0, 0, 0)

    def __enter__(self) -> Self:
        self._began = self._now()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        took, hosts, operator = (now - then for now, then in zip(self._now(), self._began, strict=True))
        self.cost = Cost(took, hosts, operator)

    def _now(self) -> tuple[float, float, float]:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter(), self._lab.cpu_s(), ended.ru_utime + ended.ru_stime
