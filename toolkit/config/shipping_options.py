"""The options of nodes about shipping their jobs' logs, and of an inventory about reading them; in the one table."""

from __future__ import annotations

from toolkit.config.option import Form, Option, Scope

OFF, REDIS, FOLDER, S3 = "off", "redis", "folder", "s3"
S3_URL = r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^?#\s]*)?$"
S3_SHAPE = "an address as s3://bucket or s3://bucket/prefix"
HTTP_URL = r"^https?://[^\s/?#@]+/?$"
HTTP_SHAPE = "a URL as https://s3.example.com, without a path"
REGION = r"^[a-z0-9-]{1,40}$"
_PATH = r"^\S(.*\S)?$"

SHIPPING_OPTIONS: tuple[Option, ...] = (
    Option(
        "ship_logs",
        Scope.NODE,
        Form.CHOICE,
        "Where the logs of jobs are brought while they run, so that they outlive Scrapyd's housekeeping and the node.",
        default=OFF,
        choices=(OFF, REDIS, FOLDER, S3),
    ),
    Option(
        "ship_logs_folder",
        Scope.NODE,
        Form.TEXT,
        "The folder, for ship_logs = folder: one that outlives the node, such as a mounted share.",
        default_words="none",
        pattern=_PATH,
        shape="a path, from the folder on in which Scrapyd is started",
    ),
    Option(
        "ship_logs_url",
        Scope.NODE,
        Form.TEXT,
        "The bucket, for ship_logs = s3, with what the names of all logs begin with.",
        default_words="none",
        pattern=S3_URL,
        shape=S3_SHAPE,
    ),
    Option(
        "ship_logs_endpoint",
        Scope.NODE,
        Form.TEXT,
        "Where the bucket's server listens, if it is not Amazon's.",
        default_words="Amazon's, of the region",
        pattern=HTTP_URL,
        shape=HTTP_SHAPE,
    ),
    Option(
        "ship_logs_region",
        Scope.NODE,
        Form.TEXT,
        "The bucket's region.",
        default="us-east-1",
        pattern=REGION,
        shape="a region's name, as eu-central-1",
    ),
    Option(
        "ship_logs_keys",
        Scope.NODE,
        Form.TEXT,
        "A file with the keys to the bucket, readable by its owner only, as AWS tools have it in ~/.aws/credentials.",
        default_words="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment, or the machine's own role",
        pattern=_PATH,
        shape="a path, from the folder on in which Scrapyd is started",
    ),
    Option(
        "ship_logs_max_mb",
        Scope.NODE,
        Form.INTEGER,
        "How much of one log is kept: of a longer one a quarter of it from the begin, the rest from the end.",
        default=5,
        unit="megabytes",
        minimum=1,
        maximum=1_000,
    ),
    Option(
        "ship_logs_total_mb",
        Scope.NODE,
        Form.INTEGER,
        "How much memory the logs of all jobs may take in Redis, packed; the oldest of ended jobs go first.",
        default=256,
        unit="megabytes",
        minimum=1,
        maximum=1_000_000,
    ),
    Option(
        "ship_logs_days",
        Scope.NODE,
        Form.NUMBER,
        "How long a shipped log is kept in Redis or a folder, and is found; in S3 a rule of the bucket deletes it.",
        default=7.0,
        unit="days",
        minimum=0,
        maximum=3650,
        is_above_minimum=True,
    ),
)

SHIPPED_LOGS_OPTIONS: tuple[Option, ...] = (
    Option(
        "shipped_logs",
        Scope.INVENTORY,
        Form.TEXT,
        "Where nodes ship logs to, as this machine reaches it, if that is not Redis: a folder, or s3://bucket/prefix.",
        default_words="what node.ship_logs_folder or node.ship_logs_url of a host says",
        pattern=_PATH,
        shape="a path, from the inventory's folder on, or an s3:// address",
    ),
    Option(
        "shipped_logs_endpoint",
        Scope.INVENTORY,
        Form.TEXT,
        "Where the server of that bucket listens, if it is not Amazon's.",
        default_words="node.ship_logs_endpoint of a host, or Amazon's",
        pattern=HTTP_URL,
        shape=HTTP_SHAPE,
    ),
    Option(
        "shipped_logs_region",
        Scope.INVENTORY,
        Form.TEXT,
        "The bucket's region.",
        default_words="node.ship_logs_region of a host, or us-east-1",
        pattern=REGION,
        shape="a region's name, as eu-central-1",
    ),
    Option(
        "shipped_logs_keys",
        Scope.INVENTORY,
        Form.TEXT,
        "A file with keys that may read the bucket, readable by its owner only, in the form of ~/.aws/credentials.",
        default_words="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment, or the machine's own role",
        pattern=_PATH,
        shape="a path, from the inventory's folder on",
    ),
)
