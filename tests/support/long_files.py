"""The order in which files of tests are begun: what takes long comes first, whatever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

# Those of more than ten seconds, about the longest first; where they stand need not be exact. Stories on real hosts are
# apart from each other: the first of them may build what the others wait for.
LONG_FILES = (
    "lab/test_four_hosts.py",
    "stories/test_queue_failures.py",
    "benchmarks/test_bench_watch_runs.py",
    "stories/test_deploy_faults.py",
    "stories/test_without_redis.py",
    "integration/test_spider_process.py",
    "lab/test_life.py",
    "chaos/test_chaos_jobs.py",
    "web/test_pages.py",
    "integration/test_alert_deliveries.py",
    "stories/test_items_of_a_job.py",
    "stories/test_logs.py",
    "stories/test_crons.py",
    "stories/test_events.py",
    "stories/test_items_drain.py",
    "benchmarks/test_bench_deploy_runs.py",
    "lab/test_hidden_and_moving_hosts.py",
    "contract/test_scrapyd_api.py",
    "benchmarks/test_bench_jobs_runs.py",
    "stories/test_crawl_life.py",
    "stories/test_queue_life.py",
    "lab/test_odd_hosts.py",
    "stories/test_crawl_words.py",
    "web/test_api.py",
    "web/test_bad_day.py",
    "integration/test_top.py",
    "web/test_job_page.py",
    "chaos/test_chaos_cron.py",
    "integration/test_log_shipping.py",
    "web/test_serving.py",
    "integration/test_prometheus.py",
    "web/test_rights.py",
    "web/test_live.py",
    "stories/test_queue_words.py",
    "stories/test_waves.py",
    "integration/test_crawl_controls.py",
    "stories/test_watching.py",
    "integration/test_frontier_workers.py",
    "stories/test_cancelling.py",
    "integration/test_node_restarts.py",
    "stories/test_dependencies.py",
    "stories/test_scheduling.py",
    "integration/test_node_losses.py",
    "lab/test_lab_itself.py",
    "benchmarks/test_bench_frontier_runs.py",
    "integration/test_crawl_seeds.py",
    "stories/test_wrong_words.py",
    "integration/test_rolling.py",
    "integration/test_moving.py",
    "integration/test_redis_configure.py",
    "integration/test_node_runs.py",
    "integration/test_crawl_drop_in.py",
    "contract/test_scrapyd_api_plugin.py",
    "integration/test_crawl_items.py",
    "integration/test_node_starts.py",
    "integration/test_egg_builds.py",
    "stories/test_doctor.py",
    "stories/test_trust.py",
    "integration/test_ssh_commands.py",
    "integration/test_ssh_losses.py",
    "stories/test_redeploy_and_rollback.py",
    "integration/test_jobs_listing.py",
    "chaos/test_chaos_frontier.py",
    "contract/test_scrapyd_door_faults.py",
    "integration/test_local_hosts.py",
    "integration/test_shop_crawl.py",
    "stories/test_first_day.py",
    "integration/test_provision_here.py",
    "unit/node/test_egg_shelf.py",
    "integration/test_frontier_model.py",
    "integration/test_local_queue.py",
    "integration/test_preflight.py",
    "integration/test_node_crawls.py",
    "contract/test_fleet_processes.py",
    "integration/test_frontier_closing.py",
    "integration/test_queue_survives.py",
)
_PLACES = {name: place for place, name in enumerate(LONG_FILES)}


def longest_first(items: list[pytest.Item], *, root: Path) -> None:
    """Put the tests of the long files before the others, which keep their order; `root` is the folder of all tests."""
    names = {path: path.relative_to(root).as_posix() for path in {item.path for item in items}}
    items.sort(key=lambda item: _PLACES.get(names[item.path], len(LONG_FILES)))
