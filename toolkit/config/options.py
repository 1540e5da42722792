"""The one option table: every key of an inventory, of a node and of spiders, every environment variable.

The inventory's loader, its JSON Schema, the node's settings and the documentation all read it; none repeats it. It runs
in nodes too, so it loads nothing but the nouns.
"""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.config.alert_options import ALERT_NAME, ALERT_NAME_SHAPE, RULE_OPTIONS, SINK_OPTIONS
from toolkit.config.cron_options import CRON_NAME, CRON_OPTIONS
from toolkit.config.frontier_options import FRONTIER_OPTIONS
from toolkit.config.host_options import HOST_OPTIONS
from toolkit.config.node_options import CLUSTER_NAME, CLUSTER_SHAPE, NODE_OPTIONS, REDIS_SHAPE, REDIS_URL
from toolkit.config.option import Form, Option, Scope
from toolkit.config.redial_options import REDIAL_OPTIONS
from toolkit.config.shipping_options import SHIPPED_LOGS_OPTIONS
from toolkit.model.hosts import Host
from toolkit.model.names import DEFAULT_CLUSTER, NodeName

INVENTORY_VARIABLE = "CRAWLCTL_INVENTORY"
STATE_VARIABLE = "CRAWLCTL_STATE"
REDIS_VARIABLE = "CRAWLCTL_REDIS"
REDIS_SERVER_VARIABLE = "CRAWLCTL_REDIS_SERVER"
NO_COLOR_VARIABLE = "NO_COLOR"
DEBUG_VARIABLE = "CRAWLCTL_DEBUG"
SINK_VARIABLE = "CRAWLCTL_SINK"

__all__ = [
    "ALERT_NAME",
    "ALERT_NAME_SHAPE",
    "CRON_NAME",
    "DEBUG_VARIABLE",
    "INVENTORY_VARIABLE",
    "NO_COLOR_VARIABLE",
    "OPTIONS",
    "REDIS_SERVER_VARIABLE",
    "REDIS_VARIABLE",
    "SINK_VARIABLE",
    "STATE_VARIABLE",
    "Form",
    "Option",
    "Scope",
    "keys",
    "markdown_table",
    "option",
    "options",
]

_PLAIN = Host(name=NodeName(""))

