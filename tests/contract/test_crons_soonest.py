"""The crons that fire next, out of however many."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from support.queue_desk import queue_desk
from support.stores import BEGIN, SHOP

from toolkit.model.crons import Cron, Due
from toolkit.model.names import SpiderName


def test_the_crons_that_fire_next_come_first_and_no_others_are_read(redis_url: str, tmp_path: Path) -> None:
    with queue_desk(redis_url, tmp_path) as desk:
        assert desk.store.shared is not None
        crons = desk.store.shared.crons
        assert crons.soonest(limit=5) == ()
        made = [Cron(name, SpiderName("books"), at="0 2 * * *", project=SHOP) for name in ("late", "soon", "idle")]
        dues = {name: BEGIN + timedelta(hours=hours) for name, hours in (("late", 9), ("soon", 1))}
        crons.put(made, by="ann@desk", due={name: Due(at, at) for name, at in dues.items()})
        assert crons.count() == 3
        assert [view.cron.name for view in crons.soonest(limit=5)] == ["soon", "late"]
        assert list(crons.soonest(limit=1)) == [crons.get("soon")]
