"""One job on the whole screen: what it is, how fast it goes, what came back, and its log as it grows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from toolkit.cluster.desk import Desk
from toolkit.cluster.job_log import JobLogs
from toolkit.cluster.rates import Rates
from toolkit.model.errors import CrawlctlError
from toolkit.model.jobs import Job, JobState
from toolkit.model.samples import JobSample
from toolkit.top.background import in_thread, is_there
from toolkit.top.columns import Cell, plain, sized
from toolkit.top.header import Bar, BarLine, footer_line
from toolkit.top.lines import LinesView
from toolkit.top.log_tail import LogNews, LogTail
from toolkit.top.seen import Seen
from toolkit.top.sparklines import count_text, rate_text, sparkline
from toolkit.views.jobs import STYLES, duration_text, reason_text

HEAD_LINES = 9
LOG_EVERY_S = 1.0
MAX_POINTS = 200
STEP = timedelta(seconds=10)
LEFT_WIDTH = 58
STATUS_STYLES = {"2": "bold green", "3": "bold cyan", "4": "bold yellow", "5": "bold red"}
KEYS = (
    *(("esc", "back"), ("c", "cancel"), ("p", "pause"), ("u", "resume"), ("t", "tune"), ("r", "retry"), ("w", "why")),
    ("↑↓ End", "log"),
)


class JobScreen(Screen[None]):
    """Shows one job until it is left; the app brings what each look has seen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,left", "leave", show=False)]

    def __init__(self, job: Job, desk: Desk, logs: JobLogs, *, seen: Seen) -> None:
        super().__init__()
        self.job = job
        self._desk = desk
        self._now = seen.at
        self._rates: Rates | None = seen.board.rates.get(job.id)
        self._past: deque[Rates] = deque(maxlen=MAX_POINTS)
        self._step_at: datetime | None = None
        self._tail = LogTail(logs)
        self._is_reading = False
        self._log_note = ""

    def compose(self) -> ComposeResult:
        """Lay out the facts above the log."""
        yield Bar(HEAD_LINES, name="facts")
        yield LinesView(follows=True, name="log")
        yield Bar(1, name="message")
        yield Bar(1, name="footer")

    def on_mount(self) -> None:
        """Begin to read the job's past and its log."""
        self.query_one("#footer", Bar).show(footer_line(KEYS))
        self.query_one(LinesView).focus()
        in_thread(self.app, self._samples, then=self._take_past, failed=lambda _: None)
        self.set_interval(LOG_EVERY_S, self._read_log)
        self._read_log()

    def on_resize(self) -> None:
        """Lay the facts out anew."""
        self._draw()

    def show(self, seen: Seen) -> None:
        """Show the job as a look has seen it."""
        self._now = seen.at
        self.job = seen.board.jobs.get(self.job.id, self.job)
        self._rates = seen.board.rates.get(self.job.id)
        if self._rates is not None:
            self._note_speed(self._rates)
        self._draw()

    def action_leave(self) -> None:
        """Go back to the tables."""
        self.dismiss(None)

    def _draw(self) -> None:
        if not is_there(self):
            return
        lines = job_head(self.job, self._rates, list(self._past), now=self._now, width=self.size.width)
        self.query_one("#facts", Bar).show(*lines, log_rule(self._log_note, width=self.size.width))

    def _note_speed(self, rates: Rates) -> None:
        """Remember a point every ten seconds, as the samples are; the last one is that of now."""
        if self._step_at is None or self._now >= self._step_at + STEP:
            self._past.append(rates)
            self._step_at = self._now
        else:
            self._past[-1] = rates

    def _samples(self) -> Sequence[JobSample]:
        shared = self._desk.store.shared
        return () if shared is None else shared.samples.of_job(self.job.id)

    def _take_past(self, samples: Sequence[JobSample]) -> None:
        self._past.extendleft(reversed(rates_of(samples)))
        self._draw()

    def _read_log(self) -> None:
        if self._is_reading or self._tail.is_over:
            return
        self._is_reading = True
        job = self.job
        in_thread(self.app, lambda: self._tail.more(job), then=self._take_log, failed=self._log_failed)

    def _take_log(self, news: LogNews) -> None:
        self._is_reading = False
        if not is_there(self):
            return
        self.query_one(LinesView).add(news.lines)
        self._log_note = news.source
        self._draw()

    def _log_failed(self, error: CrawlctlError) -> None:
        self._is_reading = False
        self._log_note = error.message
        self._draw()


