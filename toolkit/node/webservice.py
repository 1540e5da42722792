"""Scrapyd's endpoints on a plug-in node, under the names that scrapyd.conf gives in its section `[services]`.

Their requests and answers are Scrapyd's own, so whatever was built for Scrapyd works with them unmodified; fields may
be added. `docs` tell what differs: jobs are the cluster's, and an upload is published only when it was listed.
"""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

from toolkit.node.webservice_eggs import (
    AddVersion,
    DeleteProject,
    DeleteVersion,
    ListProjects,
    ListSpiders,
    ListVersions,
)
from toolkit.node.webservice_endpoint import Endpoint
from toolkit.node.webservice_jobs import Cancel, DaemonStatus, ListJobs, Schedule, Status

__all__ = [
    "AddVersion",
    "Cancel",
    "DaemonStatus",
    "DeleteProject",
    "DeleteVersion",
    "ListJobs",
    "ListProjects",
    "ListSpiders",
    "ListVersions",
    "Schedule",
    "Status",
    "WhoAmI",
]


class WhoAmI(Endpoint):
    """`crawlctl.json`: what a stock node does not have, so that whoever asks knows which kind this one is."""

    def render_GET(self, _txrequest: Any) -> dict[str, Any]:  # noqa: N802 - Twisted's name
        """Say who this is, without asking anybody."""
        node = self.node
        return {
            "plugin": metadata.version("crawlctl"),
            "scrapyd": metadata.version("scrapyd"),
            "python": platform.python_version(),
            "cluster": node.settings.cluster,
            "node": node.settings.name,
            "session": node.session,
            "home": node.home.id,
            "address": node.settings.address,
            "labels": dict(node.settings.labels),
            "slots": node.settings.slots,
            "running": node.running,
            "unfit": node.unready,
            "versions": {project: list(versions) for project, versions in node.versions().items()},
            "behind": dict(node.catalogue.behind()),
            "max_egg_mb": node.settings.max_egg_mb,
        }
