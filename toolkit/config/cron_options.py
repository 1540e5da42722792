"""The options of a cron, in the inventory's section `crons` or a file of its own: a part of the one table."""

from __future__ import annotations

from toolkit.config.option import Form, Option, Scope
from toolkit.model.crons import Cron, Late, Overlap
from toolkit.model.jobs import MAX_PRIORITY
from toolkit.model.names import SpiderName
from toolkit.model.orders import MAX_ATTEMPTS

_PLAIN = Cron("", SpiderName(""))
_SPAN = r"^([0-9]{1,9}[smhdw])+$"
_SPAN_SHAPE = "a span of time, as in 30s, 10m, 1h30m, 2d"
CRON_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$"
CRON_NAME_SHAPE = "up to 200 letters, digits, '_', '-' and '.', a letter, digit or '_' first"


def _text(name: str, meaning: str, default_words: str = "none") -> Option:
    return Option(name, Scope.CRON, Form.TEXT, meaning, default_words=default_words)


def _span(name: str, meaning: str, default_words: str) -> Option:
    return Option(name, Scope.CRON, Form.TEXT, meaning, default_words=default_words, pattern=_SPAN, shape=_SPAN_SHAPE)


CRON_OPTIONS: tuple[Option, ...] = (
    _text("spider", "The spider that it runs.", "none; it must be said"),
    _text("project", "The project of the spider.", "the one whose active release has it, at each firing"),
    _text("at", "When it is due: a cron expression of five fields, or @hourly, @daily, @weekly, @monthly, @yearly."),
    _text("after", "Or the spider whose jobs it follows, and how they must have ended: SPIDER success, failed or any."),
    Option("timezone", Scope.CRON, Form.TEXT, "The time zone of its times.", default=_PLAIN.timezone),
    _span("jitter", "The most by which a firing is put off, by chance.", "not at all"),
    _text("start", "The day or time from which on it is due.", "at once"),
    _text("end", "The last day or time at which it is due.", "never"),
    Option("args", Scope.CRON, Form.LABELS, "Arguments of the spider; they may hold templates.", default_words="none"),
    Option("settings", Scope.CRON, Form.LABELS, "Scrapy settings; they may hold templates.", default_words="none"),
    _text("on", "The only hosts, as a pattern; it is read when the file is applied.", "all"),
    Option(
        "priority",
        Scope.CRON,
        Form.NUMBER,
        "Its jobs' priority in the queue.",
        default=_PLAIN.priority,
        minimum=-MAX_PRIORITY,
        maximum=MAX_PRIORITY,
    ),
    Option(
        "attempts",
        Scope.CRON,
        Form.INTEGER,
        "How often a job is begun at most, if its node is lost.",
        default=_PLAIN.attempts,
        minimum=1,
        maximum=MAX_ATTEMPTS,
    ),
    _span("timeout", "When a job has run so long, it is stopped.", "never"),
    Option(
        "workers",
        Scope.CRON,
        Form.INTEGER,
        "How many jobs a firing has; they share a crawl.",
        default=_PLAIN.workers,
        minimum=1,
        maximum=1000,
    ),
    _text("crawl", "The crawl that its jobs share, if the spider uses the frontier.", "that of spider and args"),
    Option(
        "overlap",
        Scope.CRON,
        Form.CHOICE,
        "What happens when it is due while a job of its last firing has not ended.",
        default=_PLAIN.overlap.value,
        choices=tuple(each.value for each in Overlap),
    ),
    Option(
        "late",
        Scope.CRON,
        Form.CHOICE,
        "What happens when the cluster was away at times when it was due.",
        default=_PLAIN.late.value,
        choices=tuple(each.value for each in Late),
    ),
    Option(
        "paused",
        Scope.CRON,
        Form.CHOICE,
        "Whether it waits to be resumed.",
        default_words="as crawlctl cron pause left it",
        choices=("true", "false"),
    ),
    _text("comment", "What it is for."),
)