OPTIONS: tuple[Option, ...] = (
    Option(
        "redis",
        Scope.INVENTORY,
        Form.TEXT,
        "The Redis that operators share, as a URL; without one, releases and job records stay on this machine.",
        pattern=REDIS_URL,
        shape=REDIS_SHAPE,
        is_secret=True,
    ),
    Option(
        "cluster",
        Scope.INVENTORY,
        Form.TEXT,
        "The name that these nodes and their operators share within the Redis, which may hold several clusters.",
        default=DEFAULT_CLUSTER,
        pattern=CLUSTER_NAME,
        shape=CLUSTER_SHAPE,
    ),
    Option(
        "redis_admin",
        Scope.INVENTORY,
        Form.TEXT,
        "The Redis as its administrator reaches it, for crawlctl redis users and crawlctl redis configure alone.",
        default_words="`redis`",
        pattern=REDIS_URL,
        shape=REDIS_SHAPE,
        is_secret=True,
    ),
    Option(
        "signing_key",
        Scope.INVENTORY,
        Form.TEXT,
        "The private Ed25519 key that releases are signed with, in PEM or OpenSSH form; best taken from a file.",
        default_words="the one of crawlctl keys new, if there is one",
        is_secret=True,
        has_lines=True,
    ),
    Option(
        "trusted_keys",
        Scope.INVENTORY,
        Form.TEXT,
        "A file of public keys, a line each: provisioned nodes take no egg that none of them has signed.",
        default_words="the one that crawlctl keys keeps, if there is one",
        pattern=r"^\S(.*\S)?$",
        shape="a path, from the inventory's folder on",
    ),
    *SHIPPED_LOGS_OPTIONS,
    Option("defaults", Scope.INVENTORY, Form.VARIABLES, "Variables of every host, unless a group or the host says so."),
    Option("hosts", Scope.INVENTORY, Form.HOSTS, "Every host by its name, with its variables; names may hold ranges."),
    Option("groups", Scope.INVENTORY, Form.GROUPS, "Named sets of hosts, which may hold variables and other groups."),
    Option(
        "crons",
        Scope.INVENTORY,
        Form.CRONS,
        "What recurs (crawlctl docs cron), for crawlctl cron apply: crons by name, or the name of a file with them.",
        default_words="none",
    ),
    Option(
        "alerts",
        Scope.INVENTORY,
        Form.ALERTS,
        "Who is told of what (crawlctl docs alerts): sinks and rules, or the name of a file with them.",
        default_words="none",
    ),
    Option(
        "hosts", Scope.GROUP, Form.NAMES, "The group's hosts, each named under the top-level hosts; ranges allowed."
    ),
    Option("children", Scope.GROUP, Form.NAMES, "Groups whose hosts belong to this one too, and get its variables."),
    Option(
        "vars", Scope.GROUP, Form.VARIABLES, "Variables of every host of the group, unless a child or host says so."
    ),
    Option(
        "address",
        Scope.HOST,
        Form.TEXT,
        "Host name or IP address where the node listens, and where SSH connects.",
        default_words="the host's name; 127.0.0.1 where connection is local",
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$",
        shape="a host name or IP address, without scheme, port or path",
    ),
    Option(
        "port",
        Scope.HOST,
        Form.INTEGER,
        "TCP port where the node listens.",
        default=_PLAIN.port,
        minimum=1,
        maximum=65535,
    ),
    Option(
        "scheme",
        Scope.HOST,
        Form.CHOICE,
        "How to speak to the node; https where it, or a proxy in front of it, speaks TLS.",
        default=_PLAIN.scheme,
        choices=("http", "https"),
    ),
    Option(
        "ca_file",
        Scope.HOST,
        Form.TEXT,
        "The authorities (PEM) that may vouch for the node's certificate; no others do then.",
        default_words="what this machine trusts; with provision.tls crawlctl's own authority",
        pattern=r"^\S(.*\S)?$",
        shape="a path, from the inventory's folder on",
    ),
    Option(
        "path",
        Scope.HOST,
        Form.TEXT,
        "Prefix of every URL of the node, where a proxy serves it below one.",
        default=_PLAIN.path,
        default_words="none",
        pattern=r"^(/[^\s?#]*)?$",
        shape="a URL path that begins with /",
    ),
    Option(
        "username",
        Scope.HOST,
        Form.TEXT,
        "User name for the node's basic authentication.",
        default=_PLAIN.username,
        pattern=r"^[^:\s]+$",
        shape="a text without colons and spaces",
    ),
    Option(
        "password",
        Scope.HOST,
        Form.TEXT,
        "Password for the node's basic authentication; best taken from elsewhere.",
        pattern=r"^.+$",
        shape="a text that is not empty",
        is_secret=True,
    ),
    Option(
        "timeout_s",
        Scope.HOST,
        Form.NUMBER,
        "How long one call to the node may take.",
        default=_PLAIN.timeout_s,
        unit="seconds",
        minimum=0,
        maximum=86_400,
        is_above_minimum=True,
    ),
    Option(
        "slots",
        Scope.HOST,
        Form.INTEGER,
        "How many jobs the node may run at once, where that is known.",
        default=_PLAIN.slots,
        unit="processes",
        minimum=1,
        maximum=10_000,
    ),
    Option(
        "labels", Scope.HOST, Form.LABELS, "Marks that patterns can ask for (--on region=eu).", default_words="none"
    ),
    Option(
        "connection",
        Scope.HOST,
        Form.CHOICE,
        "local: a process of this machine, started by crawlctl up; ssh: another machine.",
        default=_PLAIN.connection,
        choices=("local", "ssh"),
    ),
    Option(
        "kind",
        Scope.HOST,
        Form.CHOICE,
        "What crawlctl up makes of a local host: a node of the shared queue, if there is a Redis, or a stock Scrapyd.",
        default=_PLAIN.kind,
        choices=("node", "stock"),
    ),
    *HOST_OPTIONS,
    *NODE_OPTIONS,
    *FRONTIER_OPTIONS,
    *REDIAL_OPTIONS,
    *SINK_OPTIONS,
    *RULE_OPTIONS,
    *CRON_OPTIONS,
    Option(
        INVENTORY_VARIABLE,
        Scope.ENVIRONMENT,
        Form.TEXT,
        "The inventory, where -i is not given.",
        default_words="inventory.yaml in this folder or above",
    ),
    Option(
        STATE_VARIABLE,
        Scope.ENVIRONMENT,
        Form.TEXT,
        "Folder for what local nodes and their Redis keep.",
        default_words=".crawlctl beside the inventory",
    ),
    Option(
        REDIS_VARIABLE,
        Scope.ENVIRONMENT,
        Form.TEXT,
        "The URL of the cluster's Redis for a node; it wins over redis_file and redis of its scrapyd.conf.",
        default_words="what scrapyd.conf says",
        is_secret=True,
    ),
    Option(
        REDIS_SERVER_VARIABLE,
        Scope.ENVIRONMENT,
        Form.TEXT,
        "The Redis or Valkey server program that crawlctl up starts.",
        default_words="the first that is found on PATH, else the one of crawlctl[local]",
    ),
    Option(
        SINK_VARIABLE,
        Scope.ENVIRONMENT,
        Form.TEXT,
        "Where crawlctl items drain writes to when neither --to nor --to-file is given: a file, or a database's URL.",
        is_secret=True,
    ),
    Option(NO_COLOR_VARIABLE, Scope.ENVIRONMENT, Form.TEXT, "Set to anything, it turns colours off."),
    Option(DEBUG_VARIABLE, Scope.ENVIRONMENT, Form.TEXT, "Set to anything, a bug in crawlctl shows its traceback."),
)

_BY_SCOPE: dict[Scope, dict[str, Option]] = {
    scope: {option.name: option for option in OPTIONS if option.scope is scope} for scope in Scope
}


def option(scope: Scope, name: str) -> Option:
    """Return one option of the table.

    Raises:
        KeyError: the table has no such option.

    """
    return _BY_SCOPE[scope][name]


def options(scope: Scope) -> tuple[Option, ...]:
    """Return the options of one scope, in the table's order."""
    return tuple(_BY_SCOPE[scope].values())


def keys(scope: Scope, *, within: str = "") -> tuple[str, ...]:
    """Return the keys that may be written in a mapping of this scope, or in the mapping under its key `within`."""
    start = f"{within}." if within else ""
    names = [name.removeprefix(start) for name in _BY_SCOPE[scope] if name.startswith(start)]
    return tuple(dict.fromkeys(name.partition(".")[0] for name in names))


def markdown_table(scope: Scope) -> str:
    """Return the options of one scope as a Markdown table, a line each, for the documentation."""
    return "\n".join(_table_lines(scope)) + "\n"


def _table_lines(scope: Scope) -> Iterator[str]:
    yield "| Name | Value | Default | Meaning |"
    yield "|---|---|---|---|"
    for each in options(scope):
        value = f"{each.type_words}, in {each.unit}" if each.unit else each.type_words
        default = each.default_words or ("none" if each.default is None else f"`{each.default}`")
        cells = (f"`{each.name}`", value, default, each.meaning)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
