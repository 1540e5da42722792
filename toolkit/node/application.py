"""Scrapyd's application as a member of a cluster: Scrapyd's own, with the node's identity first and its heartbeat last.

    [scrapyd]
    application = toolkit.node.application.application

Whatever would let the node run without being a member stops the start, with one line that says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scrapyd.app
from scrapyd.exceptions import ConfigError
from scrapyd.interfaces import IPoller
from twisted.application.service import IServiceCollection

from toolkit.model.errors import ConfigurationError
from toolkit.node.heartbeat import Heartbeat
from toolkit.node.membership import membership

if TYPE_CHECKING:
    from scrapyd.config import Config

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
    launcher = IServiceCollection(app).getServiceNamed("launcher")
    Heartbeat(member, launcher=launcher, poller=app.getComponent(IPoller)).setServiceParent(app)
    return app


def _check_components(config: Config) -> None:
    for option, wanted in COMPONENTS.items():
        if config.get(option, "") != wanted:
            raise ConfigurationError(f"with this application, [scrapyd] must say {option} = {wanted}")
