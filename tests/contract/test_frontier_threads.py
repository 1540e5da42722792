"""Any thread may call: workers that share one door to Redis lose nothing and get nothing of each other's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from support.crawl_desk import CrawlDesk, Worker, a_push

from toolkit.model.crawls import Filter

WORKERS, PAGES = 6, 60


def test_workers_in_threads_do_each_entry_once(crawl: CrawlDesk) -> None:
    workers = crawl.workers(WORKERS)

    def work(worker: Worker) -> list[bytes]:
        done: list[bytes] = []
        for number in range(PAGES):
            # Each page is pushed by two of them; one is dropped.
            page = (number + PAGES // 2 * workers.index(worker)) % (PAGES // 2 * WORKERS)
            answer = worker.commit(a_push(f"{page:05}", filter=Filter.SEEN), want=3)
            worker.finish(*answer.leased, items=[b"x"])
            done += [leased.body for leased in answer.leased]
        return done

    with ThreadPoolExecutor(WORKERS) as pool:
        parts = list(pool.map(work, workers))
    rest = workers[0].work_off(at_once=50)
    done = sorted([body.decode() for part in parts for body in part] + rest)
    assert done == [f"{page:05}" for page in range(PAGES // 2 * WORKERS)]
    assert crawl.view().duplicates == PAGES // 2 * WORKERS
    assert all(worker.commit().is_over for worker in workers)
