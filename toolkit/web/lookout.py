"""What all pages share of one server: the board of jobs, the last glances, and the one reader behind live pages.

Made when it is first asked for, and kept with the app; it holds nothing that belongs to one user.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from fastapi import Request

from toolkit.cluster.board import Board, BoardView
from toolkit.cluster.crawls import CrawlState, state_of
from toolkit.cluster.desk import Desk
from toolkit.cluster.job_log import JobLogs
from toolkit.cluster.membership import PLUG_IN
from toolkit.cluster.rates import Rates
from toolkit.config.log_places import LogAddress
from toolkit.model.crawls import CrawlView
from toolkit.model.crons import CronView
from toolkit.model.errors import CrawlctlError, StoreUnreachableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.samples import ClusterSample
from toolkit.model.snapshot import Snapshot
from toolkit.web.glance import Glances
from toolkit.web.visitor import served_by

BOARD_FRESH_S = 1.0
SNAPSHOT_FRESH_S, ASKED_FRESH_S = 2.0, 8.0
SAMPLES_FRESH_S = 5.0
RESTS, MOST_FRESH_S = 20, 25.0
"""A long reading is followed by a rest of so many times its length, at most so long."""
SAMPLE_LASTS_S = 45.0
MAX_ROWS = 10


class Lookout:
    """Reads the cluster for every page of one server. Any thread may call; all raise `CrawlctlError`."""

    def __init__(self, desk: Desk, *, log_place: LogAddress | None = None) -> None:
        self.desk = desk
        self.log_place = log_place
        self.glances = Glances()
        self.nodes_fresh_s = SNAPSHOT_FRESH_S
        """How old what nodes say may be: stock ones are asked each by HTTP, and not all the time."""
        self._crawls_fresh_s = SNAPSHOT_FRESH_S
        self._board = Board(desk)

    @cached_property
    def logs(self) -> JobLogs:
        """The logs of jobs, wherever they are."""
        return JobLogs(self.desk.nodes, self.desk.open_store, place=self.log_place)

    def begin(self) -> None:
        """Let jobs and nodes be read at once: where stock nodes are asked, each may take as long as the slowest."""
        with suppress(CrawlctlError):
            self.glances.soon("board", self._board.look, fresh_s=BOARD_FRESH_S)

    def board(self) -> BoardView:
        """Return the jobs as they were at most a second ago."""
        return self.glances.get("board", self._board.look, fresh_s=BOARD_FRESH_S)

    def snapshot(self) -> Snapshot:
        """Return the cluster as it was a few seconds ago."""
        snapshot = self.glances.get("snapshot", self.desk.snapshot, fresh_s=self.nodes_fresh_s)
        is_asked = any(node.kind != PLUG_IN for node in snapshot.nodes)
        self.nodes_fresh_s = ASKED_FRESH_S if is_asked else SNAPSHOT_FRESH_S
        return snapshot

    def samples(self) -> Sequence[ClusterSample]:
        """Return what the cluster did of late, oldest first; nothing where there is no Redis."""
        shared = self.desk.store.shared
        if shared is None:
            return ()
        return self.glances.get("samples", shared.samples.of_cluster, fresh_s=SAMPLES_FRESH_S)

    def next_crons(self, limit: int = MAX_ROWS) -> Sequence[CronView]:
        """Return the crons that fire next, the soonest first; nothing where there is no Redis."""
        shared = self.desk.store.shared
        if shared is None:
            return ()
        return self.glances.get(("crons", limit), lambda: shared.crons.soonest(limit=limit), fresh_s=SNAPSHOT_FRESH_S)

    def crawls(self) -> Sequence[CrawlView]:
        """Return all crawls as they were a few seconds ago; their sizes are not counted anew for each browser."""
        return self.glances.get("crawls", self._read_crawls, fresh_s=self._crawls_fresh_s)

    def _read_crawls(self) -> Sequence[CrawlView]:
        begun_s = time.monotonic()
        found = self.desk.crawls()
        self._crawls_fresh_s = fresh_for_s(time.monotonic() - begun_s)
        return found


def fresh_for_s(took_s: float) -> float:
    """Return for how long a reading will do that took so long: of thousands of crawls it is not taken anew at once."""
    return min(max(SNAPSHOT_FRESH_S, took_s * RESTS), MOST_FRESH_S)


def lookout_of(request: Request, desk: Desk) -> Lookout:
    """Return the server's lookout, made with the first desk that comes: all look at the same cluster."""
    kept: Lookout | None = getattr(request.app.state, "lookout", None)
    if kept is None:
        kept = request.app.state.lookout = Lookout(desk, log_place=served_by(request).log_place)
    return kept


