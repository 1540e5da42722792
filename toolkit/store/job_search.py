"""Finding jobs in Redis by what they are: a filter as `lua/find_jobs.lua` reads it, and calls until enough is found.

A hundred thousand records are looked through inside Redis, some thousand in a call, so that nobody waits for long and
only what is shown goes over the wire.
"""

from __future__ import annotations

import json
import re
from typing import Any

from toolkit.model.jobs import JobFilter, JobState
from toolkit.store.connect import RedisDoor
from toolkit.store.keys import Keys
from toolkit.store.ordering import microseconds

LOOKED_A_CALL = 1000
"""Of so many jobs a call reads the records: it stands in everybody's way for some milliseconds."""
PASSED_A_CALL = 3000
"""Without a filter no record is read, and a call passes over so many."""

_PLAIN = re.compile(r"[A-Za-z0-9_.:@+-]+")
_PAUSABLE = frozenset({JobState.RUNNING, JobState.PAUSED})
_NOWHERE = [False, False]


def find_ids(door: RedisDoor, keys: Keys, wanted: JobFilter, *, limit: int, offset: int) -> list[str]:
    """Return the ids of the newest jobs that pass, without the first `offset`; some may have changed meanwhile."""
    finals = {state.is_final for state in wanted.states} or {True, False}
    indexes = [keys.final_jobs if is_final else keys.unfinished_jobs for is_final in sorted(finals)]
    since = 0 if wanted.since is None else max(0, microseconds(wanted.since))
    text = json.dumps(words_of(wanted))
    is_all = wanted == JobFilter()
    found: list[str] = []
    places: str = json.dumps(_NOWHERE[: len(indexes)])
    while places and len(found) < limit:
        most = min(PASSED_A_CALL, offset + limit - len(found)) if is_all else LOOKED_A_CALL
        some, offset, places = door.run(
            "find_jobs",
            keys=[keys.jobs, keys.orders, keys.progress, *indexes],
            args=[most, limit - len(found), offset, since, text, places],
        )
        found += some
    return found


def words_of(wanted: JobFilter) -> dict[str, Any]:
    """Return a filter as the script reads it. Pure.

    Of the `needles` each must be in the text of a record that passes: most records need not be parsed then. A name that
    JSON may write in more than one way gives none, nor do states, since a paused job's record says that it runs.
    """
    words: dict[str, Any] = {"needles": needles_of(wanted)}
    if wanted == JobFilter():
        words["is_all"] = True
    for name in ("spider", "project", "crawl"):
        if (value := getattr(wanted, name)) is not None:
            words[name] = value
    if wanted.nodes:
        words["nodes"] = dict.fromkeys(sorted(wanted.nodes), True)
    if wanted.states:
        words["states"] = {state.value: True for state in sorted(wanted.states)}
        words["tells_paused"] = len(wanted.states & _PAUSABLE) == 1
    return words


def needles_of(wanted: JobFilter) -> list[str]:
    """Return texts that the record of every job holds which passes. Pure."""
    node = next(iter(wanted.nodes)) if len(wanted.nodes) == 1 else None
    state = next(iter(wanted.states)) if len(wanted.states) == 1 else None
    state = JobState.RUNNING if state is JobState.PAUSED else state
    values = (wanted.spider, wanted.project, node, state)
    return [f'"{value}"' for value in values if value is not None and _PLAIN.fullmatch(value)]
