"""How it is explained why a job waits, where it is, or how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.views.contract import why_object
from toolkit.views.harmless import visible
from toolkit.views.jobs import log_end
from toolkit.views.view import Styled, View, plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from toolkit.cluster.why import Explanation


def why_view(explanation: Explanation) -> View:
    """Show an explanation: a sentence, what stands behind it, and a line for each node that might take the job."""
    return View(why_object(explanation), lambda: _screen(explanation))


def _screen(explanation: Explanation) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(visible(explanation.summary), style="bold")]
    parts += [Text(visible(f"  {each}")) for each in explanation.details]
    if explanation.nodes:
        rows = [
            (each.node, Styled("yes", "green") if each.could else Styled("no", "yellow"), each.reason)
            for each in explanation.nodes
        ]
        parts += [Text(), plain_table("NODE", "COULD", "WHY", rows=rows)]
    if explanation.log:
        parts += [Text(), log_end(explanation.log)]
    if explanation.log_error is not None:
        parts.append(Text(visible(f"  its log cannot be read: {explanation.log_error}"), style="yellow"))
    return Group(*parts)
