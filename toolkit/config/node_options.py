"""The options of a node, the section `[crawlctl]` of its scrapyd.conf: a part of the one table in `options.py`."""

from __future__ import annotations

from toolkit.config.option import Form, Option, Scope
from toolkit.model.names import DEFAULT_CLUSTER
from toolkit.model.nodes import DEFAULT_LEASE_S

REDIS_URL = r"^(rediss?(\+sentinel)?|unix)://"
REDIS_SHAPE = "a URL that begins with redis://, rediss://, unix://, redis+sentinel:// or rediss+sentinel://"
CLUSTER_NAME = r"^[A-Za-z0-9_.-]{1,100}$"
CLUSTER_SHAPE = "1 to 100 letters, digits, '_', '-' and '.'"
_PATH = r"^\S(.*\S)?$"
_PATH_SHAPE = "a path, from the folder on in which Scrapyd is started"
_LABEL = r"[A-Za-z0-9_][A-Za-z0-9_./-]*\s*=[^,]*"

NODE_OPTIONS: tuple[Option, ...] = (
    Option(
        "redis_file",
        Scope.NODE,
        Form.TEXT,
        "A file, readable by its owner only, whose one line is the URL of the cluster's Redis.",
        pattern=_PATH,
        shape=_PATH_SHAPE,
    ),
    Option(
        "redis",
        Scope.NODE,
        Form.TEXT,
        "The URL itself, instead of a file with it; only where nobody else can read scrapyd.conf.",
        pattern=REDIS_URL,
        shape=REDIS_SHAPE,
        is_secret=True,
    ),
    Option(
        "spider_redis_file",
        Scope.NODE,
        Form.TEXT,
        "A file like redis_file for the spiders, where they have a Redis user of their own.",
        default_words="redis_file",
        pattern=_PATH,
        shape=_PATH_SHAPE,
    ),
    Option(
        "trusted_keys",
        Scope.NODE,
        Form.TEXT,
        "A file of public keys, a line each: the node then takes no egg that none of them has signed.",
        default_words="none; any egg is taken",
        pattern=_PATH,
        shape=_PATH_SHAPE,
    ),
    Option(
        "tls_cert",
        Scope.NODE,
        Form.TEXT,
        "The node's certificate (PEM, with those between it and its authority); it then speaks TLS alone.",
        default_words="none; plain HTTP",
        pattern=_PATH,
        shape=_PATH_SHAPE,
    ),
    Option(
        "tls_key",
        Scope.NODE,
        Form.TEXT,
        "The private key of tls_cert (PEM), readable by its owner only.",
        default_words="none",
        pattern=_PATH,
        shape=_PATH_SHAPE,
    ),
    Option(
        "cluster",
        Scope.NODE,
        Form.TEXT,
        "The cluster's name, as in its inventory.",
        default=DEFAULT_CLUSTER,
        pattern=CLUSTER_NAME,
        shape=CLUSTER_SHAPE,
    ),
    Option(
        "lease_s",
        Scope.NODE,
        Form.NUMBER,
        "How long the node may be silent before its jobs are given to others.",
        default=DEFAULT_LEASE_S,
        unit="seconds",
        minimum=1,
        maximum=3600,
    ),
    Option(
        "address",
        Scope.NODE,
        Form.TEXT,
        "Where others reach the node, as it tells the cluster.",
        default_words="bind_address and http_port",
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$",
        shape="HOST:PORT",
    ),
    Option(
        "labels",
        Scope.NODE,
        Form.TEXT,
        "Marks of the node, as the cluster shows them.",
        default_words="none",
        pattern=rf"^\s*({_LABEL}(,\s*{_LABEL})*)?$",
        shape="pairs of a name and a text, as in region=eu, size=big",
    ),
    Option(
        "state_dir",
        Scope.NODE,
        Form.TEXT,
        "Folder of running jobs, of the versions that were proven, and of the node's identity.",
        default_words="`node` within dbs_dir",
        pattern=r"^\S(.*\S)?$",
        shape="a path",
    ),
    Option(
        "min_memory_mb",
        Scope.NODE,
        Form.INTEGER,
        "Free memory below which the node takes no job, and says so.",
        default=200,
        unit="megabytes",
        minimum=0,
        maximum=10_000_000,
    ),
    Option(
        "min_disk_mb",
        Scope.NODE,
        Form.INTEGER,
        "Free disk space below which the node takes no job, and says so.",
        default=500,
        unit="megabytes",
        minimum=0,
        maximum=10_000_000,
    ),
    Option(
        "max_egg_mb",
        Scope.NODE,
        Form.INTEGER,
        "The largest egg that the node takes; a larger upload is refused before it is read.",
        default=64,
        unit="megabytes",
        minimum=1,
        maximum=10_000,
    ),
    Option(
        "listing_timeout_s",
        Scope.NODE,
        Form.NUMBER,
        "How long listing the spiders of a new egg may take.",
        default=60.0,
        unit="seconds",
        minimum=0,
        maximum=3600,
        is_above_minimum=True,
    ),
    Option(
        "history_days",
        Scope.NODE,
        Form.NUMBER,
        "How long the cluster remembers an ended job.",
        default=30.0,
        unit="days",
        minimum=0,
        maximum=36_500,
        is_above_minimum=True,
    ),
    Option(
        "history_jobs",
        Scope.NODE,
        Form.INTEGER,
        "How many ended jobs the cluster remembers, the latest ones.",
        default=20_000,
        unit="jobs",
        minimum=0,
        maximum=10_000_000,
    ),
)
