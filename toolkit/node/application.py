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
from toolkit.node.answering import Answering
from toolkit.node.answers import answers
from toolkit.node.heartbeat import Heartbeat
from toolkit.node.installer import installing
from toolkit.node.membership import Membership, membership
from toolkit.node.redial import Redialler
from toolkit.node.redialling import Redialling
from toolkit.node.requests import bound_requests
from toolkit.node.shelf import shelf
from toolkit.node.shipping import Shipping
from toolkit.node.stopping import OnStop
from toolkit.node.tls import NodeTls, serve_tls
from toolkit.store.wire_calls import REDIAL

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

SERVICES = {
    "schedule.json": "toolkit.node.webservice.Schedule",
    "cancel.json": "toolkit.node.webservice.Cancel",
    "status.json": "toolkit.node.webservice.Status",
    "listjobs.json": "toolkit.node.webservice.ListJobs",
    "daemonstatus.json": "toolkit.node.webservice.DaemonStatus",
    "addversion.json": "toolkit.node.webservice.AddVersion",
    "delversion.json": "toolkit.node.webservice.DeleteVersion",
    "delproject.json": "toolkit.node.webservice.DeleteProject",
    "listprojects.json": "toolkit.node.webservice.ListProjects",
    "listversions.json": "toolkit.node.webservice.ListVersions",
    "listspiders.json": "toolkit.node.webservice.ListSpiders",
    "crawlctl.json": "toolkit.node.webservice.WhoAmI",
}
"""The endpoints: Scrapyd's own would take eggs unproven, and know nothing of the cluster. An empty value is allowed."""


def application(config: Config) -> Any:
    """Return Scrapyd's application with the node's services in it. Redis need not be there yet.

    Raises:
        ConfigError: no Redis is named, an option is wrong, a component is missing, another Scrapyd lives in the
            node's folder, or the files of keys and certificates cannot be used. Scrapyd ends with its one line.

    """
    try:
        _check_components(config)
        member = membership(config)
        member.machine.keep_time()
        shelf(config).trust.check_start()
        tls = None if member.settings.tls is None else NodeTls(*member.settings.tls)
        _ = member.home, member.redis_file
    except ConfigurationError as error:
        raise ConfigError(f"scrapyd.conf: {error.message}") from error
    app = scrapyd.app.application(config)
    if tls is not None:
        serve_tls(app, tls)
    bound_requests(app, node_name=member.settings.name, max_egg_bytes=member.settings.max_egg_mb * MB)
    services: Any = IServiceCollection(app)
    poller = app.getComponent(IPoller)

    def update_projects() -> None:
        poller.update_projects()
        app.getComponent(ISpiderScheduler).update_projects()

    look = installing(config, update_projects).look
    launcher = services.getServiceNamed("launcher")
    if member.settings.shipping is not None:
        shipping: Any = Shipping(member, member.settings.shipping, running=launcher.jobs)
        shipping.setServiceParent(app)
        launcher.began = shipping.begin
    answering, redialling = _answering(member, launcher)
    redialling.setServiceParent(app)
    heartbeat: Any = Heartbeat(
        member, launcher=launcher, poller=poller, look_for_eggs=look, look_for_questions=answering.look
    )
    heartbeat.setServiceParent(app)
    if member.settings.on_stop is not OnStop.LEAVE:
        member.machine.before_stop(launcher.leave)
    return app


def _answering(member: Membership, launcher: Any) -> tuple[Answering, Any]:
    """Return what answers questions, and the service that looks for the spiders' wishes for another address."""
    known = dict(answers(logs_dir=member.settings.logs_dir, items_dir=member.settings.items_dir))
    answering = Answering(member, known)
    redialling = Redialling(member, launcher=launcher, answering=answering, redialler=Redialler(member))
    known[REDIAL] = redialling.answer
    return answering, redialling


def _check_components(config: Config) -> None:
    for option, wanted in COMPONENTS.items():
        if config.get(option, "") != wanted:
            raise ConfigurationError(f"with this application, [scrapyd] must say {option} = {wanted}")
    found = dict(config.items("services", default=[]))
    for endpoint, wanted in SERVICES.items():
        # Somebody's own class is his affair, and nothing at all turns the endpoint off.
        is_stock = found.get(endpoint, "").startswith("scrapyd.")
        if is_stock or (endpoint == "crawlctl.json" and endpoint not in found):
            raise ConfigurationError(f"with this application, [services] must say {endpoint} = {wanted}")
