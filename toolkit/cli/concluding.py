"""How a rollout's end is told: what is true now in one line, and the exit code that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolkit.cli.session import Session
    from toolkit.model.errors import CrawlctlError
    from toolkit.model.releases import DeployResult


def conclude(session: Session, result: DeployResult, what: str) -> None:
    """Say in one line what is true now, and end with the exit code that fits."""
    if not result.failed:
        later = sum(not each.is_proven for each in result.results)
        everywhere = "every node" if not later else "every node that lives"
        done = "made active" if result.is_changed else f"active already, and held by {everywhere}: nothing changed"
        more = f"; {later} lost node(s) install it when they are back" if later else ""
        session.printer.say(f"{result.project} {result.version} is {done}{more}", style="green")
        return
    end_by(session, list(result.errors), len(result.results), f"{what} of {result.project} {result.version}", result)


def end_by(
    session: Session, failures: Sequence[CrawlctlError | None], of: int, what: str, result: DeployResult | None = None
) -> None:
    """Raise the exit that fits the nodes' failures; do nothing when there are none."""
    from toolkit.model import errors

    undone = [each for each in result.failed if each.step == "undone"] if result else []
    count = len(result.failed) - len(undone) if result else len(failures)
    if not count:
        return
    state = ""
    if result is not None:
        stays = f"{' and was undone' if undone else ''}, so the active release is as it was"
        others = ", and it is active on the others" if count < of else ", and it stays active as it was"
        state = others if result.is_active else stays
    away = [error for error in failures if isinstance(error, (errors.NodeUnreachableError, errors.NodeTimeoutError))]
    if len(away) == of:
        raise session.failed(errors.NothingReachableError(f"{what}: no node could be reached{state}"))
    raise session.failed(errors.NodesFailedError(f"{what} failed on {count} of {of} nodes{state}"))