def rates_of(samples: Sequence[JobSample]) -> list[Rates]:
    """Return the speeds between a job's samples; where a count fell, another attempt began. Pure."""
    found = []
    for older, newer in pairwise(samples):
        span_s = (newer.at - older.at).total_seconds()
        done = [
            max(0, (getattr(newer, name) or 0) - (getattr(older, name) or 0)) for name in ("pages", "items", "errors")
        ]
        if span_s > 0:
            found.append(Rates(*(count / span_s for count in done)))
    return found


def job_head(job: Job, rates: Rates | None, past: Sequence[Rates], *, now: datetime, width: int) -> list[BarLine]:
    """Tell of a job in the lines above its log. Pure."""
    took = duration_text(job, now=now)
    title = (
        Cell(f" {job.id} ", "bold reverse"),
        Cell(" "),
        Cell(job.state.value, f"bold {STYLES[job.state]}"),
        Cell("" if took is None else f"  for {took}"),
    )
    what = (
        Cell(f" {plain(job.spider)}", "bold"),
        Cell(f" of {plain(job.project)} {plain(job.version or '')}" + (f"  on {plain(job.node)}" if job.node else "")),
    )
    spark = max(0, min(MAX_POINTS, min(LEFT_WIDTH, width) - 26))
    speeds: list[BarLine] = [
        _speed(
            "pages",
            job.pages,
            None if rates is None else rates.pages,
            [each.pages for each in past],
            spark=spark,
            style="cyan",
        ),
        _speed(
            "items",
            job.items,
            None if rates is None else rates.items,
            [each.items for each in past],
            spark=spark,
            style="green",
        ),
        _speed(
            "errors",
            job.errors,
            None if rates is None else rates.errors,
            [each.errors for each in past],
            spark=spark,
            style="red",
        ),
    ]
    reason = reason_text(job, now=now)
    return [title, what, *speeds, statuses_line(job.statuses, width=width), _resources(job), _why(job, reason)]


def statuses_line(statuses: Mapping[str, int] | None, *, width: int) -> BarLine:
    """Show what was answered by HTTP status, each with its share; what comes least is left out where it is narrow."""
    answers = sum((statuses or {}).values())
    cells = [Cell(" answers", "dim")]
    left = width - cell_len(cells[0].text)
    for status, count in sorted((statuses or {}).items(), key=lambda pair: (-pair[1], pair[0])):
        told = f" {status} "
        number = f"{count_text(count)} ({count / answers:.0%}) "
        left -= len(told) + len(number)
        if left < 0:
            break
        cells += [Cell(told, STATUS_STYLES.get(status[:1], "")), Cell(number)]
    return (*cells, Cell(" none yet", "dim")) if len(cells) == 1 else tuple(cells)


def log_rule(note: str, *, width: int) -> BarLine:
    """Draw the line between the facts and the log. Pure."""
    text = sized(f"── log {'· ' + plain(note) + ' ' if note else ''}" + "─" * width, width)
    return (Cell(text.replace("…", "─"), "dim"),)


def _speed(name: str, count: int | None, rate: float | None, past: list[float], *, spark: int, style: str) -> BarLine:
    is_wrong = name == "errors" and bool(count)
    return (
        Cell(f" {name:<7}", "dim"),
        Cell(f"{count_text(count) or '-':>9}", "bold red" if is_wrong else "bold"),
        Cell(f"{'' if rate is None else rate_text(rate) + '/s':>8} "),
        Cell(sparkline(past, spark), style),
    )


def _resources(job: Job) -> BarLine:
    told = (
        ("memory", None if job.memory_mb is None else f"{job.memory_mb:.0f} MB"),
        ("fetched", None if job.bytes is None else f"{job.bytes / 1e6:,.1f} MB"),
        ("retries", None if job.retries is None else f"{job.retries:,}"),
        ("try", None if job.attempt is None else f"{job.attempt}/{job.attempts or '?'}"),
        ("priority", f"{job.priority:g}" if job.priority else None),
        ("pid", job.pid),
        ("exit", job.signal if job.signal is not None else job.exit_code),
        ("by", job.scheduled_by),
    )
    known = [(name, value) for name, value in told if value is not None]
    return tuple(cell for name, value in known for cell in (Cell(f" {name} ", "dim"), Cell(f"{plain(str(value))} ")))


def _why(job: Job, reason: str | None) -> BarLine:
    asked = " ".join(f"{name}={value}" for name, value in (job.args or {}).items())
    cells = [Cell(f" {plain(reason)}  ", "bold yellow" if job.state is JobState.FAILED else "")] if reason else []
    return (*cells, Cell(" args " if asked else "", "dim"), Cell(plain(asked)))
