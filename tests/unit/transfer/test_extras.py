"""Without its extra, a database says how to get it."""

from __future__ import annotations

import sys

import pytest

from toolkit.model.errors import ConfigurationError, MissingExtraError
from toolkit.transfer.address import parse_place
from toolkit.transfer.seeds import read_seeds, sql_query
from toolkit.transfer.sinks import open_sink


@pytest.mark.parametrize(
    ("url", "library", "hint"),
    [
        ("sqlite:///items.db", "sqlalchemy", "pip install 'crawlctl[sql]'"),
        ("postgresql://db/shop", "psycopg", "pip install 'crawlctl[sql]'"),
        ("mongodb://db/shop", "pymongo", "pip install 'crawlctl[mongo]'"),
    ],
)
def test_a_library_that_is_absent_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, url: str, library: str, hint: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r"is not installed") as told:
        open_sink(parse_place(url))
    assert told.value.hint == hint


def test_seeds_of_a_query_need_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(MissingExtraError):
        list(read_seeds(query=sql_query("sqlite:///items.db", "SELECT 1 AS url")))


def test_the_driver_of_another_database_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    with pytest.raises(ConfigurationError, match="its driver MySQLdb is not installed") as told:
        open_sink(parse_place("mysql://db/shop"))
    assert told.value.hint == "install it, or name the driver that you have: mysql+DRIVER://"
