"""Which crawl a spider works on by its arguments: without any the one of its name, and never that of others."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import (
    CrawlId,
    JobId,
    ProjectName,
    SpiderName,
    check_crawl,
    default_crawl,
    digest_of,
    shown_arguments,
)

ARGUMENTS = st.dictionaries(st.text(min_size=1), st.text(), min_size=1, max_size=4)


def test_a_spider_without_arguments_works_on_the_crawl_of_its_name() -> None:
    assert default_crawl("books", {}) == "books"
    assert digest_of({}) == digest_of({}) != digest_of({"a": ""})


def test_the_id_of_a_crawl_with_arguments_stays_the_same_in_all_versions() -> None:
    assert default_crawl("books", {"category": "lamps", "limit": "9"}) == "books:f2364365"


@given(ARGUMENTS)
def test_arguments_make_an_id_of_the_spider_s_name_and_a_digest_whatever_their_order(args: Mapping[str, str]) -> None:
    crawl = default_crawl("books", args)
    assert crawl == default_crawl("books", dict(reversed(list(args.items()))))
    assert check_crawl(crawl).startswith("books:")
    assert digest_of(args).startswith(crawl.removeprefix("books:"))


@given(ARGUMENTS, ARGUMENTS)
def test_only_what_is_one_on_a_command_line_has_one_digest(one: Mapping[str, str], other: Mapping[str, str]) -> None:
    are_one = sorted(map("=".join, one.items())) == sorted(map("=".join, other.items()))
    assert (digest_of(one) == digest_of(other)) is are_one


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({}, ""),
        ({"limit": "9", "category": "lamps"}, "-a category=lamps -a limit=9"),
        ({"title": "a b"}, "-a 'title=a b'"),
        ({"a": "x\ny\x1b[31m"}, "-a 'a=x?y?[31m'"),
        ({"a": "x" * 200}, f"-a a={'x' * 94}…"),
        ({"a": "\udcff"}, "-a 'a=?'"),
    ],
)
def test_arguments_are_shown_as_they_are_given_in_a_line_of_bounded_length(args: dict[str, str], shown: str) -> None:
    assert shown_arguments(args) == shown


@given(st.dictionaries(st.sampled_from("abc"), st.text("xyz '\"$\\=", max_size=5), max_size=3))
def test_short_arguments_can_be_copied(args: Mapping[str, str]) -> None:
    assert shlex.split(shown_arguments(args)) == [
        part for each in sorted(args.items()) for part in ("-a", "=".join(each))
    ]


def test_a_job_belongs_to_the_crawl_of_its_arguments_unless_it_names_another() -> None:
    def a_job(args: Mapping[str, str] | None, settings: Mapping[str, str] | None = None) -> Job:
        spider = SpiderName("books")
        return Job(JobId("a"), ProjectName("shop"), spider, JobState.PENDING, args=args, settings=settings)

    lamps = default_crawl("books", {"category": "lamps"})
    assert a_job(None).crawl is None
    assert a_job({}, {"FRONTIER_CRAWL": ""}).crawl is None
    assert a_job({"category": "lamps"}).crawl == lamps
    assert a_job({"category": "lamps"}, {"FRONTIER_CRAWL": "books"}).crawl == CrawlId("books")
    assert JobFilter(crawl=lamps).admits(a_job({"category": "lamps"}))
    assert not JobFilter(crawl="books").admits(a_job({"category": "lamps"}))
    assert JobFilter(crawl="books").admits(a_job({}))
