"""The exit codes of commands and how errors are told; the table stands where every face can read it."""

from __future__ import annotations

from toolkit.views.errors import INTERRUPTED, MEANINGS, TABLE, ExitCode, described

__all__ = ["INTERRUPTED", "MEANINGS", "TABLE", "ExitCode", "described"]
