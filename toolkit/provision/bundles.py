"""What is carried to hosts: packed once for all hosts that need the same, since one transfer of all is fast."""

from __future__ import annotations

import gzip
import hashlib
import io
import platform
import secrets
import shutil
import sys
import tarfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from toolkit.model.errors import HostRefusedError
from toolkit.provision.facts import Facts
from toolkit.provision.host_plan import Carried
from toolkit.provision.private_files import disk_errors

_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Bundle:
    """An archive; `into` says where on the host each of its members goes."""

    path: Path
    digest: str
    into: Mapping[str, str]


class Bundles:
    """Makes archives in a scratch folder; uv is packed once for all runs, in a folder that stays. Safe for threads."""

    def __init__(self, scratch: Path, *, kept: Path) -> None:
        self._scratch = scratch
        self._kept = kept
        self._made: dict[tuple[Carried, ...], Bundle] = {}
        self._lock = threading.Lock()

    def of(self, carried: Sequence[Carried], facts: Facts) -> Bundle:
        """Return the archive with these files.

        Raises:
            HostRefusedError: our own uv is to be carried, and would not run there.
            ConfigurationError: a file cannot be read, or the archive cannot be written.

        """
        if any(each.source is None for each in carried):
            _check_uv_fits(facts)
        key = tuple(carried)
        with self._lock:
            if key not in self._made:
                with disk_errors(self._scratch, "write to"):
                    self._made[key] = self._packed(key)
            return self._made[key]

    def _packed(self, carried: Sequence[Carried]) -> Bundle:
        path = self._scratch / f"{len(self._made)}.tar"
        into: dict[str, str] = {}
        with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
            for number, each in enumerate(carried):
                source = each.source or self._uv()
                member = tarfile.TarInfo(f"{number}.gz" if each.source is None else str(number))
                member.mode, member.size = each.mode, source.stat().st_size
                into[member.name] = each.target
                with source.open("rb") as file:
                    archive.addfile(member, file)
        with path.open("rb") as file:
            return Bundle(path, hashlib.file_digest(file, "sha256").hexdigest(), into)

    def _uv(self) -> Path:
        import uv  # noqa: PLC0415 - needed only where it is carried

        packed = self._kept / f"uv-{metadata.version('uv')}.gz"
        if not packed.exists():
            self._kept.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = io.BytesIO()
            with (
                Path(uv.find_uv_bin()).open("rb") as file,
                gzip.GzipFile("uv", "wb", _LEVEL, fresh, mtime=0) as written,
            ):
                shutil.copyfileobj(file, written, 1 << 20)
            draft = packed.with_name(f".{secrets.token_hex(4)}.part")
            draft.write_bytes(fresh.getvalue())
            draft.replace(packed)
        return packed


def _check_uv_fits(facts: Facts) -> None:
    is_ours = sys.platform == "linux" and platform.machine() == facts.machine and facts.libc == "glibc"
    if not is_ours:
        there = f"linux-{facts.machine}" + (", musl" if facts.libc == "musl" else "")
        raise HostRefusedError(
            facts.host,
            "carry uv there",
            f"the host is {there}, and the uv of this machine does not run there",
            hint=f"give it wheels, uv among them: crawlctl nodes wheelhouse DIR --platform linux-{facts.machine}",
        )
