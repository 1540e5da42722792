"""Scrapyd's application as a member of a cluster: Scrapyd's own, with the node's identity first and its heartbeat last.

    [scrapyd]
    application = toolkit.node.application.application

Whatever would let the node run without being a member stops the start, with one line that says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scrapyd.app
from scrapyd.exceptions import ConfigError
from scrapyd.interfaces import IPoller, ISpiderScheduler
from twisted.application.service import IServiceCollection

from toolkit.model.errors import ConfigurationError
from toolkit.node.heartbeat import Heartbeat
from toolkit.node.installer import installing
from toolkit.node.membership import membership
from toolkit.node.requests import bound_requests

if TYPE_CHECKING:
    from scrapyd.config import Config

MB = 1_000_000

COMPONENTS = {
    "spiderqueue": "toolkit.node.spiderqueue.SharedSpiderQueue",
    "poller": "toolkit.node.poller.ClaimingPoller",
    "launcher": "toolkit.node.launcher.LeasedLauncher",
    "jobstorage": "toolkit.node.jobstorage.SharedJobStorage",
    "eggstorage": "toolkit.node.eggstorage.ProvenEggStorage",
    "runner": "toolkit.node.runner",
}
"""What scrapyd.conf must name beside this application: one without the other would lose jobs or slots."""


def application(config: Config) -> Any:
    """Return Scrapyd's application with the node's services in it. Redis need not be there yet.

    Raises:
        ConfigError: no Redis is named, an option is wrong, a component is missing, or another Scrapyd lives in the
            node's folder. Scrapyd ends with its one line.

    """
    try:
        _check_components(config)
        member = membership(config)
        _ = member.home
    except ConfigurationError as error:
        raise ConfigError(f"scrapyd.conf: {error.message}") from error
    app = scrapyd.app.application(config)
    bound_requests(app, node_name=member.settings.name, max_egg_bytes=member.settings.max_egg_mb * MB)
    services: Any = IServiceCollection(app)
    poller = app.getComponent(IPoller)

    def update_projects() -> None:
        poller.update_projects()
        app.getComponent(ISpiderScheduler).update_projects()

    look = installing(config, update_projects).look
    heartbeat: Any = Heartbeat(member, launcher=services.getServiceNamed("launcher"), poller=poller, look_for_eggs=look)
    heartbeat.setServiceParent(app)
    return app


def _check_components(config: Config) -> None:
    for option, wanted in COMPONENTS.items():
        if config.get(option, "") != wanted:
            raise ConfigurationError(f"with this application, [scrapyd] must say {option} = {wanted}")
