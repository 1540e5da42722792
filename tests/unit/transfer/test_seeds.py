"""Seeds are read from words, files, standard input and queries, and checked before any is handed out."""

from __future__ import annotations

import io
import json
import sqlite3
from pathlib import Path

import pytest

from toolkit.model.errors import ConfigurationError, DatabaseUnreachableError, UsageError
from toolkit.transfer.seeds import read_seeds, seed_problem, sql_query


def lines(*texts: str) -> io.BytesIO:
    return io.BytesIO("\n".join(texts).encode())


def test_words_lines_and_rows_come_in_this_order(tmp_path: Path) -> None:
    database = tmp_path / "shops.sqlite3"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE shops (url TEXT)")
        connection.execute("INSERT INTO shops VALUES ('https://c.example/')")
    seeds = read_seeds(
        ["https://a.example/"],
        file=Path("-"),
        stdin=lines("https://b.example/"),
        query=sql_query(f"sqlite:///{database}", "SELECT url FROM shops"),
    )
    assert list(seeds) == [b"https://a.example/", b"https://b.example/", b"https://c.example/"]


def test_a_file_may_have_empty_lines_comments_and_the_line_ends_of_another_system(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_bytes(b"\xef\xbb\xbfhttps://a.example/\r\n\r\n# the rest\r\n  https://b.example/?q=1#x  ")
    assert list(read_seeds(file=file)) == [b"https://a.example/", b"https://b.example/?q=1#x"]


def test_an_object_passes_as_it_is() -> None:
    seed = '{"url": "https://a.example/", "meta": {"city": "Zürich"}}'
    assert list(read_seeds(file=Path("-"), stdin=lines(seed))) == [seed.encode()]


@pytest.mark.parametrize(
    ("seed", "why"),
    [
        ("a.example/page", "scheme"),
        ("https://a.example/two words", "spaces"),
        ("https:/a.example", "no host"),
        ("http://?q", "no host"),
        ('{"url": "https://a.example/"', "not JSON"),
        ('{"uri": "https://a.example/"}', "url is missing"),
        ('{"url": 7}', "no text"),
        ('{"url": "nowhere"}', "scheme"),
        ('["https://a.example/"]', "no object"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_no_spider_could_begin_with_is_no_seed(seed: str, why: str) -> None:
    assert why in (seed_problem(seed.encode()) or "")


@pytest.mark.parametrize("seed", ["https://a.example", "data:,x", "s3://bucket/key", "HTTP://A.EXAMPLE/ü"])
def test_any_scheme_will_do(seed: str) -> None:
    assert seed_problem(seed.encode()) is None


def test_a_bad_line_is_named_by_its_number_before_any_is_handed_out() -> None:
    seeds = read_seeds(file=Path("-"), stdin=lines("https://a.example/", "", "nowhere", "https://b.example/"))
    with pytest.raises(UsageError, match=r"standard input, line 3: nowhere is no seed: .*; nothing was pushed"):
        next(seeds)


def test_bytes_that_are_no_text_are_no_seed() -> None:
    with pytest.raises(UsageError, match=r"line 1: .* not UTF-8"):
        list(read_seeds(file=Path("-"), stdin=io.BytesIO(b"https://a.example/\xff\n")))


def test_unchecked_seeds_may_be_anything() -> None:
    seeds = read_seeds(["4711"], file=Path("-"), stdin=io.BytesIO(b"a b\xff\n"), are_checked=False)
    assert list(seeds) == [b"4711", b"a b\xff"]


def test_more_seeds_than_memory_should_hold_all_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.transfer.seeds.KEPT_IN_MEMORY", 1000)
    file = tmp_path / "seeds.txt"
    file.write_text("".join(f"https://a.example/{number}\n" for number in range(5000)))
    assert list(read_seeds(file=file)) == [b"https://a.example/%d" % number for number in range(5000)]


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        list(read_seeds(file=tmp_path / "seeds.txt"))


def _database(folder: Path) -> str:
    path = folder / "shops.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE shops (id INTEGER, address TEXT, opened DATE, logo BLOB, rate REAL)")
        connection.execute("INSERT INTO shops VALUES (1, 'https://a.example/', '2026-11-20', x'00', 0.5)")
        connection.execute("INSERT INTO shops VALUES (2, 'nowhere', NULL, NULL, 1)")
    return f"sqlite:///{path}"


def test_other_columns_become_fields_of_the_seed(tmp_path: Path) -> None:
    query = sql_query(_database(tmp_path), "SELECT address AS url, id, opened, rate FROM shops WHERE id = 1")
    (seed,) = read_seeds(query=query)
    assert json.loads(seed) == {"url": "https://a.example/", "id": 1, "opened": "2026-11-20", "rate": 0.5}


def test_a_colon_in_a_query_is_no_parameter(tmp_path: Path) -> None:
    query = sql_query(_database(tmp_path), "SELECT 'https://a.example/:x?at=12:30%20' AS url")
    assert list(read_seeds(query=query)) == [b"https://a.example/:x?at=12:30%20"]


def test_a_bad_row_is_named_by_its_number(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="row 2: nowhere is no seed"):
        next(read_seeds(query=sql_query(_database(tmp_path), "SELECT address AS url FROM shops ORDER BY id")))


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT address FROM shops", "no column url"),
        ("SELECT id AS url FROM shops", "row 1: its url is 1"),
        ("SELECT address AS url, logo FROM shops", "logo is binary"),
        ("CHOOSE 1", "does not understand the query"),
        ("SELECT url FROM nowhere", "no such table"),
        ("UPDATE shops SET id = 3", "returns no rows"),
    ],
)
def test_a_query_that_brings_no_seeds_is_told(tmp_path: Path, query: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        list(read_seeds(query=sql_query(_database(tmp_path), query)))


def test_a_database_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    query = sql_query(f"sqlite:///{tmp_path}/no/folder.sqlite3", "SELECT 1 AS url")
    with pytest.raises(DatabaseUnreachableError, match="unable to open"):
        list(read_seeds(query=query))


def test_a_file_or_mongodb_is_no_sql_database() -> None:
    for url in ("seeds.txt", "mongodb://localhost/shop", "https://a.example/"):
        with pytest.raises(UsageError):
            sql_query(url, "SELECT 1 AS url")
