"""What every command works with: the inventory, the hosts it picks, their clients, the store and the printer.

Each is made when first asked for, so that a command pays only for what it uses.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.cli.audit_note import AuditNote
from toolkit.cli.errors import INTERRUPTED, ExitCode, described
from toolkit.cli.printer import Output, Printer
from toolkit.model.errors import ConfigurationError, CrawlctlError, InventoryMissingError, ProjectError
from toolkit.model.hosts import Host

if TYPE_CHECKING:
    from collections.abc import Iterable

    import typer

    from toolkit.cluster.nodes import Nodes
    from toolkit.config.inventory import Inventory
    from toolkit.provision.keyring import Keyring
    from toolkit.store.interfaces import Shared, Store


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The options that every command takes, before its name or after."""

    inventory: Path | None = None
    output: Output = Output.TABLE


class Session:
    """One command's run."""

    def __init__(self, options: GlobalOptions, *, audit: str | None = None) -> None:
        self.options = options
        self.audit_note = None if audit is None else AuditNote(audit)
        self.printer = Printer(options.output)
        self._opened: list[Nodes | Store] = []

    @cached_property
    def inventory(self) -> Inventory:
        """The inventory, with the generated credentials of local hosts laid in.

        Where there is none, the `[deploy]` targets of the closest scrapy.cfg serve as one, and it says so.
        """
        from toolkit.config.inventory import find, load
        from toolkit.config.paths import state_path
        from toolkit.provision.credentials import with_local_credentials
        from toolkit.provision.own_authority import with_own_authority

        try:
            inventory = load(find(self.options.inventory, start=Path.cwd(), environ=os.environ))
        except InventoryMissingError:
            if (targets := self._targets()) is None:
                raise
            return targets
        folder = state_path(inventory.path, os.environ)
        return with_own_authority(with_local_credentials(inventory, folder), folder)

    @cached_property
    def keyring(self) -> Keyring:
        """The keys that releases are signed with, and that nodes trust; nothing is made by looking."""
        from toolkit.config.paths import state_path
        from toolkit.provision.keyring import Keyring

        return Keyring.of(self.inventory, state_path(self.inventory.path, os.environ))

    @cached_property
    def state_folder(self) -> Path:
        """Where local nodes, the local Redis and, without Redis, the store live."""
        from toolkit.config.paths import state_folder

        return state_folder(self.inventory.path, os.environ)

    @cached_property
    def store(self) -> Store:
        """The cluster's shared memory: Redis when the inventory names one, else a file of this machine."""
        from toolkit.store.open import open_store

        store = open_store(self.inventory.redis, self.state_folder, cluster=self.inventory.cluster)
        self._opened.append(store)
        return store

    @property
    def shared(self) -> Shared:
        """What plug-in nodes share: the queue, their registry, the eggs.

        Raises:
            ConfigurationError: the inventory names no Redis, so there is none.

        """
        if self.store.shared is None:
            raise ConfigurationError(
                "there is no shared queue: the inventory names no redis", hint="crawlctl docs node says how to make one"
            )
        return self.store.shared

    def use(self, inventory: Inventory, state_folder: Path) -> None:
        """Work with this inventory and folder instead of those that would be found."""
        self.inventory = inventory
        self.state_folder = state_folder

    def hosts(self, on: str | None = None) -> tuple[Host, ...]:
        """Return the hosts that a pattern picks; all without one. `@failed` are those that failed last."""
        from toolkit.provision.failed_hosts import FAILED, with_failed

        if on is None or FAILED not in on:
            return self.inventory.pick(on)
        return with_failed(self.inventory, on, self.state_folder).pick(on)

    def nodes(self, on: str | None = None) -> Nodes:
        """Return the clients of the nodes that a pattern picks."""
        from toolkit.cluster.nodes import Nodes

        nodes = Nodes.of(self.hosts(on))
        self._opened.append(nodes)
        return nodes

    def audit(
        self, subject: str | None = None, *, nodes: Iterable[str] | None = None, detail: str | None = None
    ) -> None:
        """Say for the audit what this command changes, as soon as it is known; what is not said again stays.

        Nothing of it may be a secret: name what was chosen, never the words of the command line.
        """
        if self.audit_note is not None:
            self.audit_note.tell(subject=subject, nodes=nodes, detail=detail)

    def audit_nothing(self) -> None:
        """Say that this command changes nothing after all, as with `--dry-run`."""
        if self.audit_note is not None:
            self.audit_note.is_unwanted = True

    def failed(self, error: CrawlctlError) -> typer.Exit:
        """Tell of a failure beside a result that is on stdout already; raise what this returns."""
        import typer

        if self.audit_note is not None:
            self.audit_note.error = error
        code, description = described(error)
        self.printer.error(description, has_result=True)
        return typer.Exit(int(code))

    def interrupted(self) -> typer.Exit:
        """Tell of an interruption, beside the result if one is on stdout already; raise what this returns."""
        import typer

        self.printer.error(dict(INTERRUPTED), has_result=self.printer.has_shown)
        return typer.Exit(int(ExitCode.INTERRUPTED))

    def close(self) -> None:
        """Let go of everything that was opened."""
        for each in reversed(self._opened):
            each.close()

    def _targets(self) -> Inventory | None:
        from toolkit.config.inventory.targets import inventory_of_targets
        from toolkit.config.project import find_project

        try:
            project = find_project(Path.cwd())
        except ProjectError:
            return None
        if not any(target.url for target in project.targets):
            return None
        inventory = inventory_of_targets(project.root / "scrapy.cfg", project.targets)
        self.printer.say(f"there is no inventory.yaml: using the {len(inventory.hosts)} deploy target(s) of scrapy.cfg")
        return inventory
