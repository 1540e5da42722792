"""Which nodes may run a spider, and which version of which project: the active release, or what the operator names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.cluster.nodes import Nodes, require_any
from toolkit.cluster.resolve import resolve_spider
from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.model.errors import NotFoundError, RefusedError, UsageError
from toolkit.model.names import ProjectName, SpiderName, VersionName, check_project, check_version
from toolkit.model.nodes import NodeRecord
from toolkit.model.orders import Order
from toolkit.store.interfaces import ReleaseStore


@dataclass(frozen=True, slots=True)
class Choice:
    """A spider of one version, and the nodes that hold it."""

    nodes: Nodes
    project: ProjectName
    spider: SpiderName
    version: VersionName


def choose(nodes: Nodes, releases: ReleaseStore, spider: str, *, project: str | None, version: str | None) -> Choice:
    """Choose among the nodes for a spider of the active release, or of the version named.

    A version that nobody released through crawlctl is looked for on the nodes themselves.

    Raises:
        NotFoundError, UsageError: see `resolve_spider`; or no node holds the version.
        RefusedError: none of the nodes given holds the release.

    """
    if version is None:
        release = resolve_spider(releases.actives(), spider, project=project)
    else:
        if project is None:
            raise UsageError("a version needs the project's name beside it", hint="add -p PROJECT")
        wanted, name = check_version(version), check_project(project)
        known = releases.get(name, wanted)
        if known is None:
            return _held(nodes, name, SpiderName(spider), wanted)
        release = resolve_spider({name: known}, spider, project=project)
    holders = releases.holders(release.project, release.version)
    fit = nodes.only(holders) if holders else nodes
    if not len(fit):
        raise RefusedError(
            f"none of the {len(nodes)} picked node(s) holds {release.project} {release.version}",
            hint="crawlctl deploy brings it there; crawlctl releases shows who holds what",
        )
    return Choice(fit, release.project, SpiderName(spider), release.version)


def choose_queued(
    releases: ReleaseStore, records: Sequence[NodeRecord], spider: str, *, project: str | None, version: str | None
) -> Order:
    """Return the order for one job of the spider: of the active release, or of the version named. No node is asked.

    An active release comes to the nodes by itself, so nobody needs to hold it yet; of any other version at least one
    of the plug-in nodes (`records`) must have said that it does.

    Raises:
        NotFoundError, UsageError: see `resolve_spider`; or no node holds the version.

    """
    actives = releases.actives()
    if version is None:
        release = resolve_spider(actives, spider, project=project)
        return Order(release.project, SpiderName(spider), release.version)
    if project is None:
        raise UsageError("a version needs the project's name beside it", hint="add -p PROJECT")
    wanted, name = check_version(version), check_project(project)
    known = releases.get(name, wanted)
    if known is not None:
        resolve_spider({name: known}, spider, project=project)
    is_active = name in actives and actives[name].version == wanted
    if not is_active and not any(wanted in record.report.versions.get(name, ()) for record in records):
        raise NotFoundError(
            f"no plug-in node holds {name} {wanted}",
            hint="crawlctl status shows what they hold; crawlctl deploy brings a version there",
        )
    return Order(name, SpiderName(spider), wanted)


def _held(nodes: Nodes, project: ProjectName, spider: SpiderName, version: VersionName) -> Choice:
    def has_it(node: ScrapydNode) -> bool:
        return version in node.versions(project) and spider in node.spiders(project, version)

    found = nodes.ask(has_it, calls=2)
    require_any(found, f"looking for {project} {version}")
    holding = [name for name, holds in found.values.items() if holds]
    if not holding:
        raise NotFoundError(
            f"no node holds {project} {version} with a spider {spider!r}", hint="crawlctl status shows what they hold"
        )
    return Choice(nodes.only(holding), project, spider, version)
