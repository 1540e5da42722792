"""Look at an uploaded egg before anything of it is read or run: a ZIP file, and of a sane size when unpacked.

Guards against accidents and simple bombs, not against a hostile deployer: whoever may upload an egg may run code.
"""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path, PurePosixPath

from toolkit.model.errors import EggError

MAX_ENTRIES = 50_000
UNPACKED_FACTOR = 16
"""How many times the largest allowed upload an egg may take when unpacked."""

# What Scrapyd 1.6 says (webservice.py).
NOT_A_ZIP = "egg is not a ZIP file (if using curl, use egg=@path not egg=path)"

_END_RECORD = struct.Struct("<4s4H2LH")
_LONGEST_COMMENT = 65_535


def check_archive(path: Path, *, max_unpacked_bytes: int) -> None:
    """Refuse what is no egg of a sane size; reads the archive's directory only, and that only when it is small.

    Raises:
        EggError: no ZIP file, too many files, too large when unpacked, or a file that would be put outside.

    """
    _check_directory_size(path)
    try:
        with zipfile.ZipFile(path) as egg:
            entries = egg.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise EggError(NOT_A_ZIP) from error
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > max_unpacked_bytes:
        raise EggError(
            f"the egg takes {unpacked // 1_000_000} MB unpacked; {max_unpacked_bytes // 1_000_000} MB can be"
        )
    for entry in entries:
        inside = PurePosixPath(entry.filename)
        if inside.is_absolute() or ".." in inside.parts or "\\" in entry.filename:
            raise EggError(f"the egg has a file that would be put outside of it: {entry.filename!r:.200}")


def _check_directory_size(path: Path) -> None:
    """Python reads the whole directory of an archive into memory, so a huge one is refused by its last record alone."""
    with path.open("rb") as egg:
        size = egg.seek(0, 2)
        egg.seek(max(0, size - _LONGEST_COMMENT - _END_RECORD.size))
        tail = egg.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END_RECORD.size:
        raise EggError(NOT_A_ZIP)
    *_, entries, directory_bytes, _offset, _comment = _END_RECORD.unpack_from(tail, at)
    is_zip64 = tail[max(0, at - 20) : at].startswith(b"PK\x06\x07")
    if is_zip64 or entries > MAX_ENTRIES or directory_bytes > MAX_ENTRIES * 300:
        raise EggError(f"the egg has more than {MAX_ENTRIES} files")
