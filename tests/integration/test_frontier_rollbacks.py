"""Redis comes back older than its workers, again and again, and no page of the crawl is lost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.crawl_desk import CrawlDesk, a_plan, crawl_desk
from support.crawl_player import Player, a_site, players

from toolkit.model.crawls import QueueOrder, SeenKind

PAGES = 400
MOST_TURNS = 150


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[CrawlDesk]:
    with crawl_desk(redis_url, tmp_path / "state") as desk:
        yield desk


class Play:
    """A crawl to which things happen, by a die that is thrown the same way each time."""

    def __init__(self, desk: CrawlDesk, seed: int) -> None:
        self.desk = desk
        self.draw = random.Random(seed)  # noqa: S311 - only has to be varied
        desk.redis.flushdb()
        desk.plan = a_plan(
            order=self.draw.choice(list(QueueOrder)), seen=self.draw.choice(list(SeenKind)), max_deliveries=1000
        )
        self.site = a_site(PAGES, seed=seed)
        self.newcomers = players(desk, self.site, self.draw)
        self.alive: list[Player] = [next(self.newcomers) for _ in range(3)]
        self.dump: dict[bytes, bytes] | None = None
        self.rollbacks = 0

    def turn(self) -> None:
        """Let one worker commit, and perhaps something happen."""
        self.draw.choice(self.alive).step(is_heard=self.draw.random() < 0.9)
        happens = self.draw.random()
        if happens < 0.02:
            self.desk.kill(self.alive.pop(self.draw.randrange(len(self.alive))).worker)
            self.alive.append(next(self.newcomers))
        elif happens < 0.03:
            self.alive.pop(self.draw.randrange(len(self.alive))).worker.leave()
            self.alive.append(next(self.newcomers))
        elif happens < 0.05:
            self._lapse(self.draw.choice(self.alive))
        elif happens < 0.09 and self.dump is None:
            self.snapshot()
        elif happens < 0.14 and self.dump is not None:
            self.desk.restore(self.dump)
            self.dump = None
            self.rollbacks += 1

    def _lapse(self, player: Player) -> None:
        """Let a worker be silent for longer than its lease, if Redis knows it; it does not know of that yet."""
        worker = player.worker
        worker.frontier.renew(worker.name, worker.token, ttl_s=0.001)

    def snapshot(self) -> None:
        """Keep what Redis will come back with; workers keep what they do from here on."""
        self.dump = self.desk.dump()
        for player in self.alive:
            player.journal = player.journal[-1:]

    def end(self) -> None:
        """Go on in peace until every worker is told that the crawl is over."""
        # The older Redis took workers for alive that are long dead; their leases would end in time.
        for seen in self.desk.view().workers:
            if seen.name not in {player.worker.name for player in self.alive}:
                self.desk.crawls.release(seen.name, has_died=True)
        for _ in range(MOST_TURNS):
            for player in self.alive:
                player.step(want=5)
            if all(player.is_over and not player.replay for player in self.alive):
                return
        raise AssertionError(f"it never ended: {self.desk.view()}")


@pytest.mark.parametrize("seed", range(24))
def test_no_page_is_lost_however_often_redis_comes_back_older(desk: CrawlDesk, seed: int) -> None:
    play = Play(desk, seed)
    for _ in range(250):
        play.turn()
    play.end()
    done = {body.decode() for body in desk.items()}
    assert done == set(play.site), f"lost after {play.rollbacks} rollbacks"
    view = desk.view()
    assert (view.pending, view.in_flight, view.dead) == (0, 0, 0)
