"""What is read of a pickle without trust: plain data, and the texts that lxml finds in a page. Nothing is run."""

from __future__ import annotations

import pickle

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

from toolkit.transfer.pickled import UnreadableBodyError, read_plain

URL = b"X\x03\0\0\0url"
TEXTS = b"clxml.etree\n_ElementUnicodeResult\n"


def a_pickle_of(value: bytes) -> bytes:
    """Return the program of a pickle: a dictionary whose `url` is what another program makes."""
    return b"\x80\x05}" + URL + value + b"s."


@pytest.mark.parametrize("protocol", [3, 4, pickle.HIGHEST_PROTOCOL])
def test_the_link_text_of_a_crawl_spider_is_plain_text(protocol: int) -> None:
    page = HtmlResponse("https://a.example/", body=b"<a href=/1>One <b>page</b></a>", encoding="utf-8")
    (link,) = LinkExtractor().extract_links(page)
    body = pickle.dumps(Request(link.url, meta={"rule": 0, "link_text": link.text}).to_dict(), protocol)
    assert b"_ElementUnicodeResult" in body, "Scrapy gives texts of another class now: which?"
    (text,) = {read_plain(body)["meta"]["link_text"]}
    assert (type(text), text) == (str, "One page")


@pytest.mark.parametrize(
    "made",
    [
        TEXTS + b"]\x85R",  # of a list: its text might be far larger than all that the pickle holds
        TEXTS + b"C\x01aX\x04\0\0\0utf7\x86R",  # of bytes and a codec
        TEXTS + b"X\x01\0\0\0a\x85\x81}X\x01\0\0\0bK\x01sb",  # a text with an attribute
        TEXTS + b"N}X\x07\0\0\0__new__K\x01s\x86b",  # the class itself, changed for all pickles after it
        b"cos\nsystem\nX\x02\0\0\0id\x85R",
        b"cbuiltins\nstr\n",
        b"clxml.etree\nparse\n",
    ],
)
def test_a_pickle_that_does_more_with_texts_or_names_anything_else_is_not_read(made: bytes) -> None:
    with pytest.raises(UnreadableBodyError):
        read_plain(a_pickle_of(made))
    assert read_plain(a_pickle_of(TEXTS + b"X\x01\0\0\0a\x85\x81")) == {"url": "a"}
