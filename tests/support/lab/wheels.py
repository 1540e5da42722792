"""The packages that lab hosts get carried, since no index is in their reach: made once by `crawlctl`, and kept."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from support.cli import run_crawlctl
from support.debian import untimed
from support.lab.base import locked
from support.lab.system import LAB_DIR

_MADE_WITHIN_S = 300.0
_ROOT = Path(__file__).parents[3]
_TO_AN_INDEX = re.compile(r"(UV|SSL)_.*|.*_proxy", re.IGNORECASE)


def ensure_wheelhouse() -> Path:
    """Return a wheelhouse for the base's Python, made anew where the project's own requirements have changed."""
    stated = b"".join((_ROOT / name).read_bytes() for name in ("pyproject.toml", "uv.lock"))
    folder = LAB_DIR / f"wheels-{hashlib.sha256(stated).hexdigest()[:12]}"
    with untimed(), locked("wheels"):
        if not folder.exists():
            aside = folder.with_suffix(".new")
            cache = os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache/uv"))
            env = {name: value for name, value in os.environ.items() if _TO_AN_INDEX.fullmatch(name)}
            env |= {"UV_CACHE_DIR": cache, "UV_SYSTEM_CERTS": "1"}
            (LAB_DIR / "inventory.yaml").write_text("hosts: {}\n")
            made = run_crawlctl(
                "nodes", "wheelhouse", str(aside), cwd=LAB_DIR, env=env, timeout_s=_MADE_WITHIN_S
            ).expect()
            assert any(aside.glob("*.whl")), made
            aside.rename(folder)
    return folder
