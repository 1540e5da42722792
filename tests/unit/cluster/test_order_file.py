"""Orders from a file: what is right is read as it is written, what is wrong is told with its line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.registry import a_record
from support.stores import NEWS, SHOP, V1, V2, a_lock, a_release, a_rollout

from toolkit.cluster.order_file import MAX_SHOWN, orders_from_file, orders_from_lines
from toolkit.model.errors import UsageError
from toolkit.model.orders import Order
from toolkit.store.interfaces import Store
from toolkit.store.open import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(None, tmp_path)
    lock = a_lock(store)
    store.releases.record(a_release(), lock)
    store.releases.activate(a_rollout(), lock, held_by=[])
    yield store
    store.close()


def read(store: Store, *lines: object, project: str | None = None) -> Sequence[Order]:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return orders_from_lines(texts, store.releases, [a_record("a", versions=[V1, V2])], project=project)


def wrong(store: Store, *lines: object) -> str:
    with pytest.raises(UsageError) as caught:
        read(store, *lines)
    return caught.value.message


def test_a_line_needs_a_spider_and_nothing_else(store: Store) -> None:
    (order,) = read(store, {"spider": "books"})
    assert (order.project, order.spider, order.version, order.priority) == (SHOP, "books", V1, 0.0)


def test_a_line_may_say_everything(store: Store) -> None:
    line = {
        "spider": "prices",
        "project": "shop",
        "version": V2,
        "args": {"city": "Zürich", "max": 5, "fast": True},
        "settings": {"DOWNLOAD_DELAY": 0.5},
        "priority": -3,
        "id": "job-1",
    }
    (order,) = read(store, line)
    assert (order.version, order.priority, order.job_id) == (V2, -3, "job-1")
    assert order.args == {"city": "Zürich", "max": "5", "fast": "true"}
    assert order.settings == {"DOWNLOAD_DELAY": "0.5"}


def test_empty_lines_count_for_the_numbers_only(store: Store) -> None:
    assert len(read(store, {"spider": "books"}, "", "  ", {"spider": "prices"})) == 2
    assert wrong(store, "", {"spider": "booked"}).startswith("the file:2: ")


def test_every_mistake_is_told_at_once_with_its_line(store: Store) -> None:
    told = wrong(
        store,
        {"spider": "books"},
        "{",
        [1],
        {"spider": "bookz"},
        {"spider": "books", "spyder": 1},
        {"spider": "books", "priority": "high"},
        {"spider": "books", "priority": 5000},
        {"spider": "books", "args": {"deep": {}}},
        {"spider": "books", "args": {"jobid": "x"}},
        {"spider": "books", "id": "../x"},
        {"project": "shop"},
        {"spider": "books", "version": "v1"},
    ).splitlines()
    assert [line.split(":")[1] for line in told] == [str(number) for number in range(2, 13)]
    assert "did you mean books" in told[2]
    assert "did you mean 'spider'" in told[3]
    assert "-1000 to 1000" in told[5]


def test_one_id_cannot_be_two_jobs(store: Store) -> None:
    lines = [{"spider": "books", "id": "a"}, {"spider": "books", "id": "b"}, {"spider": "prices", "id": "a"}]
    assert wrong(store, *lines) == "the file:3: the id a is that of line 1 too"


def test_thousands_of_mistakes_are_counted_rather_than_shown(store: Store) -> None:
    told = wrong(store, *(["{"] * 1000)).splitlines()
    assert len(told) == MAX_SHOWN + 1
    assert told[-1] == f"and {1000 - MAX_SHOWN} more"


def test_an_empty_file_is_a_mistake(store: Store) -> None:
    assert wrong(store, "") == "the file names no job"


def test_lines_without_a_project_get_the_one_given(store: Store) -> None:
    assert read(store, {"spider": "books"}, project="shop")[0].project == SHOP
    with pytest.raises(UsageError, match="has no active release"):
        read(store, {"spider": "books"}, project=NEWS)


def test_a_file_that_cannot_be_read_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.jsonl cannot be read: No such file or directory$"):
        orders_from_file(tmp_path / "missing.jsonl", store.releases, [])
    odd = tmp_path / "odd.jsonl"
    odd.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read: it is not UTF-8 text"):
        orders_from_file(odd, store.releases, [])


def test_a_file_names_itself_in_its_mistakes(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text('{"spider": "books"}\n{"spider": 7}\n')
    with pytest.raises(UsageError) as caught:
        orders_from_file(file, store.releases, [])
    assert caught.value.message == f"{file}:2: spider is a text, not 7"


def test_a_release_is_looked_up_once_for_each_spider(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    actives = store.releases.actives

    def counting() -> object:
        nonlocal asked
        asked += 1
        return actives()

    monkeypatch.setattr(store.releases, "actives", counting)
    assert len(read(store, *([{"spider": "books"}, {"spider": "prices"}] * 500))) == 1000
    assert asked <= 2
