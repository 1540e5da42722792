"""How a node's report looks at rest: JSON, readable by the queue's scripts too."""

from __future__ import annotations

from toolkit.model.names import NodeName, ProjectName, Session, VersionName
from toolkit.model.nodes import NodeReport
from toolkit.store.envelope import read, write


def write_report(report: NodeReport) -> str:
    """Return the report as JSON."""
    return write(
        {
            "name": report.name,
            "session": report.session,
            "home": report.home,
            "address": report.address,
            "outside": report.outside,
            "slots": report.slots,
            "running": report.running,
            "lease_s": report.lease_s,
            "load": report.load,
            "memory_free_mb": report.memory_free_mb,
            "disk_free_mb": report.disk_free_mb,
            "versions": {project: list(held) for project, held in report.versions.items()},
            "software": dict(report.software),
            "labels": dict(report.labels),
            "behind": dict(report.behind),
            "environments": dict(report.environments),
            "unfit": report.unfit,
            "started_at": None if report.started_at is None else report.started_at.isoformat(),
        }
    )


def read_report(body: str) -> NodeReport:
    """Return the report that the JSON describes.

    Raises:
        StoreUnreadableError: it is none, or of a newer format.

    """
    fields = read(body, "node report")
    return NodeReport(
        name=NodeName(fields.text("name")),
        session=Session(fields.text("session")),
        home=fields.text("home"),
        address=fields.text("address"),
        slots=fields.whole("slots"),
        running=fields.whole("running"),
        lease_s=fields.number("lease_s"),
        load=fields.maybe_number("load"),
        memory_free_mb=fields.maybe_whole("memory_free_mb"),
        disk_free_mb=fields.maybe_whole("disk_free_mb"),
        versions={
            ProjectName(project): tuple(VersionName(version) for version in held)
            for project, held in fields.lists("versions").items()
        },
        software=fields.maybe_mapping("software") or {},
        labels=fields.maybe_mapping("labels") or {},
        behind=fields.maybe_mapping("behind") or {},
        environments=fields.maybe_mapping("environments") or {},
        unfit=fields.maybe_text("unfit"),
        started_at=fields.maybe_time("started_at"),
        outside=fields.maybe_text("outside"),
    )
