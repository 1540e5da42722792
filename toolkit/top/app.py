"""The full-screen terminal: it looks at a cluster every few seconds, and does what is asked for from its screens.

What is known comes from a `Looker`, what is done goes through `Acts`, both in threads. Colours are the terminal's own,
so that it is at home on dark and light ones; whatever a colour says is said in words too.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from toolkit.cluster.acts import Acts
from toolkit.cluster.job_log import JobLogs
from toolkit.model.errors import CrawlctlError
from toolkit.model.jobs import Job
from toolkit.model.names import JobId
from toolkit.top import acting, details, keys
from toolkit.top.acting import Act, Told
from toolkit.top.background import Came, in_thread
from toolkit.top.cluster_screen import ClusterScreen
from toolkit.top.columns import Cell
from toolkit.top.deeds import deed, jobs_of
from toolkit.top.dialogs import ConfirmScreen, TuneScreen
from toolkit.top.header import Bar
from toolkit.top.job_screen import JobScreen
from toolkit.top.opening import filter_words, job_meant, page_of
from toolkit.top.pages import PageScreen
from toolkit.top.seen import Seen
from toolkit.top.tables import RowTable

PATIENCE_S = 4.0
"""A look that takes longer is told of."""


class Looker(Protocol):
    """Who looks at the cluster; `Watcher` does. It is called in a thread, one look at a time."""

    def look(self, *, visible: Collection[JobId] = (), wants_crawls: bool = False) -> Seen:
        """Return the cluster as it is now."""


class Top(App[Exception]):
    """Shows a cluster until somebody leaves; its result is an error that nobody foresaw, if one ended it."""

    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "top.tcss"
    TITLE = "crawlctl top"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", show=False, priority=True),
        *(Binding(key.name or key.key, key.action, show=False) for key in keys.KEYS if key.is_everywhere),
    ]

    def __init__(
        self, looker: Looker, acts: Acts, *, name: str, every_s: float = 2.0, logs: JobLogs | None = None
    ) -> None:
        super().__init__(ansi_color=True)
        self._logs = logs or JobLogs(acts.desk.nodes, acts.desk.open_store)
        self.seen: Seen | None = None
        self.done: list[tuple[str, Sequence[Told]]] = []
        self._acts = acts
        self._looker = looker
        self._main = ClusterScreen(name)
        self._every_s = every_s
        self._looking_since_s: float | None = None
        self._under_way = 0

    def get_default_screen(self) -> ClusterScreen:
        """Begin with the tables."""
        return self._main

    def on_mount(self) -> None:
        """Move nothing that need not move."""
        self.animation_level = "none"

    def on_ready(self) -> None:
        """Begin to look, now that there is something to show it on."""
        self.set_interval(self._every_s, self.look)
        self.look()

    def on_came(self, message: Came) -> None:
        """Show what a thread has brought, unless everything is being closed."""
        if self.is_running:
            message.then()

    # --- looking

    def look(self) -> None:
        """Begin a look, unless one is under way; of one that takes long it is told."""
        if not self.screen_stack:
            return  # Everything is being closed.
        if self._looking_since_s is not None:
            waited_s = time.monotonic() - self._looking_since_s
            if waited_s > max(PATIENCE_S, 2 * self._every_s):
                self._main.tell_trouble(f"the cluster has not answered for {waited_s:.0f} s")
            return
        self._looking_since_s = time.monotonic()
        screen = self.screen
        jobs = [screen.job] if isinstance(screen, JobScreen) else [row.job for row in self._main.visible_jobs]
        visible = frozenset(job.id for job in jobs)
        look = partial(self._looker.look, visible=visible, wants_crawls=self._main.tab.name == "crawls")
        in_thread(self, look, then=self._take, failed=self._is_away)

    def _take(self, seen: Seen) -> None:
        self._looking_since_s = None
        self.seen = seen
        self._main.show(seen)
        if isinstance(self.screen, JobScreen):
            self.screen.show(seen)

    def _is_away(self, error: CrawlctlError) -> None:
        """Keep what was seen, say of when it is, and try again at the next tick."""
        self._looking_since_s = None
        self._main.tell_trouble(error.message)
        if isinstance(self.screen, JobScreen):
            self.say(error.message, "bold red")

    def on_cluster_screen_tab_shown(self) -> None:
        """Look at once for what this tab shows."""
        self.look()

    # --- opening

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """Open what is under the cursor: a job on a screen of its own, all else as a page."""
        row = event.table.current
        if (job := job_meant(row, self.seen)) is not None and self.seen is not None:
            self.push_screen(JobScreen(job, self._acts.desk, self._logs, seen=self.seen))
        elif (page := page_of(row, self.seen, self._acts.desk)) is not None:
            self.push_screen(page)

    def action_why(self) -> None:
        """Explain the job under the cursor, or the oldest of the line."""
        if (job := next(iter(self._jobs()), None)) is not None:
            desk = self._acts.desk
            self.push_screen(PageScreen(f"why {job.id}", read=lambda: details.why_lines(desk.why(job))))

    def action_its_jobs(self) -> None:
        """Show the jobs of the node, the crawl or the line under the cursor."""
        if self.screen is self._main and (words := filter_words(self._main.table.current)):
            self._main.show_tab("jobs", words=words)

    def action_attention(self) -> None:
        """Show all that needs attention."""
        if self.seen is not None and self.screen is self._main:
            self.push_screen(PageScreen("what needs attention", details.attention_lines(self.seen.attention)))

    def action_help(self) -> None:
        """Show the keys."""
        if not isinstance(self.screen, PageScreen):
            self.push_screen(PageScreen("crawlctl top: the keys", keys.help_lines()))

    def action_acts(self) -> None:
        """Show what was done from here."""
        if not isinstance(self.screen, PageScreen):
            self.push_screen(PageScreen("what was done here", details.told_lines(self.done)))

    # --- acting

    def action_act(self, verb: str) -> None:
        """Ask whether to do it to the marked rows, or to the one under the cursor; or say why that cannot be."""
        if isinstance(self.screen, PageScreen):
            return
        rows = [self.screen.job] if isinstance(self.screen, JobScreen) else self._main.table.chosen
        if verb == "tune":
            self._tune(jobs_of(rows))
            return
        wanted = deed(verb, rows)
        if isinstance(wanted, str):
            self.say(wanted, "yellow")
        else:
            self._ask(wanted)

    def _tune(self, jobs: Sequence[Job]) -> None:
        fit = [job for job in jobs if job.state.is_active and job.is_queued]
        if not fit:
            self.say("only a job of the shared queue that a node has can be tuned", "yellow")
            return
        job = fit[0]

        def ask(wished: tuple[int | None, float | None] | None) -> None:
            if wished is not None:
                self._ask(acting.tune(job, concurrency=wished[0], delay_s=wished[1]))

        self.push_screen(TuneScreen(acting.job_words(job)), ask)

    def _ask(self, act: Act) -> None:
        self.push_screen(ConfirmScreen(act), lambda is_yes: self._perform(act) if is_yes else None)

    def _perform(self, act: Act) -> None:
        """Do it in a thread; what came of it is told when it is known."""
        place = len(self.done)
        self.done.append((act.question, ()))
        self._under_way += 1
        self._main.table.unmark()
        self.say(f"{act.doing} …", "bold")
        told = partial(self._tell, act, place)
        in_thread(self, partial(acting.performed, act, self._acts), then=told, failed=lambda _: None)

    def _tell(self, act: Act, place: int, told: Sequence[Told]) -> None:
        self._under_way -= 1
        self.done[place] = (act.question, told)
        bad = [each for each in told if each.is_bad]
        first = (bad or list(told))[:1]
        more = f"  (+{len(told) - 1} more: a)" if len(told) > 1 else ""
        self.say("".join(each.text for each in first) + more, "bold red" if bad else "bold green")
        self.look()

    def _jobs(self) -> list[Job]:
        """Return the jobs that the keys mean now."""
        if isinstance(self.screen, JobScreen):
            return [self.screen.job]
        if self.screen is not self._main:
            return []
        row = self._main.table.current
        meant = job_meant(row, self.seen)
        return [meant] if meant is not None else jobs_of([row])[:1]

    def say(self, text: str, style: str = "") -> None:
        """Tell something in the line above the footer, of the tables and of the screen over them."""
        screens: list[Screen[Any]] = [self._main, *([] if self.screen is self._main else [self.screen])]
        for screen in screens:
            for bar in screen.query("#message").results(Bar):
                bar.show((Cell(f" {text}", style),))

    async def action_quit(self) -> None:
        """Leave; while something is under way, ask first."""
        if not self._under_way or isinstance(self.screen, ConfirmScreen):
            self.exit()
            return
        note = "What was asked of nodes is done all the same; what comes of it is told nowhere, and not in the audit."
        leave = Act(f"Leave while {self._under_way} act(s) are under way?", "", (), lambda _: (), note)
        self.push_screen(ConfirmScreen(leave), lambda is_yes: self.exit() if is_yes else None)
