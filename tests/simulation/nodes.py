"""The nodes of a simulation: the plug-in's own poller, launcher, heartbeat and duties on a simulated machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from scrapyd.config import Config
from scrapyd.interfaces import IEnvironment, IJobStorage, IPoller
from simulation.machines import Host, NodeMachine, Process
from simulation.server import Door
from simulation.world import Owner

from toolkit.model.names import NodeName, ProjectName, SpiderName, VersionName
from toolkit.node import membership as module
from toolkit.node.catalogue import Proof, Surroundings
from toolkit.node.heartbeat import Heartbeat
from toolkit.node.launcher import LeasedLauncher
from toolkit.node.membership import Membership
from toolkit.node.poller import ClaimingPoller
from toolkit.node.settings import NodeSettings
from toolkit.node.stopping import OnStop
from toolkit.node.turns import turns
from toolkit.runs.folder import RunFolder
from toolkit.store.redis_store import RedisStore

PROJECT, VERSION, SPIDER = ProjectName("shop"), VersionName("v1"), SpiderName("books")
_PROOF = Proof("digest", (SPIDER,), Surroundings("python", "packages"), datetime(2026, 1, 1, tzinfo=UTC))
_DUTIES = frozenset({"requeue"})


class Node:
    """One Scrapyd of a host, which can be started, stopped, killed and started again. Its processes outlive it."""

    def __init__(
        self,
        host: Host,
        folder: Path,
        *,
        slots: int,
        lease_s: float,
        program: Callable[[Process, RunFolder], Any],
    ) -> None:
        self.host, self.folder = host, folder
        self.slots, self.lease_s = slots, lease_s
        self.lives = 0
        self.is_closing = False
        self.heartbeat: Any = None
        self.launcher: LeasedLauncher | None = None
        self.member: Membership | None = None
        self._program = program
        self._owner: Owner | None = None

    @property
    def is_running(self) -> bool:
        """A Scrapyd is there."""
        return self._owner is not None and not self._owner.is_gone

    def start(self) -> None:
        """Start a Scrapyd, with all that it has of the plug-in."""
        self.lives += 1
        self.is_closing = False
        owner = self._owner = Owner(f"scrapyd of {self.host.name}", self.host)
        machine = NodeMachine(self.host, owner, self._program)
        config = Config()
        config.cp.add_section("crawlctl")
        config.cp.set("crawlctl", "redis", "redis://simulated:1/0")
        config.cp.set("scrapyd", "eggs_dir", str(self.folder / "eggs"))
        settings = replace(
            _settings(self.folder.parent),
            name=NodeName(self.host.name),
            state_dir=self.folder,
            slots=self.slots,
            lease_s=self.lease_s,
            on_stop=OnStop.CLOSE,
        )
        member = self.member = Membership(settings, machine)
        module._MEMBERSHIPS[config] = member
        member.catalogue.add(PROJECT, VERSION, _PROOF)
        member.environments.shown = lambda _: {}  # type: ignore[method-assign, assignment]
        store = RedisStore.__new__(RedisStore)
        # Opening asks the server, and waits: that is for a thread of the node's own.
        member.store = lambda: self._open(store)  # type: ignore[method-assign]
        poller = ClaimingPoller(config)
        launcher = self.launcher = LeasedLauncher(config, _Application(poller))
        self.heartbeat = Heartbeat(
            member,
            launcher=launcher,
            poller=poller,
            look_for_eggs=lambda: None,
            duties=[duty for duty in turns(member) if duty.name in _DUTIES],
        )
        machine.keep_time()
        launcher.startService()
        self.heartbeat.startService()

    def _open(self, store: RedisStore) -> RedisStore:
        if not hasattr(store, "_door"):
            RedisStore.__init__(store, Door(self.host.link))
        return store

    def stop(self) -> None:
        """Stop the Scrapyd in order, within some seconds."""
        assert self.launcher is not None
        owner = self._owner
        self.launcher.stopService()
        self.heartbeat.stopService().addCallback(lambda _: self._leave(owner))

    def close(self) -> None:
        """Stop the Scrapyd in order, once its spiders are closed: as `stop` after what its first signal begins."""
        assert self.launcher is not None
        self.is_closing = True
        self.launcher.leave().addCallback(lambda _: self.stop())

    def kill(self) -> None:
        """End the Scrapyd with SIGKILL; its spiders go on."""
        self._leave(self._owner)

    def _leave(self, owner: Owner | None) -> None:
        if owner is not None and not owner.is_gone:
            owner.is_gone = True
            assert self.member is not None
            self.member.home.leave()


class _Application:
    """What the launcher asks Scrapyd's application for."""

    def __init__(self, poller: ClaimingPoller) -> None:
        self._components = {IPoller: poller, IEnvironment: self, IJobStorage: set()}

    def getComponent(self, kind: object) -> Any:  # noqa: N802 - Scrapyd's name
        return self._components[kind]

    def get_settings(self, _: object) -> dict[str, str]:
        return {}

    def get_environment(self, _: object, __: int) -> dict[str, str]:
        return {}


@cache
def _settings(folder: Path) -> NodeSettings:
    config = Config()
    config.cp.add_section("crawlctl")
    config.cp.set("scrapyd", "dbs_dir", str(folder))
    for name, value in {"redis": "redis://simulated:1/0", "min_disk_mb": "0", "min_memory_mb": "0"}.items():
        config.cp.set("crawlctl", name, value)
    return NodeSettings.read(config)
