"""What is the case on a host: asked in one round trip, by a small program that the host's own Python runs.

Looking changes nothing there. What comes back is checked here; a host that answers oddly is a refusal, not a traceback.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from toolkit.model.errors import HostRefusedError, HostUnauthorizedError
from toolkit.model.hosts import Host, Secret
from toolkit.model.names import NodeName
from toolkit.provision import programs
from toolkit.provision.facts_program import MARK
from toolkit.provision.places import UNIT, Places
from toolkit.provision.remote import Ran, Remote

DOING = "look at the host"
LOOK_WITHIN_S = 60.0

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
    """Who provisions the host now, or did when something cut them short; `age_s` is since their last sign of life.

    `is_abandoned` says that it was a process of this machine which is no more.
    """

    who: str
    token: str
    age_s: float
    is_of_this_boot: bool = True
    is_abandoned: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """All that planning needs to know of a host. Megabytes are of a million bytes; `clock_s` is its Unix time.

    `is_root` says that steps can be done as root, `user` who we log in as. `files` are the node's own small files and
    its unit, by absolute path. `redis` maps each asked `host:port` to why it cannot be reached, `None` where it can.
    `bind_error` is why the node could not listen where it is to, `port_holder` the process that has its port, if that
    is not the node. `sudo_error` is why there is no root, where it was asked for. Services of a user that `lingers`
    run without a login. `lacks_python` is the Python that was asked for, where another one had to answer.
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
    can_linger: bool = False
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
    lacks_python: str | None = None

    def service(self, manager: Manager) -> ServiceFact | None:
        """Return what this manager says of the node, `None` where it does not know it."""
        return next((each for each in self.services if each.manager == manager), None)


def gather(remote: Remote, *, bind: str, redis: Sequence[tuple[str, int]] = ()) -> Facts:
    """Ask the host for everything, with root's rights where the inventory lets us and sudo does.

    `bind` is where the node is to listen, `redis` the places that it must reach.

    Raises:
        HostError: it cannot be reached, lets us not in, or answers oddly.

    """
    host = remote.host
    wishes = {
        "user": host.provision.user,
        "folder": host.provision.folder,
        "unit": UNIT,
        "port": host.port,
        "bind": bind,
        "redis": [list(place) for place in redis],
    }
    program = programs.composed(programs.FACTS, wishes)
    words = ["sh", "-c", programs.PYTHON_OF_ANY_NAME, "sh", host.provision.python]
    begun = time.time()
    ran, sudo_error = _looked(remote, words, program)
    if ran.exit_code == programs.NO_PYTHON:
        raise HostRefusedError(
            host.name, DOING, "there is no Python 3", hint="install Python 3.11 or newer there: apt install python3"
        )
    said = programs.answer(ran, MARK, host=host.name, doing=DOING)
    try:
        return _read(host, said, sudo_error=sudo_error, between=(begun, time.time()))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise HostRefusedError(host.name, DOING, f"it answers oddly: {error!r:.200}") from error


def _looked(remote: Remote, words: Sequence[str], program: bytes) -> tuple[Ran, str | None]:
    """Look as root if that can be had and is wanted."""
    if remote.host.provision.service == "user":
        return remote.run(words, doing=DOING, stdin=program, timeout_s=LOOK_WITHIN_S), None
    try:
        return remote.run(words, doing=DOING, stdin=program, timeout_s=LOOK_WITHIN_S, as_root=True), None
    except HostUnauthorizedError as error:
        ran = remote.run(words, doing=DOING, stdin=program, timeout_s=LOOK_WITHIN_S)
        return ran, error.why


def _read(host: Host, said: Mapping[str, Any], *, sudo_error: str | None, between: tuple[float, float]) -> Facts:
    places = Places(said["folder"], said["home"])
    files = {path: _file(each) for path, each in said["files"].items()}
    clock_s = float(said["clock_s"])
    begun, ended = between
    return Facts(
        host=host.name,
        places=places,
        python=_python(said["python"]),
        pythons=tuple(_python(each) for each in said["pythons"]),
        lacks_python=said["lacks_python"],
        sudo_error=sudo_error,
        libc=str(said["libc"][0]),
        libc_version=(int(said["libc"][1][0]), int(said["libc"][1][1])),
        files=files,
        folders={path: _file(each) for path, each in said["folders"].items()},
        environment=_environment(said["environment"]),
        wheels=frozenset(said["wheels"]),
        services=tuple(ServiceFact(**each) for each in said["services"]),
        redis=dict(said["redis"]),
        firewalls=tuple(said["firewalls"]),
        lock=None if said["lock"] is None else LockFact(**said["lock"]),
        record=_record(files.get(places.record)),
        clock_s=clock_s,
        # The clock was read between our asking and the answer; within that, it may be right.
        clock_skew_s=0.0 if begun <= clock_s <= ended else min(clock_s - begun, clock_s - ended, key=abs),
        **{name: said[name] for name in _PLAIN},
    )


_PLAIN = (
    *("user", "is_root", "service_user", "has_service_user", "python_error", "system", "machine", "has_systemd"),
    *(
        "has_user_manager",
        "lingers",
        "can_linger",
        "has_cron",
        "crontab",
        "is_writable",
        "disk_free_mb",
        "memory_mb",
        "processors",
    ),
    *("uv", "bind_error", "port_holder", "is_restart_due"),
)


def _file(said: Sequence[Any]) -> FileFact:
    digest, mode, owner, text = said
    return FileFact(str(digest), int(mode), str(owner), None if text is None else Secret(text))


def _python(said: Sequence[Any]) -> PythonFact:
    major, minor, micro = map(int, said[1])
    return PythonFact(str(said[0]), (major, minor, micro))


def _environment(said: Mapping[str, Any] | None) -> EnvironmentFact | None:
    if said is None:
        return None
    noted = said["noted"]
    if not isinstance(noted, dict):
        return EnvironmentFact(said["id"], said["packages"])
    texts = {name: None if noted.get(name) is None else str(noted[name]) for name in ("inputs", "pins", "own")}
    return EnvironmentFact(
        said["id"],
        said["packages"],
        is_complete=True,
        inputs=texts["inputs"],
        pins=texts["pins"],
        own_digest=texts["own"],
    )


def _record(file: FileFact | None) -> Mapping[str, object]:
    try:
        noted = json.loads(file.text.reveal()) if file is not None and file.text is not None else {}
    except ValueError:
        return {}
    return noted if isinstance(noted, dict) else {}
