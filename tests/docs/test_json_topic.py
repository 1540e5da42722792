"""The examples of the topic `json` have exactly the fields of the contract."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.cli import run_crawlctl
from support.documents import ROOT, blocks, spans

from toolkit.cli.reference import declared_commands
from toolkit.cli.topics import FOLDER
from toolkit.cluster.alerts import AlertChange, AlertOverview
from toolkit.cluster.cancel import Cancelled
from toolkit.cluster.crawls import CrawlReport, Obeyed
from toolkit.cluster.crons import CronChange
from toolkit.cluster.entries import Peeked
from toolkit.cluster.log_lines import LogEntry
from toolkit.cluster.log_merge import JobEntry
from toolkit.cluster.node_life import Drained, NodeRow
from toolkit.cluster.reading import ClusterReading
from toolkit.cluster.redialling import RedialRow
from toolkit.cluster.schedule import Placed
from toolkit.cluster.why import Explanation, NodeVerdict
from toolkit.config.inventory import Inventory
from toolkit.model import transfers
from toolkit.model.accounts import ApiToken, Role, User
from toolkit.model.alerts import Alerts, Failed, Rule, RuleKind, Silence, Sink, SinkKind
from toolkit.model.audit import AuditEntry
from toolkit.model.crawls import (
    Controls,
    CrawlKeys,
    CrawlPlan,
    CrawlView,
    DomainLimit,
    EntryId,
    EntryView,
    Leased,
    Shelf,
    WorkerView,
)
from toolkit.model.crons import Cron, CronView, Firing, FiringState
from toolkit.model.events import Event, EventKind
from toolkit.model.executed import Executed, LogLine
from toolkit.model.findings import Diagnosis, Finding, Severity
from toolkit.model.hosts import Host
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import CrawlId, JobId, NodeName, ProjectName, SpiderName, VersionName, WorkerName
from toolkit.model.outcomes import Outcome, Outcomes
from toolkit.model.provisioning import Change, Provisioned, StepKind, Wheelhouse
from toolkit.model.queue import Cap
from toolkit.model.releases import DeployResult, NodeResult, Pruned, Release, Rollout
from toolkit.model.rollouts import (
    GateRules,
    RolloutState,
    Smoke,
    SmokeCheck,
    Wave,
    WaveRollout,
    WaveState,
)
from toolkit.model.rolls import Rolled
from toolkit.model.servers import LocalProcess
from toolkit.model.snapshot import Attention, NodeState, NodeStatus, Snapshot
from toolkit.store.acl import users_of
from toolkit.store.redis_settings import ServerReport, Setting
from toolkit.trust.keys import PublicKey
from toolkit.views import transfer
from toolkit.views.accounts import accounts_view, made_token_view, tokens_view
from toolkit.views.alerts import (
    alerts_view,
    arrived_view,
    failed_view,
    silence_view,
    sink_view,
    unsilenced_view,
)
from toolkit.views.alerts import changes_view as changes_of_alerts_view
from toolkit.views.audit import audit_view
from toolkit.views.crawls import (
    controls_view,
    counted_view,
    crawl_view,
    crawls_view,
    entries_view,
    limits_view,
    obeyed_view,
)
from toolkit.views.crons import changes_view, cron_view, crons_view, firings_view, removed_view, upcoming_view
from toolkit.views.demo import demo_view
from toolkit.views.doctor import diagnosis_view
from toolkit.views.events import events_view
from toolkit.views.hosts import executed_view, log_view
from toolkit.views.jobs import cancelled_view, caps_view, job_view, jobs_view, scheduled_view
from toolkit.views.local import checked_view, hosts_view, servers_view
from toolkit.views.logs import log_entry_view
from toolkit.views.metrics import metrics_view
from toolkit.views.nodes import drained_view, names_view, node_view, nodes_view
from toolkit.views.provision import provisioned_view, wheelhouse_view
from toolkit.views.redial import redials_view
from toolkit.views.rolling import rolled_view
from toolkit.views.rollouts import deploy_view, history_view, plan_view, prune_view, releases_view
from toolkit.views.security import configured_view, key_row, key_view, keys_view, signed_view, users_view
from toolkit.views.status import status_view
from toolkit.views.wave_rollouts import wave_rollout_view, wave_rollouts_view
from toolkit.views.why import why_view

TEXT = (FOLDER / "json.md").read_text(encoding="utf-8")
NOW = datetime(2026, 11, 21, 7, 2, 33, tzinfo=UTC)
NODE, PROJECT, VERSION = NodeName("node-1"), ProjectName("shop"), VersionName("v1")
JOB = Job(JobId("f8f534d7"), PROJECT, SpiderName("products"), JobState.FINISHED)
RESULT = NodeResult(NODE, ok=True, step="done", seconds=0.9, spiders=2)
DEPLOYED = DeployResult(PROJECT, VERSION, "a0b0", is_active=True, is_changed=True, results=(RESULT,))
RELEASE = Release(PROJECT, VERSION, "a0b0", (SpiderName("products"),), 7022, None, NOW, "ann@laptop:1")
ROLLOUT = Rollout(PROJECT, VERSION, "deploy", NOW, "ann@laptop:1", activated=True, results=(RESULT,))
SMOKE = Smoke(NODE, JobId("j1"), 0, "finished", "no items")
WAVE = Wave((NODE,), WaveState.FAILED, ROLLOUT.results, (NODE,), SMOKE, "no items")
RULES = GateRules(check=SmokeCheck(SpiderName("products"), 600.0))
IN_WAVES = WaveRollout("7c1f", RELEASE, VERSION, RolloutState.HELD, RULES, (WAVE,), "ann", NOW, NOW, 1, "no items")
FIRING = Firing("nightly", NOW, NOW, FiringState.FIRED, "node-1", (JobId("f8f534d7"),))
CRON = CronView(Cron("nightly", SpiderName("products"), at="30 3 * * *", on=(NODE,)), last=FIRING)
AUDITED = AuditEntry(NOW, "ann", "nodes drain", "node-1", (NODE,), "done", id="1-0")
LOST = {"silent_s": "15.2", "lease_s": "15", "running": "2"}
MAIL = Sink("mail", SinkKind.EMAIL, recipients=("ops@example.com",))
SLOW = Rule("slow", ("mail",), RuleKind.PROGRESS)
ALERTS_SEEN = AlertOverview(Alerts({"mail": MAIL}, {"slow": SLOW}), {}, {}, {"slow": ("3f2a91c0",)})
EVENT = Event(EventKind.NODE_LOST, NODE, {"node": NODE, "address": "10.0.0.11:6800", **LOST}, at=NOW, id="1-0")
STATUS = NodeStatus(NODE, "127.0.0.1:6801", NodeState.LIVE, projects={PROJECT: (VERSION,)})
SNAPSHOT = Snapshot(NOW, (STATUS,), {PROJECT: VERSION}, (Attention("behind", "node-3 does not hold it", (NODE,)),))
STARTED = Outcomes((Outcome(NODE, LocalProcess(NODE, "127.0.0.1:6801", "started", 1)),))
PRUNED = Pruned(PROJECT, (VERSION,), (VERSION,), ((NODE, "refused"),))
INVENTORY = Inventory(Path("inventory.yaml"), None, (Host(NODE),), {"eu": (NODE,)})
CANCELLED = Cancelled(JOB, JobState.RUNNING, JobState.CANCELLED)
CAP = Cap(PROJECT, SpiderName("products"), cluster=20, per_node=4)
PROVISIONED = Provisioned(Host(NODE), (Change(StepKind.FILE, "scrapyd.conf", "is to be changed", ("+a",)),))
NODE_ROW = NodeRow(NODE, "10.0.0.11:6800", NodeState.LIVE, "node", versions={PROJECT: (VERSION,)})
EXPLAINED = Explanation(JOB, "no node could take it now", nodes=(NodeVerdict(NODE, could=False),))
CRAWL = CrawlId("products")
PLAN = CrawlPlan(CRAWL, "products", "shop", CrawlKeys("products:requests", "seen", "seeds", "items"))
LIMIT = DomainLimit("*", per_second=2.0)
HELD = EntryView(Leased(EntryId(bytes(8)), b""), Shelf.IN_FLIGHT, NOW, taken_at=NOW)
WORKER = WorkerView(WorkerName("f8f534d7~1:node-1:life"), 32, NOW, 29.4, oldest=HELD)
CRAWLED = CrawlView(PLAN, NOW, workers=(WORKER,), limits=(LIMIT,), controls=Controls(blocks=("ads.example.com",)))
OBEYED = Obeyed(CRAWL, Controls(), 3, 3, 0, is_settled=True)
ADOPTED = transfers.Adopted(kept=1, kept_in="k", reasons=(("it has no URL", 1),))
ENTRY = Peeked(EntryView(Leased(EntryId(bytes(8)), b""), Shelf.DEAD, NOW))

API_TOKEN = ApiToken("5e42211e", "ann", Role.LOOK, "prometheus", NOW, None, NOW)

DIAGNOSIS = Diagnosis((Finding("host-clock", Severity.WARNING, "node-1 has a clock"),), ("host-clock",))

KEY_ROW = key_row(PublicKey(bytes(32), "ann@example.com"), state="trusted", is_own=True)

# Mappings whose keys are names of the operator's, not fields.
OPEN = (
    "statuses",
    "args",
    "settings",
    "projects",
    "labels",
    "groups",
    "active",
    "versions",
    "behind",
    "software",
    "domains",
    "fields",
)

CONTRACT: Mapping[str, Any] = {
    "crawlctl status": status_view(SNAPSHOT).data,
    "crawlctl doctor": diagnosis_view(DIAGNOSIS).data,
    "crawlctl jobs list": jobs_view([JOB], now=NOW).data,
    "crawlctl jobs show": job_view(JOB, log=["Spider closed (finished)"]).data,
    "crawlctl jobs limits": caps_view([CAP]).data,
    "crawlctl crawls list": crawls_view([CRAWLED]).data,
    "crawlctl crawls show": crawl_view(CrawlReport(CRAWLED, {JOB.id: JOB})).data,
    "crawlctl crawls pause": obeyed_view(OBEYED).data,
    "crawlctl crawls tune": controls_view(CRAWL, Controls(blocks=("*/calendar/*",))).data,
    "crawlctl crawls limit": limits_view([LIMIT]).data,
    "crawlctl crawls peek": entries_view([ENTRY]).data,
    "crawlctl crawls seed": counted_view(CRAWL, "seeded", 3).data,
    "crawlctl crawls export": transfer.moved_view(PLAN, transfers.CrawlCounts(), "products.jsonl.gz").data,
    "crawlctl crawls adopt": transfer.adopted_view(CRAWL, ADOPTED).data,
    "crawlctl items drain": transfer.drained_view(CRAWL, "stdout", transfers.Drained()).data,
    "crawlctl items list": transfer.items_view([transfers.Item("1-0", "k", b'{"name": "", "price": 1}')]).data,
    "crawlctl items count": transfer.item_count_view(CRAWL, 3).data,
    "crawlctl why": why_view(EXPLAINED).data,
    "crawlctl nodes list": nodes_view([NODE_ROW]).data,
    "crawlctl nodes show": node_view(NODE_ROW).data,
    "crawlctl nodes drain": drained_view([Drained(NODE, 2)]).data,
    "crawlctl nodes restart": rolled_view([Rolled(NODE, "done", 4.3, "started anew")]).data,
    "crawlctl nodes redial": redials_view([RedialRow(NODE, "203.0.113.7", "203.0.113.94", 12.4)]).data,
    "crawlctl nodes exec": executed_view(Outcomes((Outcome(NODE, Executed(0, "Linux\n")),))).data,
    "crawlctl nodes provision": provisioned_view(Outcomes((Outcome(NODE, PROVISIONED),))).data,
    "crawlctl nodes wheelhouse": wheelhouse_view(Wheelhouse(Path("wheels"), "3.11", "linux-x86_64", 79, 78, 5)).data,
    "crawlctl nodes logs": log_view([LogLine(NODE, "started")]).data,
    "crawlctl logs": log_entry_view(JobEntry(JOB.id, NODE, LogEntry(("closed",), "closed"))).data,
    "crawlctl nodes resume": names_view([NODE], "resumed").data,
    "crawlctl schedule": scheduled_view([Placed(JOB)]).data,
    "crawlctl cron list": crons_view([CRON], now=NOW).data,
    "crawlctl cron show": cron_view(CRON).data,
    "crawlctl cron history": firings_view([FIRING], now=NOW).data,
    "crawlctl cron next": upcoming_view(CRON.cron, [NOW]).data,
    "crawlctl cron apply": changes_view([CronChange("nightly", "changed", {"at": ("30 3 * * *", "0 4 * * *")})]).data,
    "crawlctl cron remove": removed_view(["nightly"]).data,
    "crawlctl cancel": cancelled_view([CANCELLED]).data,
    "crawlctl deploy": deploy_view(DEPLOYED).data,
    "crawlctl deploy --dry-run": plan_view(PROJECT, VERSION, "a0b0", Outcomes((Outcome(NODE, "upload"),))).data,
    "crawlctl rollouts list": wave_rollouts_view([(IN_WAVES, False)]).data,
    "crawlctl rollouts show": wave_rollout_view(IN_WAVES, is_left=False).data,
    "crawlctl audit": audit_view([AUDITED]).data,
    "crawlctl events": events_view([EVENT], cluster="main").data,
    "crawlctl alerts list": alerts_view(ALERTS_SEEN).data,
    "crawlctl alerts show": sink_view(MAIL, None).data,
    "crawlctl alerts apply": changes_of_alerts_view([AlertChange("rule", "slow", "change", ("within_s",))]).data,
    "crawlctl alerts test": arrived_view("ops-hook", 0.061).data,
    "crawlctl alerts silence": silence_view(Silence("slow", NOW)).data,
    "crawlctl alerts unsilence": unsilenced_view("slow", was_silent=True).data,
    "crawlctl alerts failed": failed_view([Failed("ops-hook", "main/1-0", "j1", ("failures",), "no")]).data,
    "crawlctl metrics show": metrics_view(ClusterReading(SNAPSHOT, 0.1)).data,
    "crawlctl releases": releases_view([(RELEASE, True, [NODE])]).data,
    "crawlctl releases --history": history_view([ROLLOUT]).data,
    "crawlctl prune": prune_view(PRUNED, is_dry_run=False).data,
    "crawlctl keys list": keys_view([KEY_ROW]).data,
    "crawlctl keys show": key_view(KEY_ROW).data,
    "crawlctl keys sign": signed_view([RELEASE], [["3f1b6f3f0c5d9a77"]]).data,
    "crawlctl redis users": users_view([(users_of("main")[2], "made", Path("spider.url"))]).data,
    "crawlctl redis configure": configured_view(
        [ServerReport("10.0.0.5:6379", "primary", (Setting("appendonly", "no", "yes"),))]
    ).data,
    "crawlctl web users list": accounts_view([User("ann", Role.OPERATE, NOW)]).data,
    "crawlctl web tokens list": tokens_view([API_TOKEN]).data,
    "crawlctl web tokens make": made_token_view(API_TOKEN, "crawlctl_…").data,
    "crawlctl up": servers_view(STARTED).data,
    "crawlctl inventory list": hosts_view([Host(NODE)]).data,
    "crawlctl inventory check": checked_view(INVENTORY).data,
    "crawlctl demo": demo_view(DEPLOYED, [JOB], seconds=13.3).data,
}


def example(heading: str) -> Any:
    """Return the first JSON example below a heading."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return json.loads(next(block.text for block in blocks(section) if block.language == "json"))


