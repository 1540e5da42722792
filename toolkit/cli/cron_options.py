"""The options with which a cron is defined and changed, and what they make of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolkit.cli import completion
from toolkit.cli.durations import seconds
from toolkit.model.crons import Late, Overlap
from toolkit.model.errors import UsageError

if TYPE_CHECKING:
    from toolkit.cli.session import Session
    from toolkit.model.crons import Cron

CronNameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The cron's name.", autocompletion=completion.crons)
]
CronNamesArgument = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="The crons' names.", autocompletion=completion.crons)
]
NewNameArgument = Annotated[str, typer.Argument(metavar="NAME", help="What the cron is to be called.")]
SpiderArgument = Annotated[
    str, typer.Argument(metavar="SPIDER", help="The spider that it runs.", autocompletion=completion.spiders)
]
SpiderOption = Annotated[
    str | None, typer.Option("--spider", help="Another spider that it runs.", autocompletion=completion.spiders)
]
AtOption = Annotated[
    str | None,
    typer.Option(metavar="EXPRESSION", help="When: minute hour day month weekday, as in '30 3 * * 1-5', or @daily."),
]
AfterOption = Annotated[
    str | None,
    typer.Option(metavar="SPIDER", help="After each job of it that ended so: 'SPIDER success', failed or any."),
]
TimezoneOption = Annotated[
    str | None, typer.Option(metavar="ZONE", help="The zone of its times, as in Europe/Berlin.", show_default="UTC")
]
JitterOption = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Put each firing off by up to so much, by chance: 30s, 10m.")
]
StartOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="From when on it is due: a day or an ISO time, in its zone.")
]
EndOption = Annotated[str | None, typer.Option(metavar="TIME", help="The last day or time at which it is due.")]
ArgumentOption = Annotated[
    list[str] | None,
    typer.Option("--argument", "-a", metavar="K=V", help="A spider argument, templates allowed; repeatable."),
]
SettingOption = Annotated[
    list[str] | None,
    typer.Option("--setting", "-s", metavar="K=V", help="A Scrapy setting, templates allowed; repeatable."),
]
WithoutOption = Annotated[
    list[str] | None, typer.Option("--without", metavar="K", help="Take this argument or setting out; repeatable.")
]
PriorityOption = Annotated[float | None, typer.Option(help="Its jobs' priority in the queue.", show_default="0")]
AttemptsOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", show_default="2", help="How often a job is begun at most, if its node is lost."),
]
TimeoutOption = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Stop a job when it has run so long: 90s, 30m, 2h.")
]
WorkersOption = Annotated[int | None, typer.Option(min=1, help="How many jobs a firing has.", show_default="1")]
CrawlOption = Annotated[
    str | None, typer.Option(metavar="ID", help="The crawl that its jobs share.", autocompletion=completion.crawls)
]
OverlapOption = Annotated[
    Overlap | None, typer.Option(help="When a job of its last firing has not ended.", show_default="skip")
]
LateOption = Annotated[Late | None, typer.Option(help="When the cluster was away at due times.", show_default="once")]
PausedOption = Annotated[bool | None, typer.Option("--paused", help="Let it wait to be resumed.")]
CommentOption = Annotated[str | None, typer.Option(metavar="TEXT", help="What it is for.")]


@dataclass(frozen=True, slots=True)
class CronWords:
    """What the command line says of a cron; `None` is not said, and an empty text takes a choice back."""

    at: str | None
    after: str | None
    project: str | None
    timezone: str | None
    jitter: str | None
    start: str | None
    end: str | None
    args: Sequence[str] | None
    settings: Sequence[str] | None
    on: str | None
    priority: float | None
    attempts: int | None
    timeout: str | None
    workers: int | None
    crawl: str | None
    overlap: Overlap | None
    late: Late | None
    paused: bool | None
    comment: str | None
    spider: str | None = None
    without: Sequence[str] | None = None

    def laid_on(self, session: Session, cron: Cron) -> Cron:
        """Return the cron with what is said; of `at` and `after`, saying one takes the other back.

        Raises:
            UsageError: a word cannot be read; both of them are said.

        """
        if self.at and self.after:
            raise UsageError("--at and --after both say when: give one of them")
        said = {
            **self._plain(),
            **self._when(cron),
            "args": self._pairs(cron.args, self.args, "-a"),
            "settings": self._pairs(cron.settings, self.settings, "-s"),
        }
        if self.on is not None:
            said["on"] = tuple(host.name for host in session.hosts(self.on)) if self.on else None
        if unknown := set(self.without or ()) - {*cron.args, *cron.settings}:
            raise UsageError(f"there is no argument and no setting {min(unknown)!r} to take out")
        return replace(cron, **said)

    def _plain(self) -> dict[str, Any]:
        names = (
            "project",
            "timezone",
            "priority",
            "attempts",
            "workers",
            "crawl",
            "overlap",
            "late",
            "comment",
            "spider",
        )
        said = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        said = {name: value or None if isinstance(value, str) else value for name, value in said.items()}
        if self.timezone == "":
            said["timezone"] = "UTC"
        if self.jitter is not None:
            said["jitter_s"] = float(seconds(self.jitter)) if self.jitter else 0.0
        if self.timeout is not None:
            said["timeout_s"] = float(seconds(self.timeout)) if self.timeout else None
        if self.paused is not None:
            said["is_paused"] = self.paused
        return said

    def _when(self, cron: Cron) -> dict[str, Any]:
        from toolkit.config.cron_words import after_of, moment_of

        zone = self.timezone or cron.timezone
        said: dict[str, Any] = {}
        if self.at:
            said |= {"at": self.at, "after": None}
        if self.after:
            said |= {"at": None, "after": after_of(self.after)}
        if self.start is not None:
            said["starts_at"] = moment_of(self.start, zone) if self.start else None
        if self.end is not None:
            said["ends_at"] = moment_of(self.end, zone, is_end=True) if self.end else None
        return said

    def _pairs(self, known: Any, texts: Sequence[str] | None, option: str) -> dict[str, str]:
        left = {name: value for name, value in known.items() if name not in (self.without or ())}
        for text in texts or ():
            name, mark, value = text.partition("=")
            if not mark or not name:
                raise UsageError(f"{option} {text!r} is not of the form NAME=VALUE")
            left[name] = value
        return left
