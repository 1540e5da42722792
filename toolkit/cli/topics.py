"""The documentation that comes with the package: Markdown files in `toolkit/docs`, each a topic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.config.nearest import nearest
from toolkit.model.errors import NotFoundError
from toolkit.views.view import View, plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

FOLDER = Path(__file__).resolve().parents[1] / "docs"


def topic_names() -> list[str]:
    """Return the topics, sorted."""
    return sorted(path.stem for path in FOLDER.rglob("*.md"))


def topics_view() -> View:
    """Show all topics with their titles."""
    rows = [(path.stem, _title(path)) for path in sorted(FOLDER.rglob("*.md"), key=lambda path: path.stem)]
    data = [{"topic": topic, "title": title} for topic, title in rows]
    return View(data, lambda: plain_table("TOPIC", "", rows=rows))


def read_topic(name: str) -> View:
    """Show one topic.

    Raises:
        NotFoundError: there is no such topic; the nearest is told.

    """
    path = next((path for path in FOLDER.rglob("*.md") if path.stem == name), None)
    if path is None:
        word = nearest(name, topic_names())
        hint = f"did you mean {word}?" if word else "crawlctl docs lists the topics"
        raise NotFoundError(f"there is no topic {name!r}", hint=hint)
    text = path.read_text(encoding="utf-8")

    def table() -> RenderableType:
        from rich.markdown import Markdown

        return Markdown(text)

    return View({"topic": name, "text": text}, table)


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
