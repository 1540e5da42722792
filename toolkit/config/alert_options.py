"""The options of alerts, the inventory's section `alerts`: a part of the one table in `options.py`."""

from __future__ import annotations

from toolkit.config.option import Form, Option, Scope

SPAN = r"^([0-9]{1,9}[smhdw])+$"
SPAN_SHAPE = "a span of time, as in 30s, 10m, 1h30m, 2d"
SHARE = r"^[0-9]{1,4}%$"
ALERT_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$"
ALERT_NAME_SHAPE = "up to 100 letters, digits, '_', '-' and '.', a letter or digit first"
QUIET = r"^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]( [A-Za-z0-9_+/-]+)?$"
_GLOB_DEFAULT = "any"


def _pattern(name: str, of_what: str) -> Option:
    meaning = f"Only events of {of_what}, and jobs of it where the rule is a threshold; a glob."
    return Option(name, Scope.RULE, Form.TEXT, meaning, default_words=_GLOB_DEFAULT)


def _span(name: str, scope: Scope, meaning: str, *, default_words: str = "none") -> Option:
    return Option(name, scope, Form.TEXT, meaning, default_words=default_words, pattern=SPAN, shape=SPAN_SHAPE)


SINK_OPTIONS: tuple[Option, ...] = (
    Option(
        "kind",
        Scope.SINK,
        Form.CHOICE,
        "What the sink is: a webhook that gets JSON, one that takes what Slack's takes, a mail server, or a program.",
        default_words="none; it must be said",
        choices=("webhook", "slack", "email", "command"),
    ),
    Option(
        "url",
        Scope.SINK,
        Form.TEXT,
        "Where a webhook or Slack takes messages; never shown whole, best taken from elsewhere.",
        default_words="none",
        pattern=r"^https?://[^\s/?#]+[^\s]*$",
        shape="a URL that begins with https:// or http://",
        is_secret=True,
    ),
    Option(
        "secret",
        Scope.SINK,
        Form.TEXT,
        "What a webhook's messages are signed with; best taken from elsewhere.",
        default_words="none; they are not signed",
        pattern=r"^.{16,}$",
        shape="a text of at least 16 characters",
        is_secret=True,
    ),
    Option(
        "server",
        Scope.SINK,
        Form.TEXT,
        "The mail server's host name or address.",
        default_words="none",
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$",
        shape="a host name or IP address",
    ),
    Option(
        "port",
        Scope.SINK,
        Form.INTEGER,
        "The mail server's port.",
        default_words="587 with starttls, 465 with implicit TLS, 25 without",
        minimum=1,
        maximum=65535,
    ),
    Option(
        "tls",
        Scope.SINK,
        Form.CHOICE,
        "How the mail server is spoken to: TLS after STARTTLS, TLS from the first byte, or none.",
        default="starttls",
        choices=("starttls", "implicit", "none"),
    ),
    Option("username", Scope.SINK, Form.TEXT, "The login at the mail server.", default_words="none; no login"),
    Option(
        "password",
        Scope.SINK,
        Form.TEXT,
        "The login's password; best taken from elsewhere.",
        default_words="none",
        pattern=r"^.+$",
        shape="a text that is not empty",
        is_secret=True,
    ),
    Option("sender", Scope.SINK, Form.TEXT, "The address that mails come from.", default_words="none"),
    Option("recipients", Scope.SINK, Form.TEXTS, "The addresses that mails go to.", default_words="none"),
    Option(
        "program",
        Scope.SINK,
        Form.TEXT,
        "The name of a program that alert_commands of a node's [crawlctl] permits; such a node runs it.",
        default_words="none",
        pattern=ALERT_NAME,
        shape=ALERT_NAME_SHAPE,
    ),
    Option(
        "ca",
        Scope.SINK,
        Form.TEXT,
        "The authorities (PEM) that may vouch for the server's certificate, no others then; taken from a file.",
        default_words="what the node's machine trusts",
        has_lines=True,
    ),
    Option(
        "timeout_s",
        Scope.SINK,
        Form.NUMBER,
        "How long one attempt may take.",
        default=10.0,
        unit="seconds",
        minimum=1,
        maximum=60,
    ),
    _span("give_up", Scope.SINK, "How old a message may become before it is given up.", default_words="`1d`"),
)

RULE_OPTIONS: tuple[Option, ...] = (
    Option("to", Scope.RULE, Form.TEXTS, "The sinks that are told.", default_words="none: only seen in crawlctl"),
    Option(
        "events",
        Scope.RULE,
        Form.TEXTS,
        "The kinds of events that are told, as globs (crawlctl docs events); this, or one of the four that follow.",
        default_words="none",
    ),
    Option(
        "errors_per_minute",
        Scope.RULE,
        Form.NUMBER,
        "Fires when a running job logs more errors a minute.",
        default_words="none",
        minimum=0,
        maximum=1_000_000,
    ),
    Option(
        "items_below",
        Scope.RULE,
        Form.TEXT,
        "Fires when a run finishes with fewer items than this share of the median of the last finished runs.",
        default_words="none",
        pattern=SHARE,
        shape="a share in per cent, as in 50%",
    ),
    _span("no_progress", Scope.RULE, "Fires when a running job has had no new page and no new item for so long."),
    _span("waiting_longer_than", Scope.RULE, "Fires when a job that could be taken waits for longer."),
    _span("within", Scope.RULE, "Over which time errors_per_minute is counted.", default_words="`1m`"),
    Option(
        "of_last",
        Scope.RULE,
        Form.INTEGER,
        "How many finished runs of the spider items_below looks back on; at least three of them must be there.",
        default=10,
        minimum=3,
        maximum=100,
    ),
    _pattern("project", "such a project"),
    _pattern("spider", "such a spider"),
    _pattern("node", "such a node"),
    Option(
        "subject",
        Scope.RULE,
        Form.TEXT,
        "Only events about this: a job's id, a node, a release, a crawl; a glob.",
        default_words=_GLOB_DEFAULT,
    ),
    Option(
        "do",
        Scope.RULE,
        Form.CHOICE,
        "What is done to the job when errors_per_minute or no_progress fires.",
        default_words="nothing",
        choices=("pause", "cancel"),
    ),
    Option(
        "severity",
        Scope.RULE,
        Form.CHOICE,
        "How much it matters, as every message says.",
        default="warning",
        choices=("info", "warning", "critical"),
    ),
    _span(
        "every",
        Scope.RULE,
        "How often a sink is told at most; what comes meanwhile comes in one message.",
        default_words="none: at once, always",
    ),
    Option(
        "quiet",
        Scope.RULE,
        Form.TEXT,
        "A time of each day at which nobody is told, in a zone of the tz database.",
        default_words="none",
        pattern=QUIET,
        shape="a time of day and a zone, as in 22:00-07:00 Europe/Berlin",
    ),
    Option(
        "when_quiet",
        Scope.RULE,
        Form.CHOICE,
        "What becomes of messages then: held till the end and told as one, or dropped.",
        default="hold",
        choices=("hold", "drop"),
    ),
    Option(
        "tell_over",
        Scope.RULE,
        Form.CHOICE,
        "Whether it is told too when what fires is over.",
        default="yes",
        choices=("yes", "no"),
    ),
)
