"""A package index as pip and uv ask one (PEP 503), out of a folder of wheels: real answers of a real HTTP server."""

from __future__ import annotations

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote


class PackageIndex:
    """Answers at `url` from entering the context to leaving it; `folder` is where its pages are laid out."""

    def __init__(self, wheels: Path, folder: Path, *, address: str = "127.0.0.1") -> None:
        self._wheels = wheels
        self._folder = folder
        self._address = address
        self.asked: list[str] = []

    def __enter__(self) -> Self:
        self._lay_out()
        index = self

        class Pages(SimpleHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
                del format, args
                index.asked.append(self.path)

        handler = partial(Pages, directory=str(self._folder))
        self._server = ThreadingHTTPServer((self._address, 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """What `index-url` is to say."""
        return f"http://{self._address}:{self._server.server_address[1]}/simple/"

    def _lay_out(self) -> None:
        """Write a page for each project, with a link to each of its wheels."""
        by_project: dict[str, list[Path]] = {}
        for wheel in sorted(self._wheels.glob("*.whl")):
            project = re.sub(r"[-_.]+", "-", wheel.name.partition("-")[0]).lower()
            by_project.setdefault(project, []).append(wheel)
        for project, wheels in by_project.items():
            page = self._folder / "simple" / project
            page.mkdir(parents=True)
            links = "".join(f'<a href="{quote(wheel.name)}">{wheel.name}</a><br>\n' for wheel in wheels)
            (page / "index.html").write_text(f"<!DOCTYPE html><html><body>\n{links}</body></html>\n", encoding="utf-8")
            for wheel in wheels:
                (page / wheel.name).symlink_to(wheel)
