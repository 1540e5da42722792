"""What the record of changes promises (`Audit` in `toolkit/store/interfaces.py`), on each back end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from support.stores import BEGIN, SOON_S, Opener

from toolkit.model.audit import AuditEntry
from toolkit.model.errors import UsageError
from toolkit.model.hosts import Secret
from toolkit.model.names import NodeName
from toolkit.store.connect import RedisDoor
from toolkit.store.interfaces import Store
from toolkit.store.keys import Keys
from toolkit.store.local_audit import LocalAudit
from toolkit.store.local_file import LocalFile
from toolkit.store.redis_audit import RedisAudit

DRAINED = AuditEntry(
    at=BEGIN,
    who="ann@desk:4711",
    action="nodes drain",
    subject="für Köln →",
    nodes=(NodeName("node-1"), NodeName("node-2")),
    result="done",
    detail="2 node(s)",
)


def subjects(entries: object) -> list[str]:
    assert isinstance(entries, tuple)
    return [entry.subject for entry in entries]


def noted(store: Store, *names: str) -> list[str]:
    return [store.audit.note(replace(DRAINED, subject=name)) for name in names]


def test_an_entry_comes_back_with_the_store_s_own_time_and_id(opened: Opener) -> None:
    store = opened()
    before = store.now()
    entry_id = store.audit.note(replace(DRAINED, id="mine"))

    (found,) = opened().audit.entries()

    assert found == replace(DRAINED, at=found.at, id=entry_id)
    assert abs(found.at - before) < timedelta(seconds=SOON_S)


def test_entries_come_newest_first_and_as_many_as_asked_for(store: Store) -> None:
    assert store.audit.entries() == ()
    noted(store, *"abcde")

    assert subjects(store.audit.entries()) == list("edcba")
    assert subjects(store.audit.entries(limit=2)) == ["e", "d"]
    assert store.audit.entries(limit=0) == ()


def test_older_entries_follow_the_last_one_seen(store: Store) -> None:
    ids = noted(store, *"abcde")
    assert subjects(store.audit.entries(limit=2, before=ids[3])) == ["c", "b"]
    assert store.audit.entries(before=ids[0]) == ()
    with pytest.raises(UsageError, match="no id of an entry"):
        store.audit.entries(before="; drop")


def test_entries_before_a_moment_are_left_out(store: Store) -> None:
    noted(store, "a")
    (entry,) = store.audit.entries()
    assert subjects(store.audit.entries(since=entry.at)) == ["a"]
    assert store.audit.entries(since=entry.at + timedelta(milliseconds=1)) == ()
    assert subjects(store.audit.entries(since=entry.at - timedelta(days=900_000 // 24))) == ["a"]


def test_an_entry_may_name_nobody_s_nodes_and_no_detail(store: Store) -> None:
    store.audit.note(replace(DRAINED, nodes=(), detail=None))
    (found,) = store.audit.entries()
    assert (found.nodes, found.detail) == ((), None)


def test_only_the_newest_entries_stay_in_redis(redis_url: str) -> None:
    door = RedisDoor(Secret(redis_url))
    audit = RedisAudit(door, Keys(), max_entries=3)
    for name in "abcde":
        audit.note(replace(DRAINED, subject=name))
    assert subjects(audit.entries()) == list("edc")
    door.close()


def test_only_the_newest_entries_stay_in_a_file(tmp_path: Path) -> None:
    file = LocalFile(tmp_path / "store.sqlite3")
    audit = LocalAudit(file, max_entries=3)
    for name in "abcde":
        audit.note(replace(DRAINED, subject=name))
    assert subjects(audit.entries()) == list("edc")
    file.close()
