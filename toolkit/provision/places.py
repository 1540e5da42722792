"""Where everything of a node lies on its host, below one folder, and what its service is called. Pure."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

UNIT = "crawlctl-node"
"""The name of the node's service, and the mark of its lines in a crontab."""

SYSTEM_FOLDER = "/opt/crawlctl"
OWN_FOLDER = "~/.local/share/crawlctl"
"""The folder unless the inventory names one: with the rights of root, and without."""


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of one node on its host; `folder` is absolute, `home` the home folder of our login there.

    `bin`, `wheels` and the record belong to who provisions; `environments`, `cache` and `node` to the service user.
    """

    folder: str
    home: str = "/root"

    @property
    def programs(self) -> str:
        """Programs that provisioning brings: uv, and the node's Python by a name that stays."""
        return self._at("bin")

    @property
    def uv(self) -> str:
        """The program that installs packages."""
        return self._at("bin", "uv")

    @property
    def launcher(self) -> str:
        """Runs the present environment's Python under its real path, which running spiders keep over an upgrade."""
        return self._at("bin", "python")

    @property
    def wheels(self) -> str:
        """Wheels that were carried here."""
        return self._at("wheels")

    @property
    def environments(self) -> str:
        """One virtual environment for each set of packages; the service user's."""
        return self._at("envs")

    @property
    def environment(self) -> str:
        """A link to the present one of them."""
        return self._at("env")

    @property
    def python(self) -> str:
        """The present environment's Python."""
        return self._at("env", "bin", "python")

    @property
    def cache(self) -> str:
        """What uv keeps of packages, so that the next environment takes no room and no time."""
        return self._at("cache")

    @property
    def node(self) -> str:
        """Scrapyd's working folder."""
        return self._at("node")

    @property
    def configuration(self) -> str:
        """Scrapyd's own file."""
        return self._at("node", "scrapyd.conf")

    @property
    def configuration_again(self) -> str:
        """The same once more: Scrapyd reads the closest scrapy.cfg last, so nothing above can override it."""
        return self._at("node", "scrapy.cfg")

    @property
    def redis_url(self) -> str:
        """The file that holds the URL of the cluster's Redis; the service user's alone."""
        return self._at("node", "redis.url")

    @property
    def log(self) -> str:
        """Scrapyd's log, where no journal keeps it."""
        return self._at("node", "scrapyd.log")

    @property
    def record(self) -> str:
        """What was provisioned, when and by whom, as JSON without secrets."""
        return self._at("provisioned.json")

    @property
    def lock(self) -> str:
        """Who provisions here now, as JSON."""
        return self._at(".provisioning")

    @property
    def restart_due(self) -> str:
        """There while files were changed that the running node has not read yet."""
        return self._at(".restart-due")

    @property
    def system_unit(self) -> str:
        """The unit of systemd's system manager."""
        return f"/etc/systemd/system/{UNIT}.service"

    @property
    def user_unit(self) -> str:
        """The unit of systemd's user manager."""
        return posixpath.join(self.home, ".config/systemd/user", f"{UNIT}.service")

    def _at(self, *parts: str) -> str:
        return posixpath.join(self.folder, *parts)