@dataclass(frozen=True, slots=True)
class Overview:
    """The cluster at a glance. What could not be read is empty, and `away` says why."""

    snapshot: Snapshot
    board: BoardView | None
    running: Sequence[Job]
    trouble: Sequence[Job]
    next_crons: Sequence[CronView]
    crawls: Sequence[tuple[CrawlView, CrawlState]]
    samples: Sequence[ClusterSample]
    away: str | None = None

    @property
    def node_states(self) -> Counter[str]:
        """How many nodes are in each state."""
        return Counter(node.state.value for node in self.snapshot.nodes)

    @property
    def rates(self) -> Rates:
        """What is done a second: as it was sampled last, or as the board saw it where no node samples."""
        last = self.samples[-1] if self.samples else None
        if last is not None and (self.snapshot.at - last.at).total_seconds() < SAMPLE_LASTS_S:
            return Rates(last.pages_per_s, last.items_per_s, last.errors_per_s)
        return Rates() if self.board is None else self.board.totals

    @property
    def slots(self) -> tuple[int, int]:
        """How many slots are taken, and how many there are on nodes that may use them."""
        usable = [node for node in self.snapshot.nodes if node.running is not None]
        return sum(node.running or 0 for node in usable), sum(node.slots or 0 for node in usable)


def overview_of(lookout: Lookout) -> Overview:
    """Read what the overview shows; a store that is away costs what only it knows."""
    lookout.begin()
    snapshot = lookout.snapshot()
    board, away = None, None
    crons: Sequence[CronView] = ()
    crawls: Sequence[CrawlView] = ()
    samples: Sequence[ClusterSample] = ()
    try:
        board = lookout.board()
        crons, samples, crawls = lookout.next_crons(), lookout.samples(), lookout.crawls()
    except StoreUnreachableError as error:
        away = error.message
    jobs = () if board is None else tuple(board.jobs.values())
    return Overview(snapshot, board, busiest(board), troubled(jobs), crons, under_way(crawls), samples, away)


def busiest(board: BoardView | None) -> list[Job]:
    """Return the jobs that run, the fastest first. Pure."""
    if board is None:
        return []
    rates = board.rates
    active = [job for job in board.jobs.values() if job.state.is_active]
    return sorted(active, key=lambda job: (-(rates[job.id].pages if job.id in rates else 0), job.id))[:MAX_ROWS]


def troubled(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs that failed or were lost, the newest first. Pure."""
    bad = [job for job in jobs if job.state in {JobState.FAILED, JobState.LOST} and job.ended_at is not None]
    return sorted(bad, key=lambda job: str(job.ended_at), reverse=True)[: MAX_ROWS - 2]


def under_way(crawls: Sequence[CrawlView]) -> list[tuple[CrawlView, CrawlState]]:
    """Return the crawls that are not over, the busiest first. Pure."""
    states = [(view, state_of(view)) for view in crawls]
    open_ones = [each for each in states if each[1] is not CrawlState.OVER]
    return sorted(open_ones, key=lambda each: -(each[0].pages_per_minute or 0))[:MAX_ROWS]
