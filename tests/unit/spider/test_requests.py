"""Every request of a spider comes back as it was; what cannot be kept is named, and nothing that Redis names is run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest, XmlRpcRequest

from toolkit.model.errors import StoreUnreadableError, UnwritableError
from toolkit.spider.requests import RequestWriter
from toolkit.store.wire_requests import Wire, write_request

URL = "https://books.example.com/catalogue/page-1.html?a=1&b=2"


class Books(Spider):
    name = "books"

    def parse(self, response: Any, **_: Any) -> Any:
        return response

    def failed(self, failure: Any) -> Any:
        return failure

    def __hidden(self, response: Any) -> Any:
        return response

    def hidden(self) -> Any:
        return self.__hidden


class Own(Request):
    """A request of the project's own class, with a field more."""

    attributes = (*Request.attributes, "colour")

    def __init__(self, *args: Any, colour: str = "red", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.colour = colour


SPIDER = Books()
REQUESTS = [
    Request(URL),
    Request(URL, callback=SPIDER.parse, errback=SPIDER.failed),
    Request(URL, callback=SPIDER.hidden()),
    Request(URL, method="POST", body="näme=1", encoding="latin-1", headers={"Referer": URL, "X": ["1", "2"]}),
    Request(URL, cookies={"a": "b"}, meta={"depth": 3, "tried": (1, 2)}, cb_kwargs={"n": 1}, flags=["x"]),
    Request(URL, cookies=[{"name": "a", "value": "b", "domain": "books.example.com"}], priority=-5, dont_filter=True),
    FormRequest(URL, formdata={"a": "b"}, callback=SPIDER.parse),
    FormRequest(URL, method="GET"),
    JsonRequest(URL, data={"a": [1, 2]}),
    JsonRequest(URL),
    XmlRpcRequest(URL, methodname="list", params=(1,)),
    Own(URL, colour="blue"),
]


def as_fields(request: Request) -> dict[str, Any]:
    return {name: getattr(request, name) for name in request.attributes}


@pytest.mark.parametrize("wire", list(Wire))
@pytest.mark.parametrize(
    "request_", REQUESTS, ids=[f"{type(each).__name__}-{number}" for number, each in enumerate(REQUESTS)]
)
def test_a_request_comes_back_as_it_was(wire: Wire, request_: Request) -> None:
    writer = RequestWriter(SPIDER, wire)
    back = writer.read(writer.write(request_))
    assert type(back) is type(request_)
    assert as_fields(back) == as_fields(request_)


def test_what_is_as_scrapy_leaves_it_is_not_written() -> None:
    assert RequestWriter(SPIDER).fields(RequestWriter(SPIDER).write(Request(URL))) == {"url": URL}


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (Request(URL, callback=print), "callback"),
        (Request(URL, errback=print), "errback"),
        (Request(URL, callback=Books().parse), "callback"),
        (Request(URL, meta={"lock": object()}), "meta"),
    ],
)
def test_what_cannot_be_kept_is_named(request_: Request, field: str) -> None:
    with pytest.raises(UnwritableError) as caught:
        RequestWriter(SPIDER).write(request_)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "fields",
    [
        {"url": URL, "callback": "vanished"},
        {"url": URL, "callback": "name"},
        {"url": URL, "callback": "__class__"},
        {"url": URL, "callback": ["parse"]},
        {"url": URL, "class": ["os.system", {}]},
        {"url": URL, "class": ["scrapy.spiders.Spider", {}]},
    ],
)
def test_only_methods_of_the_spider_and_requests_that_are_loaded_are_taken(fields: dict[str, Any]) -> None:
    with pytest.raises(StoreUnreadableError):
        RequestWriter(SPIDER).read(write_request(fields))


def test_a_serializer_of_the_project_s_own_is_used_and_its_errors_name_it() -> None:
    writer = RequestWriter(SPIDER, json)
    body = writer.write(Request(URL, meta={"depth": 1}))
    assert json.loads(body) == {"url": URL, "meta": {"depth": 1}}
    assert writer.read(body).meta == {"depth": 1}
    with pytest.raises(UnwritableError, match="SCHEDULER_SERIALIZER"):
        writer.write(Request(URL, body=b"\xff"))
    with pytest.raises(StoreUnreadableError, match="no URL"):
        writer.read(b"{}")