def fields_of(value: Any) -> Any:
    """Return the names of a value's fields, at every depth; of a list, those of its first row."""
    if isinstance(value, dict):
        return {name: None if name in OPEN else fields_of(each) for name, each in value.items()}
    return [fields_of(each) for each in value[:1]] if isinstance(value, list) else None


@pytest.mark.parametrize("heading", [heading for heading in CONTRACT if heading != "crawlctl demo"])
def test_an_example_has_exactly_the_fields_of_the_contract(heading: str) -> None:
    assert fields_of(example(heading)) == fields_of(CONTRACT[heading])


def test_the_demo_shows_the_deploy_and_the_jobs() -> None:
    shown, made = example("crawlctl demo"), CONTRACT["crawlctl demo"]
    assert list(shown) == list(made)
    assert list(shown["deploy"]) == list(made["deploy"])


def test_the_example_of_a_build_is_what_the_command_gives(tmp_path: Path) -> None:
    project = ROOT / "projects" / "shop"
    built = run_crawlctl("build", str(project), "--check", "--output", "json", cwd=tmp_path).expect().json()
    assert list(example("crawlctl build")) == list(built)


def test_the_example_of_an_error_is_what_a_failure_gives(tmp_path: Path) -> None:
    failed = run_crawlctl("docs", "no-such-topic", "--output", "json", cwd=tmp_path).expect(7).json()
    assert fields_of(example("Errors")) == fields_of(failed)


def test_every_command_with_a_result_is_in_the_topic() -> None:
    headings = re.findall(r"^## (crawlctl .+)$", TEXT, re.MULTILINE)
    told = {*headings, *(span.removesuffix(" ID") for span in spans(TEXT))}
    told |= {heading.removesuffix(" --dry-run").removesuffix(" --history") for heading in headings}
    without_contract = {
        "crawlctl top",
        "crawlctl web serve",
        "crawlctl docs",
        "crawlctl init",
        "crawlctl inventory schema",
    }
    assert {command.name for command in declared_commands()} - told == without_contract
