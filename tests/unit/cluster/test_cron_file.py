"""What applying a file of crons comes to."""

from __future__ import annotations

from dataclasses import replace

from toolkit.cluster.cron_file import planned
from toolkit.config.inventory.crons import WrittenCron
from toolkit.config.inventory.document import Place
from toolkit.model.crons import Cron, CronView
from toolkit.model.names import SpiderName

NIGHTLY = Cron("nightly", SpiderName("books"), at="@daily")


def test_what_is_written_must_still_be_what_it_was_compared_with() -> None:
    wanted = [replace(NIGHTLY, at="@hourly"), replace(NIGHTLY, name="new")]
    written = [WrittenCron(cron, None, says_paused=False, file="crons.yaml", place=Place(1, 1)) for cron in wanted]
    known = [CronView(NIGHTLY, revision="r1"), CronView(replace(NIGHTLY, name="old"), revision="r2")]
    plan = planned(written, known, prunes=True)
    assert (plan.revisions, plan.removes) == ({"nightly": "r1", "new": ""}, ["old"])


def test_a_cron_that_is_added_is_shown_with_its_spider() -> None:
    written = [WrittenCron(NIGHTLY, None, says_paused=False, file="crons.yaml", place=Place(1, 1))]
    (change,) = planned(written, [], prunes=False).changes
    assert dict(change.fields) == {"spider": (None, "books"), "at": (None, "@daily")}
