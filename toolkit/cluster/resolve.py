"""What `schedule SPIDER` means: which project's spider, and which release of it. Pure, on what the store holds."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.config.nearest import nearest
from toolkit.model.errors import NotFoundError, UsageError
from toolkit.model.names import ProjectName, SpiderName
from toolkit.model.releases import Release


def resolve_spider(active: Mapping[ProjectName, Release], spider: str, *, project: str | None) -> Release:
    """Return the active release that has the spider; the project may be left out where only one has it.

    Raises:
        NotFoundError: no active release (of that project) has such a spider; the nearest name is told.
        UsageError: several projects have it.

    """
    chosen = {name: release for name, release in active.items() if project in {None, name}}
    if not chosen:
        what = f"project {project!r} has" if project else "there is"
        raise NotFoundError(
            f"{what} no active release",
            hint="crawlctl deploy makes one; -p PROJECT --version VERSION uses what the nodes hold already",
        )
    having = [release for release in chosen.values() if SpiderName(spider) in release.spiders]
    if len(having) > 1:
        names = ", ".join(sorted(release.project for release in having))
        raise UsageError(f"several projects have a spider {spider!r}: {names}", hint="name one with -p")
    if not having:
        raise NotFoundError(_no_spider(chosen, spider, project), hint=_nearest(chosen, spider))
    return having[0]


def _no_spider(chosen: Mapping[ProjectName, Release], spider: str, project: str | None) -> str:
    where = f"the active release of {project}" if project else f"any of the {len(chosen)} active release(s)"
    return f"there is no spider {spider!r} in {where}"


def _nearest(chosen: Mapping[ProjectName, Release], spider: str) -> str:
    names = sorted({name for release in chosen.values() for name in release.spiders})
    word = nearest(spider, names)
    return f"did you mean {word}?" if word else f"there are: {', '.join(names)}"
