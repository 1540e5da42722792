"""Items go into a stand-in for MongoDB that speaks its wire protocol; no real MongoDB is behind these tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from support.item_stream import EndedError, ItemStream, bodies
from support.mongo_stand_in import MongoStandIn, stand_in_path
from support.ports import free_port
from support.require import require

from toolkit.model.errors import CrawlctlError, DatabaseUnreachableError, UsageError
from toolkit.model.transfers import Drained
from toolkit.transfer.address import parse_place
from toolkit.transfer.drain import drain
from toolkit.transfer.sinks import open_sink


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[MongoStandIn]:
    require(stand_in_path(), "no stand-in for MongoDB: install the nx-27017 package")
    with MongoStandIn(tmp_path / "mongo") as server:
        yield server


def drained(stream: ItemStream, url: str, *, batch: int = 3, collection: str = "items") -> Drained:
    with closing(open_sink(parse_place(url), table=collection)) as sink:
        *_, done = drain(stream.source(), sink, batch=batch)
    return done


def test_in_the_stand_in_items_become_documents(stand_in: MongoStandIn) -> None:
    assert drained(ItemStream(bodies(2)), stand_in.url, collection="things") == Drained(new=2)
    first, second = stand_in.documents("things")
    assert first.pop("at").year == 2026
    assert first == {"_id": "shop/0000000000000000-0", "crawl": "shop", "item": {"number": 0, "name": "Läufer 0"}}
    assert second["_id"] == "shop/0000000000000001-0"


def test_in_the_stand_in_every_item_is_there_once_wherever_a_drain_is_ended(stand_in: MongoStandIn) -> None:
    for calls in range(0, 12, 3):
        stream = ItemStream(bodies(10))
        stream.ends_after = calls
        with suppress(EndedError):
            drained(stream, stand_in.url, collection=f"after_{calls}")
        stream.ends_after = None
        drained(stream, stand_in.url, collection=f"after_{calls}")
        assert [each["item"]["number"] for each in stand_in.documents(f"after_{calls}")] == list(range(10))


def test_in_the_stand_in_known_items_are_counted(stand_in: MongoStandIn) -> None:
    stream = ItemStream(bodies(4))
    stream.ends_after = 2
    with suppress(EndedError):
        drained(stream, stand_in.url)
    stream.ends_after = None
    assert drained(stream, stand_in.url) == Drained(new=1, known=3)


def test_the_stand_in_gets_what_mongodb_can_hold(stand_in: MongoStandIn) -> None:
    odd = [b'{"a.b": 123456789012345678901234567890, "$c": "\\ud800", "n\\u0000l": 1}']
    assert drained(ItemStream(odd), stand_in.url) == Drained(new=1, altered=1)
    (document,) = stand_in.documents()
    assert document["item"] == {"a.b": "123456789012345678901234567890", "$c": "�", "n�l": 1}


@pytest.mark.parametrize(
    ("url", "error", "why"),
    [
        ("mongodb://ann:s3cret@127.0.0.1:{port}/shop", DatabaseUnreachableError, "refused"),
        ("mongodb://127.0.0.1:{port}/", UsageError, "No default database"),
        ("mongodb://ann:s3/cret@127.0.0.1:{port}/shop", UsageError, "mongodb://"),
    ],
)
def test_a_bad_url_of_mongodb_is_told(
    url: str, error: type[CrawlctlError], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(stand_in_path(), "pymongo comes with the stand-in")
    monkeypatch.setattr("toolkit.transfer.sink_mongo.ANSWER_WITHIN_MS", 3000)
    with pytest.raises(error, match=why) as told:
        drained(ItemStream(bodies(1)), url.replace("{port}", str(free_port())))
    assert "cret" not in f"{told.value} {told.value.hint}"
