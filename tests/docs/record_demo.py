"""Records the picture of the README: the real commands on a terminal, and what they leave on the screen, as SVG.

By hand, from the repository: `PYTHONPATH=tests python tests/docs/record_demo.py`. It takes about half a minute.
"""

from __future__ import annotations

import io
import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text
from support.cli import run_crawlctl
from support.terminal import run_on_terminal
from support.waiting import wait_until

from toolkit.config.paths import sample_file
from toolkit.provision.sample_site import free_port, sample_shop

PICTURE = Path(__file__).parents[2] / "toolkit" / "docs" / "images" / "demo.svg"
COLUMNS = 108
TITLE = "crawlctl"
WORKERS = 3
PROMPT = "\x1b[1;32m$\x1b[0m "
FONTS = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
# rich's own frame, but with fonts that are there: a picture fetches nothing from elsewhere.
_FRAME = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, monospace", FONTS
)
_PIECE = re.compile(r"\x1b\[(?P<count>\d*)(?P<move>[AK])|\x1b\[\?25[lh]|(?P<return>\r)|(?P<line>\n)")


def screen_of(sent: str) -> list[str]:
    """Return the lines that a terminal shows in the end; colours stay in them.

    It knows the moves that rich makes to redraw a table: back to the line's begin, a line up, erase the line.
    """
    lines = [""]
    row, is_at_begin, at = 0, True, 0
    for piece in [*_PIECE.finditer(sent), None]:
        text = sent[at : piece.start() if piece else len(sent)]
        if text:
            lines[row] = text if is_at_begin else lines[row] + text
            is_at_begin = False
        if piece is None:
            break
        at = piece.end()
        if piece["line"]:
            row, is_at_begin = row + 1, True
            lines += [""] * (row + 1 - len(lines))
        elif piece["return"]:
            is_at_begin = True
        elif piece["move"] == "A":
            row = max(0, row - int(piece["count"] or 1))
        elif piece["move"] == "K":
            lines[row] = ""
    return [line.rstrip() for line in lines]


def picture_of(lines: Sequence[str]) -> str:
    """Draw lines as a terminal window."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    return console.export_svg(title=TITLE, code_format=_FRAME)


def record() -> Iterator[str]:
    """Yield the lines of the session, as the commands are run."""
    with tempfile.TemporaryDirectory(prefix="recording-") as name:
        folder = Path(name)
        yield from _run(folder, "crawlctl demo")
        _own_cluster(folder)
        with sample_shop(folder / "shop-site", pages=2000) as site:
            try:
                yield from _run(folder, "crawlctl up")
                yield from _run(folder, "crawlctl deploy projects/shop")
                yield from _run(folder, f"crawlctl schedule products --workers {WORKERS} --on eu -a site={site}")
                wait_until(lambda: _running(folder) == WORKERS, deadline_s=30, what="the jobs to run")
                yield from _run(folder, "crawlctl status")
                yield from _run(folder, "crawlctl cancel --spider products --yes")
            finally:
                _run(folder, "crawlctl down")


def _run(folder: Path, line: str) -> list[str]:
    words = shlex.split(line)[1:]
    code, sent = run_on_terminal(*words, cwd=folder, env={"COLUMNS": str(COLUMNS), "LINES": "50"})
    shown = screen_of(sent)
    if code != 0:
        raise RuntimeError(f"{line} ended with exit code {code}:\n" + "\n".join(shown))
    return [PROMPT + line, *"\n".join(shown).rstrip().splitlines(), ""]


def _running(folder: Path) -> int:
    return len(run_crawlctl("jobs", "--state", "running", "--output", "json", cwd=folder).expect().json())


def _own_cluster(folder: Path) -> None:
    """Write the sample inventory with ports that are free, and bring the sample project."""
    text = sample_file("inventory.yaml").read_text(encoding="utf-8")
    for port in ("6390", "6801", "6802", "6803"):
        text = text.replace(port, str(free_port()))
    (folder / "inventory.yaml").write_text(text, encoding="utf-8")
    (folder / "projects").symlink_to(sample_file("projects"))


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture_of(list(record())), encoding="utf-8")
