"""A job's process, run by real Scrapy: what it tells its node, what it follows, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from support.eggs import egg_of
from support.slow_site import SlowSite
from support.spider_run import RUNNER, SETTINGS, SpiderRun, runs_egg
from support.waiting import wait_until

from toolkit.model.jobs import JobState
from toolkit.model.queue import Progress, Wish
from toolkit.runs.folder import CLAIM, EXIT, PROCESS
from toolkit.runs.process import group_members_left, is_alive, signal_group, start_of
from toolkit.runs.registration import registered, withdraw
from toolkit.runs.report import Exit

MANY = "100000"
REACTORS = {
    "asyncio": {},
    "select": {"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"},
    "epoll": {"TWISTED_REACTOR": "twisted.internet.epollreactor.EPollReactor"},
    "crawler process": {"FORCE_CRAWLER_PROCESS": "True"},
    "no reactor": {"TWISTED_REACTOR_ENABLED": "False"},
}
REACTOR = pytest.mark.parametrize("settings", REACTORS.values(), ids=REACTORS)
LOOPS = ("asyncio", "select", "no reactor")
LOOP = pytest.mark.parametrize("settings", [REACTORS[name] for name in LOOPS], ids=LOOPS)


@pytest.fixture
def site() -> Iterator[SlowSite]:
    with SlowSite() as site:
        yield site


@pytest.fixture
def run(tmp_path: Path) -> Iterator[SpiderRun]:
    with SpiderRun(tmp_path) as run:
        yield run


@REACTOR
def test_a_finished_crawl_reports_its_counts_and_its_exit(
    run: SpiderRun, site: SlowSite, settings: dict[str, str]
) -> None:
    assert run.start("pages", settings=settings, site=site.url, count="20").wait() == 0, run.output()
    assert run.exit == Exit(exit_code=0)
    progress = run.progress
    assert progress is not None
    assert progress.state is JobState.RUNNING
    assert (progress.pages, progress.items, progress.errors, progress.retries) == (20, 20, 0, 0)
    assert progress.statuses == {"200": 20}
    assert progress.finish_reason == "finished"
    assert progress.bytes is not None
    assert progress.bytes > 20 * 11
    assert progress.memory_mb is not None
    assert 20 < progress.memory_mb < 500
    assert "Traceback" not in run.output()


def test_a_running_crawl_reports_at_once_and_again(run: SpiderRun, site: SlowSite) -> None:
    run.start("pages", site=site.url, count=MANY)
    wait_until(lambda: run.progress, deadline_s=60, what="a first report")
    later = wait_until(lambda: (p := run.progress) and p.pages_per_minute and p, deadline_s=60, what="a rate")
    assert isinstance(later, Progress)
    assert later.state is JobState.RUNNING
    assert later.pages
    assert later.finish_reason is None


def test_errors_of_a_spider_are_counted_and_do_not_change_the_exit_code(run: SpiderRun, site: SlowSite) -> None:
    assert run.start("raises", site=site.url, count="3").wait() == 0
    assert run.exit == Exit(exit_code=0)
    assert run.progress is not None
    assert run.progress.errors == 3


@REACTOR
def test_the_recorded_exit_code_is_the_one_that_the_parent_sees(run: SpiderRun, settings: dict[str, str]) -> None:
    code = run.start("exits_at_once", settings=settings).wait()
    assert code != 0
    assert run.exit == Exit(exit_code=code), run.output()


@pytest.mark.parametrize("settings", [REACTORS["asyncio"], REACTORS["no reactor"]], ids=["asyncio", "no reactor"])
def test_a_callback_that_exits_ends_the_process_with_its_code(
    run: SpiderRun, site: SlowSite, settings: dict[str, str]
) -> None:
    assert run.start("exits", settings=settings, site=site.url, count="1").wait() == 7
    assert run.exit == Exit(exit_code=7)


def test_a_module_that_cannot_be_imported_is_recorded_as_a_failure(tmp_path: Path) -> None:
    egg = runs_egg({"spiders/__init__.py": "import a_module_that_is_not_there\n"})
    with SpiderRun(tmp_path, egg=egg) as run:
        code = run.start("pages").wait()
        assert code != 0
        assert run.exit == Exit(exit_code=code)
        assert "a_module_that_is_not_there" in run.output()


def test_a_spider_that_there_is_not_is_recorded_as_a_failure(run: SpiderRun) -> None:
    code = run.start("nobody").wait()
    assert code != 0
    assert run.exit == Exit(exit_code=code)


def test_an_interrupt_before_scrapy_listens_is_recorded_as_that_signal(tmp_path: Path) -> None:
    slow = "from pathlib import Path\nimport time\nPath('importing').touch()\ntime.sleep(60)\n"
    with SpiderRun(tmp_path, egg=runs_egg({"spiders/__init__.py": slow})) as run:
        run.start("pages").wait_for_file("importing")
        run.signal(signal.SIGINT)
        assert run.wait() == -signal.SIGINT
        assert run.exit == Exit(signal="SIGINT")


def test_a_killed_process_leaves_no_exit(run: SpiderRun, site: SlowSite) -> None:
    run.start("pages", site=site.url, count=MANY)
    wait_until(lambda: site.asked, deadline_s=60, what="the first download")
    run.signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    assert run.folder.read(EXIT) is None


def test_a_child_that_the_spider_forks_does_not_speak_for_it(tmp_path: Path) -> None:
    forks = "import os, sys\nfrom pathlib import Path\nif os.fork() == 0:\n    sys.exit(9)\nos.wait()\n"
    forks += "Path('said').write_text(str(Path(os.environ['CRAWLCTL_RUN'], 'exit.json').exists()))\n"
    with SpiderRun(tmp_path, egg=runs_egg({"settings.py": forks + SETTINGS})) as run:
        run.start("pages", count="0").wait()
        assert (tmp_path / "said").read_text() == "False"


# --- registration


def test_a_process_registers_itself_before_anything_of_the_project_runs(tmp_path: Path) -> None:
    asks = "from pathlib import Path\nimport os\nPath('seen').write_text("
    asks += "str(Path(os.environ['CRAWLCTL_RUN'], 'process.json').exists()))\n"
    with SpiderRun(tmp_path, egg=runs_egg({"settings.py": asks + SETTINGS})) as run:
        assert run.start("pages", count="0").wait() == 0
        assert (tmp_path / "seen").read_text() == "True"
        found = registered(run.folder)
        assert found is not None
        assert found.pid == run.pid


def test_of_two_runners_on_one_folder_only_one_runs(run: SpiderRun, site: SlowSite) -> None:
    run.start("pages", site=site.url, count=MANY)
    wait_until(lambda: run.folder.read(PROCESS), deadline_s=60, what="the first to register")
    command = [sys.executable, "-m", RUNNER, "crawl", "pages", "-a", f"site={site.url}"]
    second = subprocess.run(
        command, cwd=run.home, env=run.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert second.returncode == 75
    assert "has a process already" in second.stderr
    assert run.is_running
    assert run.folder.read(EXIT) is None


def test_a_job_whose_claim_was_taken_away_is_not_run(run: SpiderRun, site: SlowSite) -> None:
    (run.folder.path / CLAIM).unlink()
    assert run.start("pages", site=site.url).wait() == 75
    assert not (run.home / "started").exists()
    assert site.asked == 0


def test_a_job_that_its_node_took_back_is_not_run(run: SpiderRun, site: SlowSite) -> None:
    assert withdraw(run.folder)
    assert run.start("pages", site=site.url).wait() == 75
    assert not (run.home / "started").exists()


def test_a_job_whose_folder_is_gone_is_not_run(run: SpiderRun, site: SlowSite) -> None:
    env = run.environment()
    shutil.rmtree(run.folder.path)
    command = [sys.executable, "-m", RUNNER, "crawl", "pages", "-a", f"site={site.url}"]
    ended = subprocess.run(command, cwd=run.home, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 75
    assert not (run.home / "started").exists()


def test_a_job_has_a_process_group_of_its_own_even_if_its_parent_gave_it_none(run: SpiderRun, site: SlowSite) -> None:
    command = [sys.executable, "-m", RUNNER, "crawl", "parent", "-a", f"site={site.url}", "-a", "count=1"]
    with run.folder.output.open("wb") as output:
        child = subprocess.Popen(command, cwd=run.home, env=run.environment(), stdout=output, stderr=output)
    try:
        grandchild = int(run.wait_for_file("child"))
        assert os.getpgid(child.pid) == child.pid != os.getpgid(0)
        start = start_of(child.pid)
        assert start is not None
        assert {child.pid, grandchild} <= set(group_members_left(child.pid, start))
        assert signal_group(child.pid, start, signal.SIGKILL)
        assert child.wait(60) == -signal.SIGKILL
        wait_until(lambda: not group_members_left(child.pid, start), deadline_s=60, what="the whole group to be gone")
    finally:
        child.kill()
        child.wait()


# --- without a run folder, and secrets


@pytest.mark.parametrize("runner", [RUNNER, "scrapyd.runner"])
def test_spiders_are_listed_as_by_scrapyds_own_runner(run: SpiderRun, runner: str) -> None:
    command = [sys.executable, "-m", runner, "list", "-s", "LOG_STDOUT=0"]
    listed = subprocess.run(
        command, cwd=run.home, env=run.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.split() == ["busy", "exits", "exits_at_once", "pages", "parent", "raises"]
    assert run.folder.read(PROCESS) is None


def test_by_hand_it_is_scrapyds_runner(run: SpiderRun, site: SlowSite) -> None:
    env = {name: value for name, value in run.environment().items() if name != "CRAWLCTL_RUN"}
    command = [sys.executable, "-m", RUNNER, "crawl", "pages", "-a", f"site={site.url}"]
    ended = subprocess.run(command, cwd=run.home, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0
    assert "Reporter" not in ended.stderr
    assert site.asked == 3
    assert [path.name for path in run.folder.path.glob("*.json")] == [CLAIM]


def test_a_spider_does_not_see_the_nodes_secrets(tmp_path: Path) -> None:
    tells = "import os\nfrom pathlib import Path\nPath('env').write_text('\\n'.join(os.environ))\n"
    with SpiderRun(tmp_path, egg=runs_egg({"settings.py": tells + SETTINGS})) as run:
        secrets = {"SCRAPYD_PASSWORD": "p", "SCRAPYD_USERNAME": "u", "CRAWLCTL_REDIS": "redis://:p@h"}
        run.start("pages", env=secrets, count="0").wait()
        assert not set((tmp_path / "env").read_text().splitlines()) & set(secrets)


# --- the reporter in all kinds of projects


@pytest.mark.parametrize(
    ("settings", "spider"),
    [
        ('EXTENSIONS = {"scrapy.extensions.corestats.CoreStats": None}', ""),
        ("ADDONS = {}", 'custom_settings = {"EXTENSIONS": {"scrapy.extensions.logstats.LogStats": None}}'),
        ('COMMANDS_MODULE = "runs.commands"', 'custom_settings = {"ADDONS": {}}'),
        ('EXTENSIONS_BASE = {"scrapy.extensions.corestats.CoreStats": 0}', ""),
    ],
    ids=["EXTENSIONS", "custom_settings", "COMMANDS_MODULE", "EXTENSIONS_BASE"],
)
def test_the_reporter_survives_what_projects_make_of_their_settings(
    tmp_path: Path, site: SlowSite, settings: str, spider: str
) -> None:
    files = {
        "commands/__init__.py": "",
        "commands/crawl.py": "from scrapy.commands.crawl import Command as Crawl\nclass Command(Crawl):\n    pass\n",
        "spiders/more.py": f"from runs.spiders import Pages\n\n\nclass Own(Pages):\n    name = 'own'\n    {spider}\n",
    }
    with SpiderRun(tmp_path, egg=runs_egg(files, settings=settings)) as run:
        options = {"EXTENSIONS": '{"scrapy.extensions.memusage.MemoryUsage": null}'}
        assert run.start("own", settings=options, site=site.url).wait() == 0, run.output()
        assert run.progress is not None
        assert run.progress.pages == 3
        changed = run.output().partition("Overridden settings:")[2].partition("[scrapy.")[0]
        assert "toolkit" not in changed, "it does not show among the project's settings"


def test_a_project_with_statistics_of_its_own_is_reported_without_counts(tmp_path: Path, site: SlowSite) -> None:
    settings = 'STATS_CLASS = "scrapy.statscollectors.DummyStatsCollector"\n'
    with SpiderRun(tmp_path, egg=runs_egg(settings=settings)) as run:
        assert run.start("pages", site=site.url).wait() == 0
        assert run.progress is not None
        assert (run.progress.pages, run.progress.items) == (None, None)
        assert run.progress.finish_reason == "finished"


def test_a_folder_that_vanishes_does_not_disturb_the_crawl_and_is_logged_once(run: SpiderRun, site: SlowSite) -> None:
    run.start("pages", site=site.url, count="400", settings={"LOG_FILE": "crawl.log"})
    wait_until(lambda: run.progress, deadline_s=60, what="a first report")
    # At one blow: the spider may write into it while it is emptied.
    run.folder.path.rename(run.home / "gone")
    assert run.wait() == 0
    log = (run.home / "crawl.log").read_text()
    assert log.count("cannot be told") == 1
    assert "'item_scraped_count': 400" in log


# --- what operators wish


@LOOP
def test_a_paused_spider_downloads_nothing_and_goes_on_when_resumed(
    run: SpiderRun, site: SlowSite, settings: dict[str, str]
) -> None:
    run.start("pages", settings=settings, site=site.url, count=MANY)
    wait_until(lambda: site.asked > 20, deadline_s=60, what="the crawl to run")
    run.wish(Wish(is_paused=True))
    wait_until(lambda: state_of(run) is JobState.PAUSED, deadline_s=60, what="the pause to be reported")
    wait_until(lambda: is_left_alone(site), deadline_s=60, what="all downloads to end, also what waited for its turn")
    before = site.asked
    run.wish(Wish())
    wait_until(lambda: site.asked > before + 20, deadline_s=60, what="the crawl to go on")
    wait_until(lambda: state_of(run) is JobState.RUNNING, deadline_s=60, what="the end of the pause to be reported")


def test_a_spider_that_is_paused_from_the_start_downloads_nothing(run: SpiderRun, site: SlowSite) -> None:
    run.wish(Wish(is_paused=True))
    run.start("pages", site=site.url)
    wait_until(lambda: state_of(run) is JobState.PAUSED, deadline_s=60, what="the pause to be reported")
    assert is_left_alone(site)
    assert site.asked == 0
    run.wish(Wish())
    assert run.wait() == 0
    assert site.asked == 3


@LOOP
def test_a_paused_spider_can_be_closed(run: SpiderRun, site: SlowSite, settings: dict[str, str]) -> None:
    run.start("pages", settings=settings, site=site.url, count=MANY)
    wait_until(lambda: site.asked > 20, deadline_s=60, what="the crawl to run")
    run.wish(Wish(is_paused=True))
    wait_until(lambda: state_of(run) is JobState.PAUSED, deadline_s=60, what="the pause to be reported")
    run.signal(signal.SIGINT)
    assert run.wait() == 0
    assert run.progress is not None
    assert run.progress.finish_reason == "shutdown"


def test_tuning_changes_how_many_pages_are_asked_for_at_once_and_can_be_undone(run: SpiderRun, site: SlowSite) -> None:
    site.page_s = 0.2
    run.start("pages", site=site.url, count=MANY)
    wait_until(lambda: site.most_at_once() == 8, deadline_s=60, what="eight at once")
    for wished, most in [(2, 2), (12, 12), (None, 8)]:
        run.wish(Wish(concurrency=wished))
        wait_until(partial(has_at_most, site, most), deadline_s=60, what=f"{most} at once", pause_s=0.7)


@pytest.mark.parametrize("settings", [{}, {"AUTOTHROTTLE_ENABLED": "True"}], ids=["plain", "autothrottle"])
def test_a_wished_delay_holds_and_ends_at_once(run: SpiderRun, site: SlowSite, settings: dict[str, str]) -> None:
    quick = {"AUTOTHROTTLE_START_DELAY": "0", "DOWNLOAD_DELAY_JITTER": "0"}
    run.start("pages", settings={**quick, **settings}, site=site.url, count=MANY)
    wait_until(lambda: site.asked > 20, deadline_s=60, what="the crawl to run")
    run.wish(Wish(delay_s=0.5))
    wait_until(lambda: asked_in(site, 1.0) <= 3, deadline_s=60, what="the delay to be followed")
    before, at = site.asked, time.monotonic()
    time.sleep(3)
    assert site.asked - before <= (time.monotonic() - at) / 0.5 + 1
    assert site.asked - before >= 3
    run.wish(Wish(delay_s=600))
    wait_until(partial(is_left_alone, site), deadline_s=60, what="the long delay to be followed")
    before = site.asked
    run.wish(Wish())
    wait_until(lambda: site.asked > before + 20, deadline_s=60, what="the crawl not to wait for the old delay")


# --- a node that is gone


@LOOP
def test_a_spider_whose_node_is_gone_ends_gracefully_within_the_lease_and_a_little(
    tmp_path: Path, site: SlowSite, settings: dict[str, str]
) -> None:
    with SpiderRun(tmp_path, claim={"lease_s": 3}) as run:
        run.start("pages", settings=settings, site=site.url, count=MANY)
        beat_until(run, lambda: site.asked, what="the crawl to run")
        silent_since = time.monotonic()
        assert run.wait(deadline_s=3 + 30) == 0
        assert time.monotonic() - silent_since > 2
        assert run.exit == Exit(exit_code=0, node_was_lost=True)
        assert run.progress is not None
        assert run.progress.finish_reason == "shutdown"
        assert "gave no sign of life for 3 s" in run.output()


def test_a_spider_whose_node_is_gone_takes_what_it_started_with_it(tmp_path: Path, site: SlowSite) -> None:
    source = "import subprocess\nfrom runs.spiders import Pages\n\n\nclass Two(Pages):\n    name = 'two'\n\n"
    source += "    def parse(self, response, number):\n        if number == 0:\n"
    source += "            child = subprocess.Popen(['sleep', '300'])\n"
    source += "            open('child', 'w').write(str(child.pid))\n"
    source += "        yield from super().parse(response, number)\n"
    with SpiderRun(tmp_path, egg=runs_egg({"spiders/more.py": source}), claim={"lease_s": 2}) as run:
        run.start("two", site=site.url, count=MANY)
        beat_until(run, (tmp_path / "child").exists, what="the spider to have a child")
        child = int(run.wait_for_file("child"))
        start = start_of(child)
        assert start is not None
        assert run.wait() == 0
        wait_until(lambda: not is_alive(child, start), deadline_s=60, what="its child to be gone")
        assert run.exit == Exit(exit_code=0, node_was_lost=True)


def test_a_spider_whose_node_lives_goes_on(tmp_path: Path, site: SlowSite) -> None:
    with SpiderRun(tmp_path, claim={"lease_s": 4}) as run:
        run.start("pages", site=site.url, count=MANY)
        beat_until(run, lambda: site.asked, what="the crawl to run")
        ends_at = time.monotonic() + 9
        beat_until(run, lambda: time.monotonic() > ends_at, what="two leases to pass")
        assert run.is_running
        assert state_of(run) is JobState.RUNNING


def test_a_process_that_was_stopped_with_its_node_goes_on_with_it(tmp_path: Path, site: SlowSite) -> None:
    with SpiderRun(tmp_path, claim={"lease_s": 4}) as run:
        run.start("pages", site=site.url, count=MANY)
        beat_until(run, lambda: site.asked, what="the crawl to run")
        run.signal(signal.SIGSTOP)
        time.sleep(8)  # Two leases in which nobody is awake.
        run.signal(signal.SIGCONT)
        time.sleep(0.5)  # The node needs a moment to wake up too.
        ends_at = time.monotonic() + 2
        beat_until(run, lambda: time.monotonic() > ends_at, what="two seconds awake")
        assert run.is_running


def test_a_spider_that_only_computes_is_killed_with_its_children_when_its_node_is_gone(
    tmp_path: Path, site: SlowSite
) -> None:
    code = "import toolkit.runs.watchdog as w\nw.Watchdog.__init__.__kwdefaults__['kill_after_s'] = 1.0\n"
    busy = "spiders/more.py"
    source = "import subprocess\nfrom runs.spiders import Busy\n\n\nclass Two(Busy):\n    name = 'two'\n\n"
    source += "    def parse(self, response, number):\n        child = subprocess.Popen(['sleep', '300'])\n"
    source += "        open('child', 'w').write(str(child.pid))\n        super().parse(response, number)\n"
    (tmp_path / "quick").mkdir()
    (tmp_path / "quick" / "sitecustomize.py").write_text(code)
    with SpiderRun(tmp_path, egg=runs_egg({busy: source}), claim={"lease_s": 2}) as run:
        run.start("two", site=site.url, count="1", env={"PYTHONPATH": str(tmp_path / "quick")})
        beat_until(run, (tmp_path / "busy").exists, what="the spider to be busy")
        child = int(run.wait_for_file("child"))
        start = start_of(child)
        assert start is not None
        assert run.wait() == -signal.SIGKILL
        wait_until(lambda: not is_alive(child, start), deadline_s=60, what="its child to be gone")
        assert run.exit == Exit(signal="SIGKILL", node_was_lost=True)


# --- feeds

FINDS = """
from pathlib import Path

