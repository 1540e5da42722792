"""An operator's eyes on one cluster, for faces that stay: the full-screen terminal, the pages, the HTTP API."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolkit.cluster.crawls import CrawlReport, report
from toolkit.cluster.everywhere import find_everywhere, list_everywhere
from toolkit.cluster.jobs import JobList
from toolkit.cluster.node_life import NodeRow, list_nodes, show_node
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.reaching import NodeFiles, reach
from toolkit.cluster.snapshot import recall, take_snapshot
from toolkit.cluster.why import Explanation
from toolkit.cluster.why import why as explain
from toolkit.model.crawls import CrawlView
from toolkit.model.errors import ConfigurationError, NotFoundError
from toolkit.model.jobs import Job, JobFilter
from toolkit.model.names import ProjectName
from toolkit.model.releases import Release, Rollout
from toolkit.model.snapshot import Snapshot
from toolkit.store.interfaces import Shared, Store


class Desk:
    """Looks at the cluster of some nodes and a store. Any thread may call; every method may raise `CrawlctlError`.

    `open_store` returns the one store of this process, opened when first asked for; while it is away it raises
    `StoreUnreachableError`, and is asked anew the next time. The nodes are the whole inventory when `is_whole`: then
    registered nodes that it does not list are shown too.
    """

    def __init__(self, nodes: Nodes, open_store: Callable[[], Store], *, is_whole: bool = True) -> None:
        self.nodes = nodes
        self.open_store = open_store
        self.is_whole = is_whole

    @property
    def store(self) -> Store:
        """The cluster's shared memory."""
        return self.open_store()

    @property
    def shared(self) -> Shared:
        """What plug-in nodes share.

        Raises:
            ConfigurationError: the inventory names no Redis, so there is none.

        """
        shared = self.store.shared
        if shared is None:
            raise ConfigurationError(
                "there is no shared queue: the inventory names no redis", hint="crawlctl docs node says how to make one"
            )
        return shared

    def snapshot(self) -> Snapshot:
        """Look at everything once; a store that is away costs what it knows, and the snapshot says so."""
        return take_snapshot(self.nodes, recall(self.open_store), is_whole=self.is_whole)

    def node_rows(self) -> list[NodeRow]:
        """Return all that is known of each node, sorted by name."""
        return list_nodes(self.store, self.nodes, is_whole=self.is_whole)

    def node_row(self, name: str) -> NodeRow:
        """Return all that is known of one node, or raise `NotFoundError`."""
        return show_node(self.store, self.nodes, name)

    def jobs(self, wanted: JobFilter, *, limit: int, offset: int = 0) -> JobList:
        """Return the newest jobs that pass the filter, without the first `offset`."""
        return list_everywhere(self.nodes, self.open_store, wanted, limit=limit, offset=offset)

    def job(self, prefix: str) -> Job:
        """Return the one job whose id is, or begins with, this text, up to date.

        Raises:
            NotFoundError: there is none.
            UsageError: there are several.

        """
        return find_everywhere(self.nodes, self.open_store, prefix).job

    def why(self, job: Job) -> Explanation:
        """Say why a job waits, is where it is, or ended as it did."""
        return explain(self.store, job, self.nodes)

    def files_of(self, job: Job) -> NodeFiles:
        """Return the way to a job's log and items on its node.

        Raises:
            NotFoundError: no node has run it.

        """
        if job.node is None:
            raise NotFoundError(
                f"{job.id} is {job.state.value} and no node has run it, so there is nothing of it",
                hint=f"crawlctl why {job.id} tells more",
            )
        return reach(self.nodes, job.node, self.open_store, say=lambda _: None)

    def crawls(self) -> list[CrawlView]:
        """Return every crawl that is known, sorted by id; none where there is no Redis."""
        shared = self.store.shared
        return [] if shared is None else list(shared.crawls.views())

    def crawl(self, crawl: str) -> CrawlReport:
        """Return one crawl and the jobs of its workers, or raise `NotFoundError`."""
        return report(self.shared.crawls, self.store.jobs, crawl)

    def projects(self) -> Sequence[ProjectName]:
        """Return the projects that have any release, sorted."""
        return self.store.releases.projects()

    def releases(self, project: ProjectName) -> Sequence[Release]:
        """Return all releases of a project, newest first."""
        return self.store.releases.releases(project)

    def rollouts(self, project: ProjectName, *, limit: int = 50) -> Sequence[Rollout]:
        """Return the history of a project's rollouts, newest first."""
        return self.store.releases.history(project, limit=limit)
