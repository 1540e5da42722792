"""The options of a host that concern SSH and provisioning: a part of the one table in `options.py`."""

from __future__ import annotations

from dataclasses import replace

from toolkit.config.node_options import NODE_OPTIONS
from toolkit.config.option import Form, Option, Scope
from toolkit.model.hosts import Provisioning, SshAddress

_SSH = SshAddress()
_WISHES = Provisioning()
_PATH = r"^[^-].*$"
_USER = r"^[^\s@:-][^\s@:]*$"

_SSH_OPTIONS: tuple[Option, ...] = (
    Option("ssh.user", Scope.HOST, Form.TEXT, "User name for SSH.", pattern=_USER, shape="a user name"),
    Option("ssh.port", Scope.HOST, Form.INTEGER, "TCP port of the SSH server.", minimum=1, maximum=65535),
    Option(
        "ssh.key",
        Scope.HOST,
        Form.TEXT,
        "Path of the private key for SSH; ~ is the home folder.",
        pattern=_PATH,
        shape="a path",
    ),
    Option(
        "ssh.address",
        Scope.HOST,
        Form.TEXT,
        "Where SSH connects, if that is not `address`.",
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$",
        shape="a host name or IP address",
    ),
    Option(
        "ssh.host_key",
        Scope.HOST,
        Form.TEXT,
        "The host's public key, as in known_hosts; no other is taken then.",
        pattern=r"^(ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/=]+( .*)?$",
        shape="a public key, as in 'ssh-ed25519 AAAA…'",
    ),
    Option(
        "ssh.jump",
        Scope.HOST,
        Form.TEXT,
        "The hosts that SSH goes through, as ProxyJump of ssh_config(5) has them.",
        pattern=r"^[^\s,-][^\s,]*(,[^\s,-][^\s,]*)*$",
        shape="[USER@]HOST[:PORT], several with commas between",
    ),
    Option(
        "ssh.config",
        Scope.HOST,
        Form.TEXT,
        "An ssh_config file to read instead of your own.",
        default_words="~/.ssh/config",
        pattern=_PATH,
        shape="a path",
    ),
    Option("ssh.password", Scope.HOST, Form.TEXT, "Password for SSH; best taken from elsewhere.", is_secret=True),
    Option(
        "ssh.sudo_password", Scope.HOST, Form.TEXT, "Password that sudo asks for; best taken elsewhere.", is_secret=True
    ),
    Option(
        "ssh.timeout_s",
        Scope.HOST,
        Form.NUMBER,
        "How long connecting by SSH may take.",
        default=_SSH.timeout_s,
        unit="seconds",
        minimum=0,
        maximum=3600,
        is_above_minimum=True,
    ),
)

_PROVISION_OPTIONS: tuple[Option, ...] = (
    Option(
        "provision.user",
        Scope.HOST,
        Form.TEXT,
        "The user that the node runs as; it is made if need be. Without sudo it is the user of the SSH login.",
        default=_WISHES.user,
        pattern=r"^[a-z_][a-z0-9_-]{0,30}$",
        shape="a user name of lower-case letters, digits, '_' and '-'",
    ),
    Option(
        "provision.folder",
        Scope.HOST,
        Form.TEXT,
        "The folder on the host that holds everything of the node.",
        default_words="/opt/crawlctl; without sudo ~/.local/share/crawlctl",
        pattern=r"^(/|~/)[^\s'\"\\$`;&|<>*?%]+$",
        shape="an absolute path, or one below ~/, without spaces and special characters",
    ),
    Option(
        "provision.python",
        Scope.HOST,
        Form.TEXT,
        "The Python of the host that the node's environment is made with, 3.11 or newer.",
        default=_WISHES.python,
        pattern=r"^[A-Za-z0-9_/.][A-Za-z0-9_/.+-]*$",
        shape="a program's name or path",
    ),
    Option(
        "provision.service",
        Scope.HOST,
        Form.CHOICE,
        "What keeps the node running: systemd's system or user manager, or a supervisor of crawlctl's own (cron).",
        default=_WISHES.service,
        choices=("auto", "system", "user", "supervisor"),
    ),
    Option(
        "provision.bind",
        Scope.HOST,
        Form.TEXT,
        "The address of its own that the node listens on.",
        default_words="`address` where that is an IP address, else 127.0.0.1",
        pattern=r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$",
        shape="an IP address of the host; 0.0.0.0 for all of them",
    ),
    Option(
        "provision.redis",
        Scope.HOST,
        Form.TEXT,
        "The Redis as the host reaches it, if that is another URL than `redis`.",
        pattern=r"^(rediss?(\+sentinel)?|unix)://",
        shape="a URL, as of `redis`",
        is_secret=True,
    ),
    Option(
        "provision.index",
        Scope.HOST,
        Form.TEXT,
        "URL of the package index that the host installs from.",
        default_words="the host's own configuration, else PyPI",
        pattern=r"^https?://\S+$",
        shape="a URL",
        is_secret=True,
    ),
    Option(
        "provision.wheelhouse",
        Scope.HOST,
        Form.TEXT,
        "A folder of wheels on this machine, carried to the host, which then asks no index.",
        pattern=_PATH,
        shape="a path",
    ),
    Option(
        "provision.constraints",
        Scope.HOST,
        Form.TEXT,
        "A pip constraints file on this machine: the versions that packages must have.",
        pattern=_PATH,
        shape="a path",
    ),
    Option(
        "provision.requirements",
        Scope.HOST,
        Form.TEXT,
        "A requirements.txt on this machine, of packages that the spiders need beside Scrapy.",
        pattern=_PATH,
        shape="a path",
    ),
    Option(
        "provision.memory_mb",
        Scope.HOST,
        Form.INTEGER,
        "How much memory the node and its spiders may use together, where the service manager can see to it.",
        unit="megabytes",
        minimum=64,
        maximum=10_000_000,
    ),
    Option(
        "provision.open_files",
        Scope.HOST,
        Form.INTEGER,
        "How many files a process of the node may have open.",
        default=_WISHES.open_files,
        minimum=256,
        maximum=10_000_000,
    ),
    Option(
        "provision.tls",
        Scope.HOST,
        Form.CHOICE,
        "Whether the node speaks TLS by itself, with a certificate that crawlctl makes; `scheme` is https then.",
        default=_WISHES.tls,
        choices=("off", "generated"),
    ),
)

# What provisioning writes into a node's scrapyd.conf of its own accord.
_ITS_OWN = frozenset(
    {"redis", "redis_file", "spider_redis_file", "trusted_keys", "cluster", "labels", "state_dir", "address"}
)


def _of_the_node(option: Option) -> Option:
    words = option.default_words or (None if option.default is None else str(option.default))
    return replace(option, name=f"node.{option.name}", scope=Scope.HOST, default=None, default_words=words)


HOST_OPTIONS: tuple[Option, ...] = (
    *_SSH_OPTIONS,
    *_PROVISION_OPTIONS,
    *(_of_the_node(option) for option in NODE_OPTIONS if option.name not in _ITS_OWN),
)
