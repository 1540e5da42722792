"""What becomes of a firing: its jobs with their templates filled in, or why there are none; and what may be a cron."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.stores import NEWS, SHOP, V2, a_release

from toolkit.crons.checking import check_circles, check_cron
from toolkit.crons.firing import job_id_of, proposal, shortcoming
from toolkit.crons.templates import NAMES, check_template
from toolkit.model.crons import After, Cron, Due, FiringState, Late, Outcome, Proposal, Taken, Trigger
from toolkit.model.errors import UsageError
from toolkit.model.jobs import CRAWL_SETTING, RUN_SETTING
from toolkit.model.names import CrawlId, JobId, NodeName, ProjectName, SpiderName

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_DUE = Due(NOON, NOON)
BOOKS = Cron("nightly", SpiderName("books"), at="@hourly", timezone="Europe/Berlin")
RELEASES = {SHOP: a_release(V2)}


def fire(cron: Cron = BOOKS, *, releases: Any = None, late_s: float = 0, **more: Any) -> Proposal:
    taken = Taken(cron, "r", Trigger(NOON), due=NOON_DUE, **more)
    now = NOON + timedelta(seconds=late_s)
    return proposal(taken, releases=RELEASES if releases is None else releases, now=now, by="node-1")


def test_a_firing_is_a_job_of_the_active_release() -> None:
    told = fire(replace(BOOKS, on=(NodeName("node-2"), NodeName("node-1")), attempts=3, timeout_s=60.0, priority=2.0))
    (job,) = told.jobs
    assert (told.state, told.next) == (FiringState.FIRED, Due(NOON + timedelta(hours=1), NOON + timedelta(hours=1)))
    assert (job.project, job.version, job.spider, job.scheduled_by) == (SHOP, V2, "books", "cron nightly")
    assert (job.on, job.attempts, job.timeout_s, job.priority) == (("node-1", "node-2"), 3, 60.0, 2.0)


def test_what_would_fail_if_it_fired_now_is_said_beforehand() -> None:
    both = RELEASES | {NEWS: replace(a_release(V2), project=NEWS)}
    assert shortcoming(BOOKS, releases=RELEASES) is None
    assert shortcoming(replace(BOOKS, spider=SpiderName("boks")), releases=RELEASES) == (
        "there is no spider 'boks' in any active release"
    )
    assert "several projects" in (shortcoming(BOOKS, releases=both) or "")
    follower = replace(BOOKS, at=None, after=After(SpiderName("books"), Outcome.SUCCESS))
    assert shortcoming(follower, releases=both) is None
    assert shortcoming(replace(follower, project=ProjectName("gone")), releases=both) == (
        "project 'gone' has no active release"
    )


def test_the_same_firing_has_the_same_job_whoever_makes_it_and_any_other_another() -> None:
    assert fire().jobs[0].id == fire(late_s=30).jobs[0].id
    triggers = [
        Trigger(NOON),
        Trigger(NOON + timedelta(milliseconds=1)),
        Trigger(NOON, job=JobId("a")),
        Trigger(NOON, word="by hand"),
    ]
    ids = {job_id_of(name, trigger, number) for name in ("a", "b") for trigger in triggers for number in (0, 1)}
    assert len(ids) == 16


def test_templates_are_filled_in_by_the_clock_of_the_crons_zone() -> None:
    args = {"all": "|".join(f"{{{name}}}" for name in NAMES), "braces": "{{x}}", "plain": "y"}
    good = NOON - timedelta(days=1)
    (job,) = fire(replace(BOOKS, args=args), last_success_at=good).jobs
    assert job.args == {
        "all": "2026-11-21|13:00|2026-11-20|2026-11-21T13:00:00+01:00|2026-11-20T13:00:00+01:00|nightly|books|shop|"
        f"{job.id}|",
        "braces": "{x}",
        "plain": "y",
    }


def test_what_was_never_may_have_a_text_of_its_own() -> None:
    (job,) = fire(replace(BOOKS, settings={"SINCE": "{last_success:2020-01-01}{after:}"})).jobs
    assert job.settings == {"SINCE": "2020-01-01"}


@pytest.mark.parametrize("text", ["{dat}", "{", "}", "{date", "{date.year}", "{date:%d}", "{0}", "{}", "{{date}"])
def test_a_template_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        check_template(text)


def test_workers_of_one_firing_share_a_crawl_and_a_run_of_it() -> None:
    jobs = fire(replace(BOOKS, workers=3, crawl=CrawlId("autumn"), args={"me": "{job}"})).jobs
    assert len({job.id for job in jobs}) == 3
    assert [(job.args or {})["me"] for job in jobs] == [job.id for job in jobs]
    assert {(job.settings or {})[CRAWL_SETTING] for job in jobs} == {"autumn"}
    assert len({(job.settings or {})[RUN_SETTING] for job in jobs}) == 1


def test_without_a_release_that_has_the_spider_a_firing_has_failed_and_the_cron_goes_on() -> None:
    following = Due(NOON + timedelta(hours=1), NOON + timedelta(hours=1))
    for cron, releases, why in (
        (BOOKS, {}, "no spider 'books' in any active release"),
        (replace(BOOKS, project=NEWS), RELEASES, "project 'news' has no active release"),
        (replace(BOOKS, project=SHOP, spider=SpiderName("new")), RELEASES, "in the active release of shop"),
        (BOOKS, {**RELEASES, NEWS: a_release(project=NEWS)}, "several projects have a spider 'books': news, shop"),
    ):
        told = fire(cron, releases=releases)
        assert (told.state, told.next, told.jobs) == (FiringState.FAILED, following, ())
        assert why in str(told.reason)


def test_a_cron_whose_times_a_node_cannot_read_stays_due_for_others() -> None:
    told = fire(replace(BOOKS, timezone="Europe/Atlantis"), late_s=5)
    assert (told.state, told.jobs) == (FiringState.FAILED, ())
    assert told.next == Due(NOON, NOON + timedelta(seconds=65))
    assert "no time zone" in str(told.reason)


def test_a_cron_that_follows_is_fired_in_the_project_of_the_job_before() -> None:
    chain = Cron("chain", SpiderName("books"), after=After(SpiderName("prices")), args={"of": "{after}"})
    taken = Taken(chain, "r", Trigger(NOON, job=JobId("job-1"), project=SHOP))
    both = {**RELEASES, NEWS: a_release(project=NEWS)}
    told = proposal(taken, releases=both, now=NOON, by="node-1")
    assert [(job.project, job.args) for job in told.jobs] == [(SHOP, {"of": "job-1"})]
    assert told.next is None


def test_a_late_firing_that_is_not_wanted_is_skipped() -> None:
    told = fire(replace(BOOKS, late=Late.SKIP), late_s=600)
    assert (told.state, told.jobs) == (FiringState.SKIPPED, ())
    assert told.reason == "nobody was there to fire it for 600 s"


def test_what_templates_make_too_long_fails_at_the_firing() -> None:
    told = fire(replace(BOOKS, args={"x": "{last_success:" + "y" * 100_001 + "}"}))
    assert (told.state, told.next is None) == (FiringState.FAILED, False)


CHAIN = Cron("chain", SpiderName("books"), after=After(SpiderName("prices")))


@pytest.mark.parametrize(
    ("cron", "told"),
    [
        (replace(BOOKS, name="a b"), "cron name"),
        (replace(BOOKS, at=None), "say one of both"),
        (replace(BOOKS, after=CHAIN.after), "say one of both"),
        (replace(BOOKS, at="0 0 0 * * *"), "nightly: the expression '0 0 0 \\* \\* \\*' has six fields"),
        (replace(BOOKS, timezone="Mars"), "no time zone 'Mars'"),
        (replace(BOOKS, jitter_s=3600.0), "a jitter of 3600 s would mix up"),
        (replace(BOOKS, jitter_s=-1.0), "jitter"),
        (replace(BOOKS, starts_at=NOON + timedelta(days=2), ends_at=NOON), "end before it begins"),
        (replace(BOOKS, ends_at=NOON - timedelta(days=1)), "never due before its end"),
        (replace(BOOKS, workers=0), "0 workers"),
        (replace(BOOKS, attempts=0), "0 attempts"),
        (replace(BOOKS, timeout_s=0.0), "time limit"),
        (replace(BOOKS, priority=1e6), "priority"),
        (replace(BOOKS, args={"x": "{nope}"}), "there is no {nope} to fill in"),
        (replace(BOOKS, args={"jobid": "x"}), "read by Scrapyd itself"),
        (replace(BOOKS, spider=SpiderName("-x")), "cannot be run by Scrapyd"),
        (replace(BOOKS, spider=SpiderName("x\ny")), "cannot be printed"),
        (replace(BOOKS, project=ProjectName("../x")), "project"),
        (replace(BOOKS, crawl=CrawlId("a/b")), "crawl id"),
        (replace(BOOKS, crawl=CrawlId("a"), settings={CRAWL_SETTING: "b"}), "both name the crawl"),
        (replace(CHAIN, jitter_s=5.0), "for crons that are due at times"),
        (replace(CHAIN, after=After(SpiderName("books"))), "follow its own jobs"),
    ],
)
def test_what_could_not_fire_is_refused_when_it_is_defined(cron: Cron, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        check_cron(cron, now=NOON)


def test_good_crons_are_taken() -> None:
    for cron in (BOOKS, CHAIN, replace(BOOKS, is_paused=True), replace(BOOKS, jitter_s=60.0, workers=5)):
        check_cron(cron, now=NOON)


def test_crons_that_follow_each_other_in_a_circle_are_refused() -> None:
    def chain(spider: str, after: str, project: str | None = None) -> Cron:
        found = None if project is None else ProjectName(project)
        return Cron(f"{spider}-{after}", SpiderName(spider), after=After(SpiderName(after), Outcome.ANY), project=found)

    check_circles([BOOKS, chain("b", "a"), chain("c", "b"), chain("d", "b"), chain("e", "d")])
    check_circles([chain("b", "a", "shop"), chain("a", "b", "news")])
    with pytest.raises(UsageError, match="b-a → c-b → a-c → b-a"):
        check_circles([chain("b", "a"), chain("x", "a"), chain("c", "b"), chain("d", "b"), chain("a", "c")])
