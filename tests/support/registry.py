"""Plug-in nodes as the registry shows them, for tests of what is decided on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from support.stores import BEGIN, SHOP, V1

from toolkit.model.names import NodeName, ProjectName, Session, VersionName
from toolkit.model.nodes import DEFAULT_LEASE_S, NodeRecord, NodeReport


def a_record(
    name: str,
    *,
    slots: int = 4,
    running: int = 0,
    age_s: float = 1.0,
    lease_s: float = DEFAULT_LEASE_S,
    beat_at: datetime = BEGIN,
    is_draining: bool = False,
    clash: str | None = None,
    unfit: str | None = None,
    versions: Sequence[VersionName] = (V1,),
    project: ProjectName = SHOP,
    behind: Mapping[str, str] | None = None,
) -> NodeRecord:
    """Return what the registry shows of a node; it lives, is idle and holds the shop's first version unless told so."""
    report = NodeReport(
        name=NodeName(name),
        session=Session("life-1"),
        home=f"home of {name}",
        address=f"{name}.example:6800",
        slots=slots,
        running=running,
        lease_s=lease_s,
        versions={project: tuple(versions)} if versions else {},
        unfit=unfit,
        behind=behind or {},
    )
    return NodeRecord(
        report,
        beat_at=beat_at,
        age_s=age_s,
        is_draining=is_draining,
        drained_by="ann@desk" if is_draining else None,
        clash=clash,
    )


def names(*texts: str) -> list[NodeName]:
    """Return the names as the product's calls take them."""
    return [NodeName(text) for text in texts]