import scrapy


class Finds(scrapy.Spider):
    '''Finds an item a page, one page after the other; with `spins`, its sixth page keeps the process busy for ever.'''

    name = "finds"

    async def start(self):
        yield scrapy.Request("data:,0")

    def parse(self, response):
        number = int(response.text)
        if number == 5 and hasattr(self, "spins"):
            Path("scraped").write_text(str(self.crawler.stats.get_value("item_scraped_count")))
            while True:
                pass
        yield {"number": number, "text": "Zürich\\n" * 40, "tags": ["a", "b"]}
        if number < 9:
            yield scrapy.Request(f"data:,{number + 1}")
"""
FEEDS = {
    **{f"out/{name}": {"format": name} for name in ("jsonlines", "json", "csv", "xml", "pickle", "marshal")},
    "out/indented.json": {"format": "json", "indent": 2},
    "out/part-%(batch_id)d.jl": {"format": "jsonlines", "batch_item_count": 3},
    **{
        f"out/{plugin}": {"format": "jsonlines", "postprocessing": [f"scrapy.extensions.postprocessing.{plugin}"]}
        | {"gzip_mtime": 0, "gzip_filename": ""}
        for plugin in ("GzipPlugin", "Bz2Plugin", "LZMAPlugin")
    },
}


def test_feeds_of_every_format_are_as_with_scrapyds_own_runner(tmp_path: Path) -> None:
    written = []
    for runner in (RUNNER, "scrapyd.runner"):
        home = tmp_path / runner
        home.mkdir()
        with SpiderRun(home, egg=runs_egg({"spiders/finds.py": FINDS})) as run:
            assert run.start("finds", runner=runner, settings={"FEEDS": json.dumps(FEEDS)}).wait() == 0, run.output()
            assert "Stored jsonlines feed (10 items) in: out/jsonlines" in run.output()
            assert "'feedexport/success_count/FileFeedStorage': 14" in run.output()
        written.append({path.name: path.read_bytes() for path in (home / "out").iterdir()})
    assert written[0] == written[1]
    assert sorted(name for name in written[0] if name.startswith("part")) == [f"part-{n}.jl" for n in range(1, 5)]


def test_a_kill_loses_no_item_also_while_a_callback_keeps_the_process_busy(tmp_path: Path) -> None:
    with SpiderRun(tmp_path, egg=runs_egg({"spiders/finds.py": FINDS})) as run:
        run.start("finds", settings={"FEEDS": json.dumps({"out.jl": {"format": "jsonlines"}})}, spins="yes")
        scraped = int(wait_until(lambda: run.wait_for_file("scraped"), deadline_s=60, what="the spider to be busy"))
        run.signal(signal.SIGKILL)
        run.wait()
    found = [json.loads(line)["number"] for line in (tmp_path / "out.jl").read_text().splitlines()]
    assert found == list(range(scraped))
    assert scraped >= 4


# --- eggs


def test_an_egg_that_names_no_settings_fails_as_with_scrapyds_own_runner(tmp_path: Path) -> None:
    egg = egg_of({"__init__.py": ""}, package="runs").replace(b"[scrapy]", b"[scrapx]")
    with SpiderRun(tmp_path, egg=egg) as run:
        code = run.start("pages").wait()
        assert code != 0
        assert run.exit == Exit(exit_code=code)


def state_of(run: SpiderRun) -> JobState | None:
    progress = run.progress
    return progress.state if progress else None


def has_at_most(site: SlowSite, most: int) -> bool:
    """Tell whether so many pages, and no more, were asked for at once since this was last called."""
    return site.most_at_once() == most


def asked_in(site: SlowSite, seconds: float) -> int:
    """Return how many pages are asked for in so many seconds from now on."""
    before = site.asked
    time.sleep(seconds)
    return site.asked - before


def is_left_alone(site: SlowSite) -> bool:
    """Tell whether nobody asks for a page for a second, in which a crawl asks for a hundred."""
    before = site.asked
    time.sleep(1)
    return site.asked == before and site.at_once == 0


def beat_until(run: SpiderRun, condition: object, *, what: str) -> None:
    """Be the node: say again and again that it lives, until the condition holds."""
    assert callable(condition)

    def beat() -> object:
        run.folder.touch_alive()
        return condition()

    wait_until(beat, deadline_s=60, what=what)
