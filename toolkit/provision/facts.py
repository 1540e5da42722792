"""What is the case on a host: asked in one round trip, by a small program that the host's own Python runs.

Looking changes nothing there. What comes back is checked here; a host that answers oddly is a refusal, not a traceback.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolkit.model.hosts import Secret
from toolkit.model.names import NodeName
from toolkit.provision.places import Places

Manager = Literal["system", "user", "supervisor"]


@dataclass(frozen=True, slots=True)
class FileFact:
    """A file that is there; `text` where it is short and text, kept from view, since it may hold a password."""

    digest: str
    mode: int
    owner: str
    text: Secret | None = None


@dataclass(frozen=True, slots=True)
class PythonFact:
    """A Python of the host: its path and version, as in (3, 11, 2)."""

    path: str
    version: tuple[int, int, int]

    @property
    def text(self) -> str:
        """The version as people write it."""
        return ".".join(map(str, self.version))


@dataclass(frozen=True, slots=True)
class EnvironmentFact:
    """The node's present environment: its id, its packages by normalised name, and what its making noted.

    `is_complete` is false when making it was cut short. `inputs` is the digest of what it was resolved from, `pins` the
    resolution, `own_digest` that of the crawlctl in it.
    """

    id: str
    packages: Mapping[str, str]
    is_complete: bool = False
    inputs: str | None = None
    pins: str | None = None
    own_digest: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceFact:
    """What a service manager says of the node; `sub_state` is in its own words."""

    manager: Manager
    is_active: bool
    is_enabled: bool
    pid: int | None = None
    sub_state: str = ""
    needs_reload: bool = False


@dataclass(frozen=True, slots=True)
class LockFact:
    """Who provisions the host now, or did when something cut them short; `age_s` is since their last sign of life."""

    who: str
    token: str
    age_s: float
    is_of_this_boot: bool = True


@dataclass(frozen=True, slots=True)
class Facts:
    """All that planning needs to know of a host. Megabytes are of a million bytes; `clock_s` is its Unix time.

    `is_root` says that steps can be done as root, `user` who we log in as. `files` are the node's own small files and
    its unit, by absolute path. `redis` maps each asked `host:port` to why it cannot be reached, `None` where it can.
    `bind_error` is why the node could not listen where it is to, `port_holder` the process that has its port, if that
    is not the node. `sudo_error` is why there is no root, where it was asked for.
    """

    host: NodeName
    places: Places
    user: str
    is_root: bool
    service_user: str
    has_service_user: bool
    python: PythonFact | None
    clock_s: float
    pythons: tuple[PythonFact, ...] = ()
    python_error: str | None = None
    sudo_error: str | None = None
    system: str = "linux"
    machine: str = "x86_64"
    libc: str = "glibc"
    libc_version: tuple[int, int] = (2, 36)
    has_systemd: bool = True
    has_user_manager: bool = False
    lingers: bool = False
    has_cron: bool = False
    crontab: str = ""
    is_writable: bool = True
    disk_free_mb: int = 0
    memory_mb: int = 0
    processors: int = 1
    files: Mapping[str, FileFact] = field(default_factory=dict)
    folders: Mapping[str, FileFact] = field(default_factory=dict)
    environment: EnvironmentFact | None = None
    wheels: frozenset[str] = frozenset()
    uv: str | None = None
    services: tuple[ServiceFact, ...] = ()
    bind_error: str | None = None
    port_holder: str | None = None
    redis: Mapping[str, str | None] = field(default_factory=dict)
    firewalls: tuple[str, ...] = ()
    lock: LockFact | None = None
    record: Mapping[str, object] = field(default_factory=dict)
    is_restart_due: bool = False
    clock_skew_s: float = 0.0

    def service(self, manager: Manager) -> ServiceFact | None:
        """Return what this manager says of the node, `None` where it does not know it."""
        return next((each for each in self.services if each.manager == manager), None)
