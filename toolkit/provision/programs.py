"""Puts together the programs that hosts run, and reads what they answer. Pure.

A program and its arguments go over the connection's stdin, so that nothing of them is in a process list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from toolkit.model.errors import HostRefusedError
from toolkit.provision.remote import Ran

FACTS = ("on_host", "facts_program")
STEPS = ("on_host", "on_host_acting", "packages_program", "steps_program")
"""The modules that a program consists of, in the order in which they need one another."""

_OUR_IMPORT = re.compile(r"^from toolkit\.\S+ import (?:\([^)]*\)|.*)\n", re.MULTILINE)
NO_PYTHON = 47

PYTHON_OF_ANY_NAME = f"""
if command -v "$1" >/dev/null 2>&1; then exec "$1" -I -; fi
for python in python3 python3.13 python3.12 python3.11; do
  if command -v $python >/dev/null 2>&1; then exec env LACKED_PYTHON="$1" $python -I -; fi
done
cat >/dev/null
exit {NO_PYTHON}
"""
"""Runs the program on stdin with the Python that is wished for, else with another one, which then says so."""


def composed(modules: Sequence[str], arguments: Mapping[str, Any]) -> bytes:
    """Return the text of a program that is called with these arguments."""
    text = json.dumps(arguments)
    sources = "\n\n".join(map(_source, modules))
    return f"{sources}\n\nmain(json.loads({text!r}))\n".encode()


def answer(ran: Ran, mark: str, *, host: str, doing: str) -> Any:
    """Return what the program said in its marked line, whatever else a login prints.

    Raises:
        HostRefusedError: it said nothing that can be read.

    """
    lines = [line for line in ran.stdout.splitlines() if line.startswith(mark)]
    try:
        return json.loads(lines[-1].removeprefix(mark))
    except (IndexError, ValueError) as error:
        raise HostRefusedError(host, doing, ran.last_words) from error


@cache
def _source(name: str) -> str:
    return _OUR_IMPORT.sub("", Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8"))
